//! The *engine* holds models and the sessions that run on them, and answers one command at a time with one reply.
//!
//! It knows no worker and no browser: the device and the clock are given to it, so that the tests can run it as it is.

use std::collections::HashMap;
use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::{LanguageModel, Model, Session, Tokenizer, import};
use inferscope_trace::{
    Command, Fault, FaultKind, ModelId, ModelInfo, NamedFile, Observe, Reply, Sampling, SessionId, Settings, Subject,
    TokenId,
};

use crate::fault::{self, fault, subject_of};
use crate::inbox::Arrival;
use crate::probe::{self, Measured};
use crate::warm_up::WarmUp;

struct Loaded {
    model: Rc<Model>,
    tokenizer: Tokenizer,
}

struct Opened {
    model: ModelId,
    session: Session<Model>,
}

impl Opened {
    fn branch(&self, step: usize, token: TokenId, max_new_tokens: usize) -> Result<Self, Fault> {
        let session = self.session.branch(step, token, max_new_tokens).map_err(fault::of_session)?;
        Ok(Self { model: self.model.clone(), session })
    }
}

/// `C` tells the time in milliseconds from any fixed moment.
pub struct Engine<C> {
    device: Device,
    clock: C,
    warm_up: WarmUp,
    models: HashMap<ModelId, Loaded>,
    sessions: HashMap<SessionId, Opened>,
    /// Shapes that were warmed up, without a name: what a device prepares depends on them alone and stays prepared.
    warm: Vec<ModelInfo>,
}

impl<C: Fn() -> f64> Engine<C> {
    pub fn new(device: Device, clock: C, warm_up: WarmUp) -> Self {
        Self { device, clock, warm_up, models: HashMap::new(), sessions: HashMap::new(), warm: Vec::new() }
    }

    /// Does what a command asks. A command that fails leaves the engine as it was.
    pub async fn answer(&mut self, arrival: Arrival) -> Reply {
        let command = match arrival {
            Ok(command) => command,
            Err(fault) => return Reply::Failed { subject: Subject::Engine, fault },
        };
        let subject = subject_of(&command);
        let answered = match command {
            Command::Load { model, files } => self.load(model, &files).await,
            Command::Forget { model } => Ok(self.forget(model)),
            Command::Tokenize { request, model, text } => self.tokenize(request, &model, &text),
            Command::Open { session, model, prompt, generated, settings } => {
                self.open(session, model, &prompt, generated, settings)
            }
            Command::Step { session, sampling, observe } => self.step(session, &sampling, observe).await,
            Command::Inspect { session, step, observe } => self.inspect(session, step, observe).await,
            Command::Branch { session, from, step, token, max_new_tokens } => {
                let opened = self.sessions.get(&from).ok_or_else(|| not_open(from));
                opened
                    .and_then(|opened| opened.branch(step, token, max_new_tokens))
                    .map(|opened| self.add(session, opened))
            }
            Command::Probe { request } => self.probe(request).await,
            Command::Close { session } => {
                self.sessions.remove(&session);
                Ok(Reply::Closed { session })
            }
        };
        answered.unwrap_or_else(|fault| Reply::Failed { subject, fault })
    }

    async fn load(&mut self, id: ModelId, files: &[NamedFile]) -> Result<Reply, Fault> {
        let imported = import(files).map_err(fault::of_import)?;
        let model = Rc::new(Model::load(&id, &imported.checkpoint, &self.device));
        let tokenizer = imported.tokenizer;
        let shape = ModelInfo { id: ModelId::new(), ..model.info().clone() };
        if !self.warm.contains(&shape) {
            self.warm_up.run(&model, &tokenizer).await.map_err(fault::of_session)?;
            self.warm.push(shape);
        }
        let reply = Reply::Ready { model: model.info().clone(), vocabulary: tokenizer.vocabulary().clone() };
        self.close_sessions_on(&id);
        self.models.insert(id, Loaded { model, tokenizer });
        Ok(reply)
    }

    fn forget(&mut self, id: ModelId) -> Reply {
        self.close_sessions_on(&id);
        self.models.remove(&id);
        Reply::Forgotten { model: id }
    }

    fn close_sessions_on(&mut self, id: &ModelId) {
        self.sessions.retain(|_, opened| opened.model != *id);
    }

    fn tokenize(&self, request: u32, id: &ModelId, text: &str) -> Result<Reply, Fault> {
        Ok(Reply::Tokenized { request, tokens: self.model(id)?.tokenizer.encode(text) })
    }

    fn open(
        &mut self,
        id: SessionId,
        model: ModelId,
        prompt: &str,
        generated: Vec<TokenId>,
        settings: Settings,
    ) -> Result<Reply, Fault> {
        let loaded = self.model(&model)?;
        let session = Session::open(loaded.model.clone(), &loaded.tokenizer, prompt, generated, settings)
            .map_err(fault::of_session)?;
        let prompt = session.prompt().to_vec();
        self.sessions.insert(id, Opened { model, session });
        Ok(Reply::Opened { session: id, prompt })
    }

    async fn step(&mut self, id: SessionId, sampling: &Sampling, observe: Observe) -> Result<Reply, Fault> {
        let begin = (self.clock)();
        let (mut step, finish) = self.session(id)?.step(sampling, observe).await.map_err(fault::of_session)?;
        step.milliseconds = (self.clock)() - begin;
        Ok(Reply::Stepped { session: id, step, finish })
    }

    /// Takes a branch in.
    fn add(&mut self, id: SessionId, branch: Opened) -> Reply {
        let (columns, finish) = (branch.session.columns(), branch.session.finish());
        self.sessions.insert(id, branch);
        Reply::Branched { session: id, columns, finish }
    }

    async fn probe(&self, request: u32) -> Result<Reply, Fault> {
        let measured = probe::measure(&self.device, &self.clock).await;
        let Measured { flops, bytes } = measured.map_err(|error| fault(FaultKind::Device, error))?;
        Ok(Reply::Probed { request, flops, bytes })
    }

    async fn inspect(&mut self, id: SessionId, step: usize, observe: Observe) -> Result<Reply, Fault> {
        let (attention, kv) = self.session(id)?.inspect(step, observe).await.map_err(fault::of_session)?;
        Ok(Reply::Inspected { session: id, step, attention, kv })
    }

    fn model(&self, id: &ModelId) -> Result<&Loaded, Fault> {
        self.models
            .get(id)
            .ok_or_else(|| fault(FaultKind::Internal, format!("the page named the model {id}, which is not loaded")))
    }

    fn session(&mut self, id: SessionId) -> Result<&mut Session<Model>, Fault> {
        let opened = self.sessions.get_mut(&id);
        opened.map(|opened| &mut opened.session).ok_or_else(|| not_open(id))
    }
}

fn not_open(id: SessionId) -> Fault {
    fault(FaultKind::Internal, format!("the page named session {id}, which is not open"))
}

#[cfg(all(test, feature = "cpu"))]
mod tests;

//! The *engine* holds a model and the sessions that run on it, and answers one command at a time with one reply.
//!
//! It knows no worker and no browser: the device and the clock are given to it, so that the tests can run it as it is.

use std::collections::HashMap;
use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::{Checkpoint, LanguageModel, Model, Session, Tokenizer};
use inferscope_trace::{Command, Fault, FaultKind, Observe, Reply, Sampling, SessionId, Settings, TokenId};

use crate::fault::{self, fault, session_of};
use crate::inbox::Arrival;
use crate::warm_up::WarmUp;

struct Loaded {
    model: Rc<Model>,
    tokenizer: Tokenizer,
}

/// `C` tells the time in milliseconds from any fixed moment.
pub struct Engine<C> {
    device: Device,
    clock: C,
    warm_up: WarmUp,
    loaded: Option<Loaded>,
    sessions: HashMap<SessionId, Session<Model>>,
}

impl<C: Fn() -> f64> Engine<C> {
    pub fn new(device: Device, clock: C, warm_up: WarmUp) -> Self {
        Self { device, clock, warm_up, loaded: None, sessions: HashMap::new() }
    }

    /// Does what a command asks. A command that fails leaves the engine as it was.
    pub async fn answer(&mut self, arrival: Arrival) -> Reply {
        let command = match arrival {
            Ok(command) => command,
            Err(fault) => return Reply::Failed { session: None, fault },
        };
        let session = session_of(&command);
        let answered = match command {
            Command::Load { model_id, checkpoint, tokenizer } => self.load(&model_id, &checkpoint, &tokenizer).await,
            Command::Tokenize { request, text } => self.tokenize(request, &text),
            Command::Open { session, prompt, generated, settings } => self.open(session, &prompt, generated, settings),
            Command::Step { session, sampling, observe } => self.step(session, &sampling, observe).await,
            Command::Inspect { session, step, observe } => self.inspect(session, step, observe).await,
            Command::Close { session } => {
                self.sessions.remove(&session);
                Ok(Reply::Closed { session })
            }
        };
        answered.unwrap_or_else(|fault| Reply::Failed { session, fault })
    }

    async fn load(&mut self, model_id: &str, checkpoint: &[u8], tokenizer: &[u8]) -> Result<Reply, Fault> {
        let checkpoint = Checkpoint::parse(checkpoint).map_err(fault::of_checkpoint)?;
        let tokenizer = Tokenizer::parse(tokenizer, checkpoint.shape.vocab_size).map_err(fault::of_tokenizer)?;
        let model = Rc::new(Model::load(model_id, &checkpoint, &self.device));
        self.warm_up.run(&model, &tokenizer).await.map_err(fault::of_session)?;
        let reply = Reply::Ready { model: model.info().clone(), vocabulary: tokenizer.vocabulary().clone() };
        self.sessions.clear();
        self.loaded = Some(Loaded { model, tokenizer });
        Ok(reply)
    }

    fn tokenize(&self, request: u32, text: &str) -> Result<Reply, Fault> {
        Ok(Reply::Tokenized { request, tokens: self.loaded()?.tokenizer.encode(text) })
    }

    fn open(
        &mut self,
        id: SessionId,
        prompt: &str,
        generated: Vec<TokenId>,
        settings: Settings,
    ) -> Result<Reply, Fault> {
        let Loaded { model, tokenizer } = self.loaded()?;
        let session =
            Session::open(model.clone(), tokenizer, prompt, generated, settings).map_err(fault::of_session)?;
        let prompt = session.prompt().to_vec();
        self.sessions.insert(id, session);
        Ok(Reply::Opened { session: id, prompt })
    }

    async fn step(&mut self, id: SessionId, sampling: &Sampling, observe: Observe) -> Result<Reply, Fault> {
        let begin = (self.clock)();
        let (mut step, finish) = self.session(id)?.step(sampling, observe).await.map_err(fault::of_session)?;
        step.milliseconds = (self.clock)() - begin;
        Ok(Reply::Stepped { session: id, step, finish })
    }

    async fn inspect(&mut self, id: SessionId, step: usize, observe: Observe) -> Result<Reply, Fault> {
        let (attention, kv) = self.session(id)?.inspect(step, observe).await.map_err(fault::of_session)?;
        Ok(Reply::Inspected { session: id, step, attention, kv })
    }

    fn loaded(&self) -> Result<&Loaded, Fault> {
        self.loaded
            .as_ref()
            .ok_or_else(|| fault(FaultKind::Internal, "the page asked for a model before any was loaded"))
    }

    fn session(&mut self, id: SessionId) -> Result<&mut Session<Model>, Fault> {
        self.loaded()?;
        self.sessions
            .get_mut(&id)
            .ok_or_else(|| fault(FaultKind::Internal, format!("the page named session {id}, which is not open")))
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests;

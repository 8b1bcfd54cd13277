//! The *engine* holds models and the sessions that run on them, and answers one command at a time with one reply.
//!
//! It knows no worker and no browser: the device and the clock are given to it, so that the tests can run it as it is.

use std::collections::HashMap;
use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::{LanguageModel, Model, Server, Session, Speculation, Tokenizer, import, score};
use inferscope_trace::{
    CacheLayout, Command, Fault, FaultKind, Finish, ModelId, ModelInfo, NamedFile, Observe, Phase, Reply, Request,
    Sampling, ServingSettings, SessionId, Settings, Step, Subject, TokenId,
};

use crate::batches;

use crate::fault::{self, fault, subject_of};
use crate::inbox::Arrival;
use crate::probe::{self, Measured};
use crate::warm_up::warm_up;

/// A rush ends its turn when so much time is over, that the page hears of it within a frame.
const TURN_MS: f64 = 10.0;

struct Loaded {
    model: Rc<Model>,
    tokenizer: Tokenizer,
}

/// What goes on under a session's number.
enum Run {
    Session(Session<Model>),
    Speculation(Speculation<Model>),
    Server(Server),
}

struct Opened {
    /// The models it needs.
    models: Vec<ModelId>,
    run: Run,
}

/// `C` tells the time in milliseconds from any fixed moment.
pub struct Engine<C> {
    device: Device,
    clock: C,
    models: HashMap<ModelId, Loaded>,
    sessions: HashMap<SessionId, Opened>,
    /// Shapes that were warmed up, without a name: what a device prepares depends on them alone and stays prepared.
    warm: Vec<ModelInfo>,
}

impl<C: Fn() -> f64> Engine<C> {
    pub fn new(device: Device, clock: C) -> Self {
        Self { device, clock, models: HashMap::new(), sessions: HashMap::new(), warm: Vec::new() }
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
            Command::Open { session, model, prompt, generated, settings, first } => {
                match self.open(session, model, &prompt, generated, settings) {
                    Ok(prompt) => self.opened(session, prompt, first).await,
                    Err(fault) => Err(fault),
                }
            }
            Command::Step { session, sampling, observe } => self.step(session, &sampling, observe).await,
            Command::Rush { session, sampling, observe } => self.rush(session, &sampling, observe).await,
            Command::Inspect { session, step, observe } => self.inspect(session, step, observe).await,
            Command::Branch { session, from, step, token, max_new_tokens } => {
                self.branch(session, from, step, token, max_new_tokens)
            }
            Command::Speculate { session, model, draft, prompt, settings } => {
                self.speculate(session, model, draft, &prompt, settings)
            }
            Command::Round { session, sampling, gamma } => self.round(session, &sampling, gamma).await,
            Command::Serve { session, model, requests, settings } => self.serve(session, model, requests, settings),
            Command::ServeStep { session } => self.serve_step(session).await,
            Command::MeasureBatches { request, model } => self.measure_batches(request, &model).await,
            Command::Score { request, model, text, layout } => self.score(request, &model, &text, &layout).await,
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
        Model::check(&imported.checkpoint.shape, &self.device).map_err(|error| fault(FaultKind::Model, error))?;
        let model = Rc::new(Model::load(&id, &imported.checkpoint, &self.device));
        let tokenizer = imported.tokenizer;
        let shape = ModelInfo { id: ModelId::new(), ..model.info().clone() };
        if !self.warm.contains(&shape) {
            warm_up(&model, &tokenizer).await.map_err(fault::of_session)?;
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
        self.sessions.retain(|_, opened| !opened.models.contains(id));
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
    ) -> Result<Vec<TokenId>, Fault> {
        let loaded = self.model(&model)?;
        let session = Session::open(loaded.model.clone(), &loaded.tokenizer, prompt, generated, settings)
            .map_err(fault::of_session)?;
        let prompt = session.prompt().to_vec();
        self.sessions.insert(id, Opened { models: vec![model], run: Run::Session(session) });
        Ok(prompt)
    }

    async fn opened(
        &mut self,
        id: SessionId,
        prompt: Vec<TokenId>,
        first: Option<(Sampling, Observe)>,
    ) -> Result<Reply, Fault> {
        let Some((sampling, observe)) = first else { return Ok(Reply::Opened { session: id, prompt, first: None }) };
        match self.timed_step(id, &sampling, observe).await {
            Ok(first) => Ok(Reply::Opened { session: id, prompt, first: Some(first) }),
            Err(fault) => {
                self.sessions.remove(&id);
                Err(fault)
            }
        }
    }

    async fn step(&mut self, id: SessionId, sampling: &Sampling, observe: Observe) -> Result<Reply, Fault> {
        let (step, finish) = self.timed_step(id, sampling, observe).await?;
        Ok(Reply::Stepped { session: id, step, finish })
    }

    /// With a message a step a quick engine waits for the page nearly half of the time, and comes back to cold caches.
    async fn rush(&mut self, id: SessionId, sampling: &Sampling, observe: Observe) -> Result<Reply, Fault> {
        let begin = (self.clock)();
        let (first, mut finish) = self.timed_step(id, sampling, observe).await?;
        let prefilled = first.phase == Phase::Prefill;
        let mut steps = vec![first];
        while !prefilled && finish.is_none() && (self.clock)() - begin < TURN_MS {
            // What fails now fails again in the next turn, which then has nothing else to tell.
            let Ok((step, ended)) = self.timed_step(id, sampling, observe).await else { break };
            steps.push(step);
            finish = ended;
        }
        // Browsers let the clock tick every 100 µs, which is nearly as long as a step: where it stood still, the turn's time is
        // shared.
        if steps.iter().any(|step| step.milliseconds <= 0.0) {
            let mean = steps.iter().map(|step| step.milliseconds).sum::<f64>() / steps.len() as f64;
            steps.iter_mut().for_each(|step| step.milliseconds = mean);
        }
        Ok(Reply::Rushed { session: id, steps, finish })
    }

    async fn timed_step(
        &mut self,
        id: SessionId,
        sampling: &Sampling,
        observe: Observe,
    ) -> Result<(Step, Option<Finish>), Fault> {
        let begin = (self.clock)();
        let (mut step, finish) = self.session(id)?.step(sampling, observe).await.map_err(fault::of_session)?;
        step.milliseconds = (self.clock)() - begin;
        Ok((step, finish))
    }

    fn branch(
        &mut self,
        id: SessionId,
        from: SessionId,
        step: usize,
        token: TokenId,
        max_new_tokens: usize,
    ) -> Result<Reply, Fault> {
        let session = self.session(from)?.branch(step, token, max_new_tokens).map_err(fault::of_session)?;
        let models = self.sessions.get(&from).map(|opened| opened.models.clone()).unwrap_or_default();
        let (columns, finish) = (session.columns(), session.finish());
        self.sessions.insert(id, Opened { models, run: Run::Session(session) });
        Ok(Reply::Branched { session: id, columns, finish })
    }

    fn speculate(
        &mut self,
        id: SessionId,
        model: ModelId,
        draft: ModelId,
        prompt: &str,
        settings: Settings,
    ) -> Result<Reply, Fault> {
        let (target, proposer) = (self.model(&model)?, self.model(&draft)?);
        let (tokenizer, target, proposer) = (&target.tokenizer, target.model.clone(), proposer.model.clone());
        let run = Speculation::open(target, proposer, tokenizer, prompt, settings).map_err(fault::of_session)?;
        let prompt = run.prompt().to_vec();
        self.sessions.insert(id, Opened { models: vec![model, draft], run: Run::Speculation(run) });
        Ok(Reply::Opened { session: id, prompt, first: None })
    }

    async fn round(&mut self, id: SessionId, sampling: &Sampling, gamma: usize) -> Result<Reply, Fault> {
        let Some(Run::Speculation(run)) = self.sessions.get_mut(&id).map(|opened| &mut opened.run) else {
            return Err(not_open(id));
        };
        let (round, finish) = run.round(sampling, gamma, &self.clock).await.map_err(fault::of_session)?;
        Ok(Reply::RoundDone { session: id, round, finish })
    }

    fn serve(
        &mut self,
        id: SessionId,
        model: ModelId,
        requests: Vec<Request>,
        settings: ServingSettings,
    ) -> Result<Reply, Fault> {
        let loaded = self.model(&model)?;
        let server =
            Server::open(loaded.model.clone(), &loaded.tokenizer, requests, settings).map_err(fault::of_server)?;
        let prompts = server.prompts();
        self.sessions.insert(id, Opened { models: vec![model], run: Run::Server(server) });
        Ok(Reply::Serving { session: id, prompts })
    }

    async fn serve_step(&mut self, id: SessionId) -> Result<Reply, Fault> {
        let begin = (self.clock)();
        let Some(Run::Server(server)) = self.sessions.get_mut(&id).map(|opened| &mut opened.run) else {
            return Err(not_open(id));
        };
        let mut step = server.step().await.map_err(fault::of_server)?;
        let finished = server.is_finished();
        step.milliseconds = (self.clock)() - begin;
        Ok(Reply::ServeStepped { session: id, step, finished })
    }

    async fn measure_batches(&self, request: u32, model: &ModelId) -> Result<Reply, Fault> {
        let measured = batches::measure(&self.model(model)?.model, &self.clock).await;
        let points = measured.map_err(|error| fault(FaultKind::Device, error))?;
        Ok(Reply::BatchesMeasured { request, points })
    }

    async fn score(&self, request: u32, model: &ModelId, text: &str, layout: &CacheLayout) -> Result<Reply, Fault> {
        let loaded = self.model(model)?;
        let mut tokens = loaded.tokenizer.encode(text);
        tokens.truncate(loaded.model.info().context);
        let nats = score(loaded.model.as_ref(), &tokens, layout).await;
        let nats = nats.map_err(|error| fault(FaultKind::Device, error))?;
        Ok(Reply::Scored { request, nats, tokens: tokens.len() - 1 })
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
        match self.sessions.get_mut(&id).map(|opened| &mut opened.run) {
            Some(Run::Session(session)) => Ok(session),
            _ => Err(not_open(id)),
        }
    }
}

fn not_open(id: SessionId) -> Fault {
    fault(FaultKind::Internal, format!("the page named session {id}, which is not open"))
}

#[cfg(all(test, feature = "cpu"))]
mod tests;

//! *Groups*: the same prompt on the models of this project that differ only in how many query heads share a KV head.

use inferscope_stage::EngineStatus;
use inferscope_trace::{BackendKind, Command, Observe, Reply, SessionId, Subject, TokenId};

use super::Widget;
use crate::{
    hub::Loaded,
    models::{MODELS, ModelRow},
};

#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Its model is on its way.
    Waiting,
    Running,
    Ended,
    Failed(String),
}

/// One model's run.
#[derive(Clone)]
pub struct GroupRun {
    pub row: &'static ModelRow,
    pub loaded: Option<Loaded>,
    pub prompt: Vec<TokenId>,
    pub tokens: Vec<TokenId>,
    /// Of all decode steps.
    pub milliseconds: Vec<f64>,
    pub progress: Progress,
    session: SessionId,
}

/// The models that are compared: those of the main shape.
pub fn siblings() -> impl Iterator<Item = &'static ModelRow> {
    MODELS.iter().filter(|row| row.sibling)
}

impl Widget {
    /// Runs the prompt on every one of them, with the settings as they are.
    pub fn run_groups(self) {
        let inner = self.inner();
        let kind = inner.session_on.get().or_else(|| inner.hub.any_ready(&self.model.get_untracked()));
        let Some(kind) = kind else { return };
        self.close_groups();
        let first = !inner.groups_retained.replace(true);
        let runs = siblings().map(|row| {
            if first {
                inner.hub.retain(row.id);
            }
            GroupRun {
                row,
                loaded: None,
                prompt: Vec::new(),
                tokens: Vec::new(),
                milliseconds: Vec::new(),
                progress: Progress::Waiting,
                session: inner.hub.fresh_id(),
            }
        });
        self.groups.set(runs.collect());
        inner.groups_on.set(Some(kind));
        for row in siblings() {
            inner.hub.forgive(row.id);
            inner.hub.start(kind, row.id);
        }
        self.go_on_with_groups();
    }

    /// Opens a session for every model that has come.
    pub(super) fn go_on_with_groups(self) {
        let inner = self.inner();
        let Some(kind) = inner.groups_on.get() else { return };
        let waits = self.groups.with_untracked(|runs| runs.iter().any(|run| run.progress == Progress::Waiting));
        if !waits {
            return;
        }
        let (prompt, settings) = (self.prompt.get_untracked(), self.settings.get_untracked());
        self.groups.update(|runs| {
            for run in runs.iter_mut().filter(|run| run.progress == Progress::Waiting) {
                match inner.hub.status(kind, run.row.id) {
                    EngineStatus::Ready { .. } => {
                        run.loaded = inner.hub.loaded(run.row.id);
                        run.progress = Progress::Running;
                        let (session, model) = (run.session, run.row.id.to_string());
                        let (prompt, settings) = (prompt.clone(), settings.clone());
                        let generated = Vec::new();
                        inner
                            .hub
                            .send(kind, &Command::Open { session, model, prompt, generated, settings, first: None });
                    }
                    EngineStatus::Failed(message) => run.progress = Progress::Failed(message),
                    EngineStatus::Off | EngineStatus::Starting => {}
                }
            }
        });
    }

    /// What an engine replies to their sessions.
    pub fn hear_of_groups(self, reply: &Reply) {
        match reply {
            Reply::Opened { session, prompt, .. } => {
                self.with_group(*session, |run| run.prompt = prompt.clone(), false)
            }
            Reply::Stepped { session, step, finish } => {
                let add = |run: &mut GroupRun| {
                    run.tokens.push(step.token);
                    if step.index > 0 {
                        run.milliseconds.push(step.milliseconds);
                    }
                };
                self.with_group(*session, add, finish.is_some());
            }
            Reply::Failed { subject: Subject::Session(session), fault } => {
                self.with_group(*session, |run| run.progress = Progress::Failed(fault.message.clone()), true);
            }
            _ => {}
        }
    }

    /// Changes a run if this is the session of one, and has the engine go on with it or close it.
    fn with_group(self, session: SessionId, change: impl FnOnce(&mut GroupRun), ended: bool) {
        let inner = self.inner();
        let Some(kind) = inner.groups_on.get() else { return };
        if !self.groups.with_untracked(|runs| runs.iter().any(|run| run.session == session)) {
            return;
        }
        let sampling = self.settings.with_untracked(|settings| settings.sampling.clone());
        self.groups.update(|runs| {
            let Some(run) = runs.iter_mut().find(|run| run.session == session) else { return };
            change(run);
            let command = if ended {
                if run.progress == Progress::Running {
                    run.progress = Progress::Ended;
                }
                Command::Close { session }
            } else {
                Command::Step { session, sampling, observe: Observe::default() }
            };
            inner.hub.send(kind, &command);
        });
    }

    fn close_groups(self) {
        let inner = self.inner();
        let Some(kind) = inner.groups_on.take() else { return };
        let running: Vec<SessionId> = self.groups.with_untracked(|runs| {
            runs.iter().filter(|run| run.progress == Progress::Running).map(|run| run.session).collect()
        });
        for session in running {
            inner.hub.send(kind, &Command::Close { session });
        }
    }

    /// The widget leaves: nothing is run any more, and the models are free to go.
    pub(super) fn leave_groups(self) {
        self.close_groups();
        let inner = self.inner();
        if inner.groups_retained.replace(false) {
            siblings().for_each(|row| inner.hub.release(row.id));
        }
    }

    /// An engine is gone, and what ran on it can not go on.
    pub(super) fn lose_groups(self, lost: BackendKind) {
        if self.inner().groups_on.get() == Some(lost) {
            self.inner().groups_on.set(None);
            self.groups.update(|runs| {
                for run in runs.iter_mut().filter(|run| matches!(run.progress, Progress::Waiting | Progress::Running)) {
                    run.progress = Progress::Failed("The engine was lost; run it again.".into());
                }
            });
        }
    }
}

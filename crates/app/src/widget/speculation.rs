//! Runs with a draft model: what is asked of the engine, and what its rounds do to the record.

use std::sync::Arc;

use inferscope_stage::Event;
use inferscope_trace::{
    BackendKind, Command, Finish, Observe, Prompt, Reply, Round, SessionId, SpeculationTrace, Step, TokenId,
};

use super::Widget;
use crate::api;

/// The model that proposes.
pub const DRAFT: &str = "story-draft";

impl Widget {
    pub(super) fn open_pair(self, kind: BackendKind) {
        let inner = self.inner();
        let session = inner.hub.fresh_id();
        inner.session.set(session);
        inner.session_on.set(Some(kind));
        let known = self.speculation.with_untracked(|trace| {
            trace.as_ref().map(|trace| (trace.rounds.len(), trace.prompt.text.clone(), trace.settings.clone()))
        });
        // A run that moves to another engine is made again up to where it was: the same seed gives the same tokens.
        let (rounds, prompt, settings) =
            known.unwrap_or_else(|| (0, self.prompt.get_untracked(), self.settings.get_untracked()));
        inner.replay.set(rounds);
        let model = self.model.get_untracked();
        inner.hub.send(kind, &Command::Speculate { session, model, draft: DRAFT.into(), prompt, settings });
    }

    /// What an engine replies to a run of a draft and a target, or to the target by itself.
    pub fn hear_of_rounds(self, reply: &Reply) {
        let inner = self.inner();
        let (mine, twin) = (inner.session.get(), inner.twin.get());
        match reply {
            Reply::Opened { session, prompt, .. }
                if *session == mine && self.speculation.with_untracked(Option::is_none) =>
            {
                self.begin_speculation(prompt.clone());
            }
            Reply::RoundDone { session, round, finish } if *session == mine => self.on_round(round, *finish),
            Reply::Opened { session, .. } if *session == twin && twin != 0 => self.on_alone_opened(*session),
            Reply::Stepped { session, step, finish } if *session == twin => {
                self.on_alone_stepped(*session, step, *finish);
            }
            _ => {}
        }
    }

    fn begin_speculation(self, tokens: Vec<TokenId>) {
        let inner = self.inner();
        let (target, draft) = (inner.hub.loaded(&self.model.get_untracked()), inner.hub.loaded(DRAFT));
        let (Some(kind), Some(target), Some(draft)) = (inner.session_on.get(), target, draft) else { return };
        let reason = self.engine.with_untracked(|engine| engine.reason.clone());
        inner.step_objects.take();
        self.target_pass.set(None);
        self.speculation.set(Some(SpeculationTrace {
            target: target.model,
            draft: draft.model,
            vocabulary: target.vocabulary,
            backend: self.backend(kind, reason),
            settings: self.settings.get_untracked(),
            prompt: Prompt { text: self.prompt.get_untracked(), tokens },
            rounds: Vec::new(),
            finish: None,
        }));
    }

    fn on_round(self, round: &Round, finish: Option<Finish>) {
        let inner = self.inner();
        if inner.replay.get() > 0 {
            inner.replay.set(inner.replay.get() - 1);
            return self.request_step();
        }
        self.speculation.update_untracked(|trace| {
            if let Some(trace) = trace {
                trace.rounds.push(Arc::new(round.clone()));
                trace.finish = finish;
            }
        });
        self.tell_of_step(&api::to_js(round), finish.is_some());
        self.dispatch(Event::Stepped { finished: finish.is_some() });
        if finish.is_some() {
            self.time_the_target_alone();
        }
    }

    /// The target writes as many tokens by itself in the background: what the rounds are held against.
    fn time_the_target_alone(self) {
        let inner = self.inner();
        let Some(kind) = inner.session_on.get() else { return };
        let known = self
            .speculation
            .with_untracked(|trace| trace.as_ref().map(|trace| (trace.prompt.text.clone(), trace.settings.clone())));
        let Some((prompt, settings)) = known else { return };
        let session = inner.hub.fresh_id();
        inner.twin.set(session);
        inner.alone.take();
        let model = self.model.get_untracked();
        inner.hub.send(kind, &Command::Open { session, model, prompt, generated: Vec::new(), settings, first: None });
    }

    fn on_alone_opened(self, session: SessionId) {
        let sampling = self.speculation.with_untracked(|trace| trace.as_ref().map(|it| it.settings.sampling.clone()));
        let inner = self.inner();
        if let (Some(kind), Some(sampling)) = (inner.session_on.get(), sampling) {
            inner.hub.send(kind, &Command::Step { session, sampling, observe: Observe::default() });
        }
    }

    fn on_alone_stepped(self, session: SessionId, step: &Step, finish: Option<Finish>) {
        let inner = self.inner();
        if step.index > 0 {
            inner.alone.borrow_mut().push(step.milliseconds);
        }
        if finish.is_none() {
            return self.on_alone_opened(session);
        }
        let mut times = inner.alone.take();
        times.sort_by(f64::total_cmp);
        self.target_pass.set(times.get(times.len() / 2).copied().filter(|time| *time > 0.0));
        inner.twin.set(0);
        if let Some(kind) = inner.session_on.get() {
            inner.hub.send(kind, &Command::Close { session });
        }
    }
}

//! Runs with a draft model: what is asked of the engine, and what its rounds do to the record.

use std::sync::Arc;

use inferscope_stage::Event;
use inferscope_trace::{BackendKind, Command, Finish, Prompt, Round, SpeculationTrace, TokenId};
use leptos::prelude::*;

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

    pub(super) fn begin_speculation(self, tokens: Vec<TokenId>) {
        let inner = self.inner();
        let (target, draft) = (inner.hub.loaded(&self.model.get_untracked()), inner.hub.loaded(DRAFT));
        let (Some(kind), Some(target), Some(draft)) = (inner.session_on.get(), target, draft) else { return };
        let reason = self.engine.with_untracked(|engine| engine.reason.clone());
        inner.step_objects.take();
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

    pub(super) fn on_round(self, round: &Round, finish: Option<Finish>) {
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
    }
}

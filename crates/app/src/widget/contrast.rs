//! A *contrast* is one prefix written on with several settings: each continuation is a branch of the run on screen, so all of
//! them share its columns of the cache, and none of them computes the prefix again.

use inferscope_sampler::draw;
use inferscope_stage::PRESETS;
use inferscope_trace::{BackendKind, Command, Observe, Reply, Sampling, SessionId, TokenId};

use super::Widget;

/// Tokens that each continuation writes at most.
const LENGTH: usize = 36;

/// How far the continuation with one preset has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Continuation {
    /// Columns of the cache that it took over, once the engine has told.
    pub reused: Option<usize>,
    pub tokens: Vec<TokenId>,
    pub ended: bool,
    sampling: Sampling,
    session: SessionId,
}

/// The continuations of one step, one for each preset.
#[derive(Clone, Debug, PartialEq)]
pub struct Contrast {
    pub step: usize,
    pub all: Vec<Continuation>,
    engine: BackendKind,
}

impl Contrast {
    pub(super) fn runs_on(&self, engine: BackendKind) -> bool {
        self.engine == engine
    }
}

impl Widget {
    /// Writes on from step `step` with each preset. The first token comes from the step's own logits and coin.
    pub fn contrast(self, step: usize) {
        self.end_contrast();
        let inner = self.inner();
        let Some(engine) = inner.session_on.get() else { return };
        let from = inner.session.get();
        let all = self.trace.with_untracked(|trace| {
            let trace = trace.as_ref()?;
            let recorded = trace.steps.get(step)?;
            let start = |sampling: Sampling| {
                let session = inner.hub.fresh_id();
                let token = draw(&recorded.logits, &sampling, recorded.coin);
                // However long the run on screen was to be.
                let max_new_tokens = step + LENGTH;
                inner.hub.send(engine, &Command::Branch { session, from, step, token, max_new_tokens });
                Continuation { tokens: vec![token], sampling, session, ..Continuation::default() }
            };
            Some(PRESETS.iter().map(|preset| start(preset.sampling(trace.model.vocab_size))).collect())
        });
        self.contrast.set(all.map(|all| Contrast { step, all, engine }));
    }

    /// Puts the continuations away.
    pub fn end_contrast(self) {
        let Some(contrast) = self.contrast.get_untracked() else { return };
        for it in contrast.all.iter().filter(|it| !it.ended) {
            self.inner().hub.send(contrast.engine, &Command::Close { session: it.session });
        }
        self.contrast.set(None);
    }

    /// What an engine replies to a continuation's session.
    pub fn hear_of_contrast(self, reply: &Reply) {
        match reply {
            Reply::Branched { session, columns, finish } => self.with_continuation(*session, |it| {
                it.reused = Some(*columns);
                it.ended = finish.is_some();
            }),
            Reply::Stepped { session, step, finish } => self.with_continuation(*session, |it| {
                it.tokens.push(step.token);
                it.ended = finish.is_some();
            }),
            _ => {}
        }
    }

    fn with_continuation(self, session: SessionId, change: impl FnOnce(&mut Continuation)) {
        let mut next = None;
        self.contrast.update(|contrast| {
            let Some(contrast) = contrast else { return };
            let engine = contrast.engine;
            if let Some(it) = contrast.all.iter_mut().find(|it| it.session == session) {
                change(it);
                let observe = Observe::default();
                let command = match it.ended {
                    true => Command::Close { session },
                    false => Command::Step { session, sampling: it.sampling.clone(), observe },
                };
                next = Some((engine, command));
            }
        });
        if let Some((engine, command)) = next {
            self.inner().hub.send(engine, &command);
        }
    }
}

//! Branching: another token at a step, and the runs that came of it. Their sessions stay open in the engine, so going on with
//! any of them computes nothing again.

use std::sync::Arc;

use inferscope_stage::{BranchRow, Branches, Event};
use inferscope_trace::{BackendKind, Command, Finish, SessionId, Step, TokenId};

use super::Widget;
use crate::api;

/// What belongs to a branch beside its trace.
#[derive(Clone, Default)]
pub(super) struct Kept {
    session: Option<(BackendKind, SessionId)>,
    objects: js_sys::Array,
}

impl Widget {
    /// Goes on from step `step` with `token` in place of the one there. Says whether there is such a step and token.
    pub fn branch(self, step: usize, token: TokenId) -> bool {
        let inner = self.inner();
        let known = self.trace.with_untracked(|trace| {
            trace.as_ref().is_some_and(|trace| step < trace.steps.len() && (token as usize) < trace.model.vocab_size)
        });
        if !known {
            return false;
        }
        self.abort("The run went on with another token.");
        let (first, left) = self.branches.with_untracked(|branches| (branches.is_empty(), branches.current()));
        let mut forked = None;
        self.branches.update_untracked(|branches| {
            forked = self.trace.with_untracked(|trace| branches.fork(trace.as_ref()?, step, token));
        });
        let Some(trace) = forked else { return false };
        let leaving = Kept { session: self.take_session(), objects: inner.step_objects.take() };
        let objects = leaving.objects.slice(0, step as u32);
        objects.push(&api::step_object(&trace.vocabulary, &trace.steps[step]));
        let from = leaving.session;
        {
            let mut kept = inner.branches.borrow_mut();
            if first {
                kept.push(leaving);
            } else {
                kept[left] = leaving;
            }
            kept.push(Kept::default());
        }
        inner.step_objects.replace(objects);
        if let Some((kind, from)) = from {
            let session = inner.hub.fresh_id();
            inner.session.set(session);
            inner.session_on.set(Some(kind));
            let max_new_tokens = trace.settings.max_new_tokens;
            inner.hub.send(kind, &Command::Branch { session, from, step, token, max_new_tokens });
        }
        self.trace.set(Some(trace));
        self.thin_out();
        self.branches.notify();
        self.dispatch(Event::Adopted { recorded: step + 1, finished: false, open: from.is_some() });
        if from.is_none() {
            self.dispatch(Event::Play);
        }
        true
    }

    /// The branch that has this session and is not on screen. What its engine still answers is recorded, so that nothing is
    /// missing when it is shown again.
    pub(super) fn left_branch(self, session: SessionId) -> Option<usize> {
        let inner = self.inner();
        let kept = inner.branches.borrow();
        kept.iter().position(|kept| kept.session.is_some_and(|(_, own)| own == session))
    }

    pub(super) fn on_left_branched(self, index: usize, columns: usize, finish: Option<Finish>) {
        self.branches.update(|branches| {
            branches.set_reused(index, columns);
            branches.end(index, finish);
        });
    }

    pub(super) fn on_left_stepped(self, index: usize, step: &Step, finish: Option<Finish>) {
        let vocabulary = self.trace.with_untracked(|trace| trace.as_ref().map(|trace| trace.vocabulary.clone()));
        if let Some(vocabulary) = vocabulary {
            self.inner().branches.borrow()[index].objects.push(&api::step_object(&vocabulary, step));
        }
        self.branches.update(|branches| branches.push_step(index, step.clone(), finish));
    }

    /// The engine has made the branch on screen.
    pub(super) fn on_branched(self, columns: usize, finish: Option<Finish>) {
        self.branches.update(|branches| branches.set_reused(branches.current(), columns));
        if finish.is_some() {
            self.trace.update(|trace| {
                if let Some(trace) = trace {
                    trace.finish = finish;
                }
            });
            let recorded = self.trace.with_untracked(|trace| trace.as_ref().map_or(0, |trace| trace.steps.len()));
            self.dispatch(Event::Adopted { recorded, finished: true, open: true });
        } else {
            self.dispatch(Event::Play);
        }
    }

    /// Puts another branch on screen, at its end.
    pub fn show_branch(self, index: usize) {
        let inner = self.inner();
        let current = self.branches.with_untracked(Branches::current);
        if index == current {
            return;
        }
        self.abort("Another branch was chosen.");
        let mut chosen = None;
        self.branches.update_untracked(|branches| {
            chosen = self.trace.with_untracked(|trace| branches.switch(trace.as_ref()?, index));
        });
        let Some(trace) = chosen else { return };
        let leaving = Kept { session: self.take_session(), objects: inner.step_objects.take() };
        let coming = {
            let mut kept = inner.branches.borrow_mut();
            kept[current] = leaving;
            std::mem::take(&mut kept[index])
        };
        inner.step_objects.replace(coming.objects);
        if let Some((kind, session)) = coming.session {
            inner.session.set(session);
            inner.session_on.set(Some(kind));
        }
        let (recorded, finished) = (trace.steps.len(), trace.finish.is_some());
        self.trace.set(Some(trace));
        self.branches.notify();
        self.dispatch(Event::Adopted { recorded, finished, open: coming.session.is_some() });
    }

    pub fn branch_rows(self) -> Vec<BranchRow> {
        self.branches.with(|branches| {
            self.trace.with(|trace| trace.as_ref().map(|trace| branches.rows(trace)).unwrap_or_default())
        })
    }

    /// Takes the session on screen away without closing it.
    fn take_session(self) -> Option<(BackendKind, SessionId)> {
        let inner = self.inner();
        inner.looks.set(0);
        let session = inner.session.replace(0);
        inner.session_on.take().map(|kind| (kind, session))
    }

    /// Closes what is more than the tree keeps.
    fn thin_out(self) {
        let inner = self.inner();
        self.branches.update_untracked(|branches| {
            while let Some(index) = branches.surplus() {
                branches.remove(index);
                let kept = inner.branches.borrow_mut().remove(index);
                self.close(&kept);
            }
        });
    }

    fn close(self, kept: &Kept) {
        if let Some((kind, session)) = kept.session {
            self.inner().hub.send(kind, &Command::Close { session });
        }
    }

    /// A new run begins, or this one is forgotten: its branches go with it.
    pub(super) fn forget_branches(self) {
        self.end_contrast();
        for kept in self.inner().branches.take() {
            self.close(&kept);
        }
        if self.branches.with_untracked(|branches| !branches.is_empty()) {
            self.branches.set(Branches::default());
        }
    }

    /// An engine is gone, and its sessions with it.
    pub(super) fn lose_branch_sessions(self, lost: BackendKind) {
        self.contrast.update(|contrast| {
            if let Some(contrast) = contrast.as_mut().filter(|contrast| contrast.runs_on(lost)) {
                contrast.all.iter_mut().for_each(|it| it.ended = true);
            }
        });
        for kept in self.inner().branches.borrow_mut().iter_mut() {
            kept.session = kept.session.filter(|(kind, _)| *kind != lost);
        }
    }

    /// The run on screen has a token in it that the reader chose.
    pub(super) fn is_branch(self) -> bool {
        self.trace.with_untracked(|trace| {
            trace.as_ref().is_some_and(|trace| trace.steps.iter().map(Arc::as_ref).any(|step| step.chosen))
        })
    }
}

//! *Branches* are the runs that came from one by putting another token in place of one that was drawn: a small tree, of which
//! one run is on screen. It knows no session; whoever keeps those does so by a branch's index.

use std::sync::Arc;

use inferscope_trace::{Finish, Step, TokenId, Trace};

use crate::format;

#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The run it came from and the step whose token was replaced; the first run came from none.
    pub from: Option<(usize, usize)>,
    /// As it was when it was left; that of the run on screen is kept elsewhere.
    pub trace: Trace,
    /// Columns of the cache that were taken over, once an engine has told.
    pub reused: Option<usize>,
}

/// More are not kept: the oldest goes, but not the first of all nor the one on screen.
const MOST: usize = 8;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Branches {
    all: Vec<Branch>,
    current: usize,
}

/// A line of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct BranchRow {
    pub index: usize,
    /// How many runs stand between it and the first.
    pub depth: usize,
    pub step: Option<usize>,
    /// The token that was put in, and the one that was there.
    pub instead: Option<(String, String)>,
    /// From the replaced token on, shortened.
    pub text: String,
    pub reused: Option<usize>,
    pub current: bool,
}

/// Letters of a branch's text that a line shows.
const SHOWN: usize = 90;

impl Branches {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn current(&self) -> usize {
        self.current
    }

    /// The run on screen takes another token at `step` and ends there for now: gives its new trace. The run as it was stays in
    /// the tree.
    pub fn fork(&mut self, on_screen: &Trace, step: usize, token: TokenId) -> Option<Trace> {
        let mut trace = on_screen.clone();
        trace.steps.truncate(step + 1);
        let replaced = Arc::make_mut(trace.steps.get_mut(step)?);
        (replaced.token, replaced.chosen) = (token, true);
        trace.finish = None;
        if self.all.is_empty() {
            self.all.push(Branch { from: None, trace: on_screen.clone(), reused: None });
            self.current = 0;
        }
        self.all[self.current].trace = on_screen.clone();
        self.all.push(Branch { from: Some((self.current, step)), trace: trace.clone(), reused: None });
        self.current = self.all.len() - 1;
        Some(trace)
    }

    /// The tree is full: what leaves first, as an index that must be given to [`remove`](Self::remove).
    pub fn surplus(&self) -> Option<usize> {
        (self.all.len() > MOST).then(|| (1..self.all.len()).find(|&index| index != self.current))?
    }

    /// What came from the run that leaves is from then on of the run that this one came from: it parts from that where the
    /// first of the two tokens was replaced.
    pub fn remove(&mut self, index: usize) {
        let Some((parent, at)) = self.all.remove(index).from else { return };
        for branch in &mut self.all {
            if let Some((from, step)) = &mut branch.from
                && *from == index
            {
                (*from, *step) = (parent, at.min(*step));
            }
            if let Some((from, _)) = &mut branch.from {
                *from -= usize::from(*from > index);
            }
        }
        self.current -= usize::from(self.current > index);
    }

    pub fn set_reused(&mut self, index: usize, columns: usize) {
        if let Some(branch) = self.all.get_mut(index) {
            branch.reused = Some(columns);
        }
    }

    /// The end of a run that is not on screen has come.
    pub fn end(&mut self, index: usize, finish: Option<Finish>) {
        if let Some(branch) = self.all.get_mut(index) {
            branch.trace.finish = finish;
        }
    }

    /// A step that was still under way when a run was left belongs to that run.
    pub fn push_step(&mut self, index: usize, step: Step, finish: Option<Finish>) {
        if let Some(branch) = self.all.get_mut(index) {
            branch.trace.steps.push(Arc::new(step));
            branch.trace.finish = finish;
        }
    }

    /// Puts the run on screen away and gives the trace of another.
    pub fn switch(&mut self, on_screen: &Trace, to: usize) -> Option<Trace> {
        let chosen = self.all.get(to)?.trace.clone();
        self.all[self.current].trace = on_screen.clone();
        self.current = to;
        Some(chosen)
    }

    /// The tree, a line a run, each under the one it came from.
    pub fn rows(&self, on_screen: &Trace) -> Vec<BranchRow> {
        let mut rows = Vec::new();
        self.push_rows(None, 0, on_screen, &mut rows);
        rows
    }

    fn push_rows(&self, parent: Option<usize>, depth: usize, on_screen: &Trace, rows: &mut Vec<BranchRow>) {
        let of_parent = |branch: &Branch| branch.from.map(|(from, _)| from) == parent;
        for (index, branch) in self.all.iter().enumerate().filter(|(_, branch)| of_parent(branch)) {
            let trace = if index == self.current { on_screen } else { &branch.trace };
            let step = branch.from.map(|(_, step)| step);
            let word = |trace: &Trace, step: usize| trace.steps.get(step).map(|it| trace.vocabulary.label(it.token));
            let instead = branch.from.and_then(|(from, step)| {
                let old = if from == self.current { on_screen } else { &self.all[from].trace };
                Some((word(trace, step)?, word(old, step)?))
            });
            let generated = trace.generated(usize::MAX);
            let text = trace.vocabulary.text(None, &generated[step.unwrap_or(0).min(generated.len())..]);
            rows.push(BranchRow {
                index,
                depth,
                step,
                instead: instead.map(|(new, old)| (format::visible(&new), format::visible(&old))),
                text: shortened(text.trim_start()),
                reused: branch.reused,
                current: index == self.current,
            });
            self.push_rows(Some(index), depth + 1, on_screen, rows);
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", text[..end].trim_end()),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn a_fork_keeps_the_run_it_came_from_and_marks_the_chosen_token() {
        let run = trace(3, 5, true);
        let mut branches = Branches::default();
        let forked = branches.fork(&run, 2, 5).unwrap();
        assert_eq!((forked.steps.len(), forked.steps[2].token, forked.steps[2].chosen), (3, 5, true));
        assert!(!run.steps[2].chosen && forked.finish.is_none());
        assert_eq!((branches.len(), branches.current()), (2, 1));
        branches.set_reused(1, 5);
        let rows = branches.rows(&forked);
        assert_eq!(rows.iter().map(|row| (row.depth, row.current)).collect::<Vec<_>>(), [(0, false), (1, true)]);
        assert_eq!(rows[1].instead, Some(("␣d".into(), "␣c".into())));
        assert_eq!((rows[1].step, rows[1].reused, rows[1].text.as_str()), (Some(2), Some(5), "d"));
        assert_eq!(branches.switch(&forked, 0).as_ref(), Some(&run));
        assert_eq!(branches.switch(&run, 1), Some(forked));
        assert!(branches.switch(&run, 7).is_none() && branches.fork(&run, 9, 5).is_none());
    }

    #[test]
    fn a_step_that_comes_after_a_run_was_left_is_there_when_it_is_shown_again() {
        let whole = trace(3, 5, true);
        let mut run = whole.clone();
        let late = run.steps.pop().unwrap();
        let mut branches = Branches::default();
        let forked = branches.fork(&run, 1, 5).unwrap();
        branches.push_step(0, (*late).clone(), Some(Finish::Length));
        let shown = branches.switch(&forked, 0).unwrap();
        assert_eq!((shown.steps, shown.finish), (whole.steps, Some(Finish::Length)));
        branches.end(1, Some(Finish::EndOfText));
        assert_eq!(branches.switch(&run, 1).unwrap().finish, Some(Finish::EndOfText));
    }

    #[test]
    fn the_tree_shows_children_under_their_parents_and_stays_small() {
        let run = trace(3, 5, true);
        let mut branches = Branches::default();
        let first = branches.fork(&run, 3, 5).unwrap();
        branches.fork(&first, 1, 4).unwrap();
        let second = branches.switch(&first, 0).unwrap();
        let mut on_screen = branches.fork(&second, 0, 3).unwrap();
        let depths: Vec<usize> = branches.rows(&on_screen).iter().map(|row| row.depth).collect();
        assert_eq!(depths, [0, 1, 2, 1]);
        for _ in 0..10 {
            on_screen = branches.fork(&on_screen, 0, 2).unwrap();
            while let Some(index) = branches.surplus() {
                branches.remove(index);
            }
            let rows = branches.rows(&on_screen);
            assert_eq!(rows.len(), branches.len(), "each is in the tree");
            assert_eq!(rows.iter().filter(|row| row.current).count(), 1);
        }
        assert_eq!(branches.len(), MOST);
    }

    #[test]
    fn what_came_from_a_run_that_leaves_parts_from_its_parent_where_it_first_differs() {
        let run = trace(3, 5, true);
        let mut branches = Branches::default();
        let middle = branches.fork(&run, 3, 5).unwrap();
        let mut longer = middle.clone();
        longer.steps.push(run.steps[4].clone());
        branches.fork(&longer, 1, 4).unwrap();
        let back = branches.switch(&longer, 1).unwrap();
        let last = branches.fork(&back, 4, 2).unwrap_or(back);
        branches.remove(1);
        let steps: Vec<Option<usize>> = branches.rows(&last).iter().map(|row| row.step).collect();
        // One had replaced step 1 of it, before the place where it parted itself; the other step 4, after that place.
        assert_eq!(steps, [None, Some(1), Some(3)]);
    }
}

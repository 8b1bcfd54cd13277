//! *Scores*: how well the model foresees one fixed story with its cache in each of several layouts, measured by the engine.

use inferscope_trace::{CacheLayout, Command, Reply};

use super::Widget;

/// A story of the corpus's kind that no model of this project was trained on.
pub const HELD_OUT: &str = include_str!("held_out.txt");

#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    pub layout: CacheLayout,
    /// Mean surprise in nats, once measured.
    pub nats: Option<f64>,
    request: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    pub all: Vec<Score>,
    /// Tokens of the story that were foreseen.
    pub tokens: usize,
}

impl Widget {
    /// Asks for the story's score in every layout worth comparing with the one that is set.
    pub fn score(self) {
        let inner = self.inner();
        let model = self.model.get_untracked();
        let Some(kind) = inner.session_on.get().or_else(|| inner.hub.any_ready(&model)) else { return };
        let own = self.settings.with_untracked(|settings| settings.layout);
        let others = [
            CacheLayout::Contiguous,
            CacheLayout::Quantised { bits: 8 },
            CacheLayout::Quantised { bits: 4 },
            CacheLayout::Window { sinks: 4, window: 60 },
            CacheLayout::Window { sinks: 0, window: 64 },
            CacheLayout::Window { sinks: 4, window: 12 },
        ];
        let all = others.into_iter().filter(|layout| *layout != own).chain([own]).collect::<Vec<_>>();
        let ask = |layout: CacheLayout| {
            let request = inner.hub.fresh_id();
            inner
                .hub
                .send(kind, &Command::Score { request, model: model.clone(), text: HELD_OUT.trim().into(), layout });
            Score { layout, nats: None, request }
        };
        let mut all: Vec<Score> = all.into_iter().map(ask).collect();
        // As it is first, what is kept of it after.
        all.sort_by_key(|score| score.layout != CacheLayout::Contiguous);
        self.scores.set(Scores { all, tokens: 0 });
    }

    /// What an engine replies to a text that it was to score.
    pub fn hear_of_scores(self, reply: &Reply) {
        let Reply::Scored { request, nats, tokens } = reply else { return };
        self.scores.update(|scores| {
            if let Some(score) = scores.all.iter_mut().find(|score| score.request == *request) {
                score.nats = Some(*nats);
                scores.tokens = *tokens;
            }
        });
    }
}

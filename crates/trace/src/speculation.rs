//! A *round* of speculative decoding: a draft model proposes some tokens, the target looks at all of them in one pass, and
//! writes one more itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{BackendInfo, Finish, ModelInfo, Prompt, Settings, TokenId, Vocabulary};

/// A token that the draft proposed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Guess {
    pub token: TokenId,
    /// Its probability under the draft, which drew it.
    pub q: f32,
    /// What the target made of it; None for those after a rejected one, which nobody looks at.
    pub judged: Option<Judged>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// Its probability under the target.
    pub p: f32,
    /// The uniform number in [0, 1) that it was accepted below p / q.
    pub coin: f64,
    pub accepted: bool,
}

/// Why the target wrote a token itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Own {
    /// The prompt's prefill gives the first token.
    First,
    /// In place of a rejected one.
    Replacement,
    /// All were accepted, and the pass gave one more.
    Bonus,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// 0 is the prefill of both models.
    pub index: usize,
    /// Tokens before this round, the prompt's among them.
    pub before: usize,
    pub guesses: Vec<Guess>,
    pub token: TokenId,
    pub own: Own,
    /// The uniform number that drew `token`.
    pub coin: f64,
    /// Tokens that were added: those accepted and the target's own, fewer where the text or the run ends.
    pub added: usize,
    /// Positions that each model ran, and in how many passes the draft did.
    pub target_positions: usize,
    pub draft_positions: usize,
    pub draft_passes: usize,
    /// Columns that were computed and taken back, in the target's cache.
    pub rolled_back: usize,
    /// Measured by the engine.
    pub draft_milliseconds: f64,
    pub target_milliseconds: f64,
}

impl Round {
    pub fn accepted(&self) -> usize {
        self.guesses.iter().filter(|guess| guess.judged.is_some_and(|judged| judged.accepted)).count()
    }
}

/// The record of one run with a draft model.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeculationTrace {
    pub target: Arc<ModelInfo>,
    pub draft: Arc<ModelInfo>,
    pub vocabulary: Arc<Vocabulary>,
    pub backend: BackendInfo,
    pub settings: Settings,
    pub prompt: Prompt,
    pub rounds: Vec<Arc<Round>>,
    pub finish: Option<Finish>,
}

impl SpeculationTrace {
    /// The tokens that the first `rounds` rounds added.
    pub fn generated(&self, rounds: usize) -> Vec<TokenId> {
        let added = |round: &Arc<Round>| {
            let accepted = round.guesses[..round.accepted()].iter().map(|guess| guess.token);
            accepted.chain([round.token]).take(round.added).collect::<Vec<_>>()
        };
        self.rounds.iter().take(rounds).flat_map(added).collect()
    }

    /// The text generated so far, without the prompt.
    pub fn text(&self) -> String {
        self.vocabulary.text(self.prompt.tokens.last().copied(), &self.generated(self.rounds.len()))
    }
}

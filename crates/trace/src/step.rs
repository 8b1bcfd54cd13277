//! A *step* is one forward pass and the token drawn from it: the prefill is the first step, each decode step follows.

use serde::{Deserialize, Serialize};

use crate::{Sampling, TokenId, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All prompt positions at once.
    Prefill,
    /// One new position with the cache; the whole prefix again without it.
    Decode,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// `max_new_tokens` were generated.
    Length,
    /// The model wrote its end-of-text token.
    EndOfText,
    /// The context window is full.
    Context,
}

/// One entry of the vocabulary as the sampler saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub id: TokenId,
    /// The model's raw output.
    pub logit: f32,
    /// Softmax of the raw logits, before temperature and cuts.
    pub before: f32,
    /// After temperature and cuts; 0 when cut.
    pub probability: f32,
    /// The id of the rule that cut it, if one did.
    pub cut_by: Option<String>,
}

impl Candidate {
    pub fn kept(&self) -> bool {
        self.cut_by.is_none()
    }
}

/// How the last positions of a step weighted every position they could see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    pub n_layers: usize,
    pub n_heads: usize,
    /// Positions that looked: the last ones before `keys`, at least one.
    pub queries: usize,
    /// Positions attended to: 0 ..= the last query's own.
    pub keys: usize,
    /// `[layer, head, query, key]`; each row sums to 1, and is 0 for what comes after its query.
    pub weights: Vec<f32>,
}

impl Attention {
    /// The last position's weights in one head, over all `keys` positions.
    pub fn row(&self, layer: usize, head: usize) -> &[f32] {
        self.row_at(layer, head, self.queries - 1)
    }

    fn row_at(&self, layer: usize, head: usize, query: usize) -> &[f32] {
        let start = ((layer * self.n_heads + head) * self.queries + query) * self.keys;
        &self.weights[start..start + self.keys]
    }

    /// How `position` weighted the positions up to its own, as the mean over the chosen layer (or all) and head (or all).
    /// None if it is not among the queries.
    pub fn mean(&self, position: usize, layer: Option<usize>, head: Option<usize>) -> Option<Vec<f32>> {
        let first = self.keys - self.queries;
        let query = position.checked_sub(first).filter(|&query| query < self.queries)?;
        let pick = |chosen: Option<usize>, n| chosen.map_or(0..n, |one| one..one + 1);
        let mut mean = vec![0.0; position + 1];
        let mut rows = 0;
        for layer in pick(layer, self.n_layers) {
            for head in pick(head, self.n_heads) {
                for (sum, weight) in mean.iter_mut().zip(self.row_at(layer, head, query)) {
                    *sum += weight;
                }
                rows += 1;
            }
        }
        for value in &mut mean {
            *value /= rows.max(1) as f32;
        }
        Some(mean)
    }
}

/// Keys and values of a run of positions, as the cache holds them (keys are already rotated).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyValues {
    pub first_position: usize,
    pub positions: usize,
    pub n_layers: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// `[layer, position, kv head, head_dim]`.
    pub keys: Vec<f32>,
    /// `[layer, position, kv head, head_dim]`.
    pub values: Vec<f32>,
}

impl KeyValues {
    fn range(&self, layer: usize, position: usize) -> Option<std::ops::Range<usize>> {
        let offset = position.checked_sub(self.first_position).filter(|&offset| offset < self.positions)?;
        let width = self.n_kv_heads * self.head_dim;
        let start = (layer * self.positions + offset) * width;
        (layer < self.n_layers).then_some(start..start + width)
    }

    /// The key of one layer and position over all KV heads, `[kv head, head_dim]`.
    pub fn key(&self, layer: usize, position: usize) -> Option<&[f32]> {
        self.range(layer, position).map(|range| &self.keys[range])
    }

    /// The value of one layer and position over all KV heads, `[kv head, head_dim]`.
    pub fn value(&self, layer: usize, position: usize) -> Option<&[f32]> {
        self.range(layer, position).map(|range| &self.values[range])
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// 0 is the prefill.
    pub index: usize,
    pub phase: Phase,
    /// First position this step ran the model for.
    pub first_position: usize,
    /// How many positions it ran.
    pub positions: usize,
    /// The token drawn from the last position's logits.
    pub token: TokenId,
    /// The uniform number in [0, 1) that drew it.
    pub coin: f64,
    /// The reader put this token here instead of the one that the coin drew.
    pub chosen: bool,
    /// `[vocab]`, of the last position.
    pub logits: Vec<f32>,
    /// The rules in force when the token was drawn.
    pub sampling: Sampling,
    /// Counted.
    pub work: Work,
    /// Measured by the engine: forward pass, read-back and sampling.
    pub milliseconds: f64,
    /// Read back only when somebody looks.
    pub attention: Option<Attention>,
    /// The columns this step computed. Read back only when somebody looks.
    pub kv: Option<KeyValues>,
}

impl Step {
    /// One past the last position this step ran: the length of the sequence it saw.
    pub fn end_position(&self) -> usize {
        self.first_position + self.positions
    }
}

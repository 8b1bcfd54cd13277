//! *Settings* are what the reader chooses before or during a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::CacheLayout;

/// A value for each sampler rule, by the rule's id (`temperature`, `top_k`, …). A rule without a value is neutral.
/// The rules themselves, with ranges and defaults, are the sampler crate's registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling(pub BTreeMap<String, f64>);

impl Sampling {
    pub fn get(&self, rule: &str) -> Option<f64> {
        self.0.get(rule).copied()
    }

    #[must_use]
    pub fn with(mut self, rule: &str, value: f64) -> Self {
        self.0.insert(rule.to_string(), value);
        self
    }
}

/// Everything that decides a run besides the model and the prompt. The same settings, prompt and model give the same
/// tokens on every backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Tokens to generate at most: the prefill yields the first of them.
    pub max_new_tokens: usize,
    pub sampling: Sampling,
    pub seed: u32,
    /// Off: every step runs the whole prefix again.
    pub cache: bool,
    /// How the cache keeps what it keeps.
    pub layout: CacheLayout,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_new_tokens: 48, sampling: Sampling::default(), seed: 1, cache: true, layout: CacheLayout::default() }
    }
}

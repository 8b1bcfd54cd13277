//! A *language model* here is anything that turns tokens into logits with the help of a cache: the real model, or a
//! scripted one that tests a session without a tensor.

use std::future::Future;
use std::ops::Range;

use inferscope_trace::{Attention, KeyValues, ModelInfo, Observe, TokenId};

/// Why a model could not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the context window is full: it holds {context} tokens, and {needed} would be needed")]
    ContextFull { context: usize, needed: usize },
    /// The device failed; it can not be expected to work again.
    #[error("the device that runs the model failed: {0}")]
    Device(String),
}

/// What a forward pass yields.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// `[vocab]`, of the last position.
    pub logits: Vec<f32>,
    /// How the observed positions weighted every position they saw, if any were to be observed.
    pub attention: Option<Attention>,
    /// The columns that the pass wrote, if they were to be observed.
    pub kv: Option<KeyValues>,
}

/// The keys and values of a sequence's first `len` positions. A clone is a second, independent cache.
pub trait SequenceCache: Clone {
    /// Positions held.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets every position from `len` on. Does nothing when there are no more than that.
    fn truncate(&mut self, len: usize);
}

pub trait LanguageModel {
    type Cache: SequenceCache;

    fn info(&self) -> &ModelInfo;

    /// An empty cache for one sequence.
    fn new_cache(&self) -> Self::Cache;

    /// Runs `tokens` (at least one, all in the vocabulary) at the positions that follow those in the cache, and adds
    /// theirs to it.
    ///
    /// # Errors
    /// When the positions do not fit into the context, or the device fails. The cache is then as it was, as it also is
    /// when the future is dropped before it is done.
    fn forward(
        &self,
        tokens: &[TokenId],
        cache: &mut Self::Cache,
        observe: Observe,
    ) -> impl Future<Output = Result<Output, ModelError>>;

    /// Reads columns of the cache back. All `positions` must be held.
    ///
    /// # Errors
    /// When the device fails.
    fn key_values(
        &self,
        cache: &Self::Cache,
        positions: Range<usize>,
    ) -> impl Future<Output = Result<KeyValues, ModelError>>;
}

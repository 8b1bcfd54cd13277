//! A *language model* here is anything that turns tokens into logits with the help of a cache: the real model, or a
//! scripted one that tests a session without a tensor.

use std::future::Future;
use std::ops::Range;

use inferscope_trace::{Attention, CacheLayout, KeyValues, ModelInfo, Observe, TokenId};

/// Why a model could not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the context window is full: it holds {context} tokens, and {needed} would be needed")]
    ContextFull { context: usize, needed: usize },
    #[error("the pool of cache blocks is used up: {free} are free, and {needed} would be needed")]
    OutOfBlocks { needed: usize, free: usize },
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

/// One sequence's part of a pass.
pub struct Sequence<'a, C> {
    /// At least one, all in the vocabulary; they follow what is in the cache.
    pub tokens: &'a [TokenId],
    pub cache: &'a mut C,
    /// Of how many of its last positions the logits are wanted.
    pub logits: usize,
}

/// The keys and values of a sequence's first `len` positions. A clone is a second, independent cache.
pub trait SequenceCache: Clone {
    /// Positions held.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets every position from `len` on, and perhaps all: a layout that dropped columns may not be able to go back. Does
    /// nothing when there are no more than that.
    fn truncate(&mut self, len: usize);
}

pub trait LanguageModel {
    type Cache: SequenceCache;

    fn info(&self) -> &ModelInfo;

    /// An empty cache for one sequence.
    fn new_cache(&self, layout: &CacheLayout) -> Self::Cache;

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

    /// Runs several sequences in one pass, which reads the weights once for all of them. Gives for each the logits of its last
    /// positions, as many as it asks for.
    ///
    /// # Errors
    /// As for [`forward`](Self::forward), if the positions of any sequence do not fit; then nothing has changed.
    fn forward_batch(
        &self,
        sequences: &mut [Sequence<'_, Self::Cache>],
    ) -> impl Future<Output = Result<Vec<Vec<Vec<f32>>>, ModelError>>;

    /// Reads columns of the cache back, or None if the layout no longer has them all.
    ///
    /// # Errors
    /// When the device fails.
    fn key_values(
        &self,
        cache: &Self::Cache,
        positions: Range<usize>,
    ) -> impl Future<Output = Result<Option<KeyValues>, ModelError>>;
}

//! A model that says what a script tells it to, for tests of the session alone.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::task::Poll;

use inferscope_core::{LanguageModel, ModelError, Output, Sequence, SequenceCache};
use inferscope_trace::{Attention, CacheLayout, KeyValues, ModelInfo, Observe, TokenId};

/// One call of `forward`: how many positions were cached, what was run, and what was to be observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub cached: usize,
    pub tokens: Vec<TokenId>,
    pub observe: Observe,
}

pub struct Scripted {
    info: ModelInfo,
    /// The token that is best after this many positions; beyond its end, the last.
    script: Vec<TokenId>,
    pub calls: RefCell<Vec<Call>>,
    /// How many calls from now one fails, once.
    pub fail_in: Cell<Option<usize>>,
    /// Whether a pass takes two polls, as on a device that is not done at once.
    pub slow: Cell<bool>,
}

/// The tokens themselves, in place of keys and values.
#[derive(Clone)]
pub struct Tokens(Vec<TokenId>);

impl SequenceCache for Tokens {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Scripted {
    pub const VOCAB: usize = 30;

    pub fn new(context: usize, script: Vec<TokenId>) -> Self {
        let info = ModelInfo {
            id: "scripted".into(),
            dim: 2,
            hidden_dim: 2,
            n_layers: 1,
            n_heads: 1,
            n_kv_heads: 1,
            head_dim: 2,
            vocab_size: Self::VOCAB,
            context,
            tied_embedding: true,
        };
        Self { info, script, calls: RefCell::default(), fail_in: Cell::new(None), slow: Cell::new(false) }
    }

    /// The lengths of the passes so far.
    pub fn passes(&self) -> Vec<(usize, usize)> {
        self.calls.borrow().iter().map(|call| (call.cached, call.tokens.len())).collect()
    }

    fn kv(tokens: &[TokenId], positions: Range<usize>) -> KeyValues {
        let keys = tokens[positions.clone()].iter().flat_map(|&token| [token as f32, 0.0]).collect::<Vec<_>>();
        KeyValues {
            first_position: positions.start,
            positions: positions.len(),
            n_layers: 1,
            n_kv_heads: 1,
            head_dim: 2,
            values: keys.clone(),
            keys,
        }
    }
}

impl LanguageModel for Scripted {
    type Cache = Tokens;

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn new_cache(&self, _: &CacheLayout) -> Tokens {
        Tokens(Vec::new())
    }

    async fn forward(&self, tokens: &[TokenId], cache: &mut Tokens, observe: Observe) -> Result<Output, ModelError> {
        assert!(!tokens.is_empty());
        self.calls.borrow_mut().push(Call { cached: cache.len(), tokens: tokens.to_vec(), observe });
        if self.slow.get() {
            pause().await;
        }
        match self.fail_in.get() {
            Some(0) => {
                self.fail_in.set(None);
                return Err(ModelError::Device("out of electricity".into()));
            }
            more => self.fail_in.set(more.map(|calls| calls - 1)),
        }
        let first = cache.len();
        cache.0.extend(tokens);
        let end = cache.len();
        assert!(end <= self.info.context, "the session knows the context");
        let best = self.script.get(end - 1).or(self.script.last()).copied().unwrap();
        let mut logits = vec![0.0; Self::VOCAB];
        logits[best as usize] = 9.0;
        let queries = observe.attention.count(tokens.len());
        let weights =
            (end - queries..end).flat_map(|at| (0..end).map(move |key| f32::from(key <= at) / (at + 1) as f32));
        let attention = Attention { n_layers: 1, n_heads: 1, queries, keys: end, weights: weights.collect() };
        Ok(Output {
            logits,
            attention: (queries > 0).then_some(attention),
            kv: observe.kv.then(|| Self::kv(&cache.0, first..end)),
        })
    }

    async fn forward_batch(&self, sequences: &mut [Sequence<'_, Tokens>]) -> Result<Vec<Vec<Vec<f32>>>, ModelError> {
        let mut logits = Vec::new();
        for sequence in sequences {
            let mut rows = Vec::new();
            for &token in sequence.tokens {
                rows.push(self.forward(&[token], sequence.cache, Observe::default()).await?.logits);
            }
            logits.push(rows.split_off(rows.len() - sequence.logits));
        }
        Ok(logits)
    }

    async fn key_values(&self, cache: &Tokens, positions: Range<usize>) -> Result<Option<KeyValues>, ModelError> {
        Ok(Some(Self::kv(&cache.0, positions)))
    }
}

/// Pending once.
fn pause() -> impl Future<Output = ()> {
    let mut paused = false;
    poll_fn(move |context| match std::mem::replace(&mut paused, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
}

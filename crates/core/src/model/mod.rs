//! A *model* is a Llama-style decoder with its weights on a device: an embedding, blocks, a norm and an output matrix
//! (Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models").
//!
//! The positions of all sequences in a pass stand one after the other, so no tensor has a batch dimension: the matrices are
//! applied to all of them at once, and attention to each sequence by itself. It knows nothing of sampling or of who asks.

mod block;
pub(crate) mod ops;
mod pass;
pub(crate) mod read_back;
mod rotation;
#[cfg(feature = "wgpu")]
mod stride;
mod weights;

use std::ops::Range;

use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};
use inferscope_trace::{CacheLayout, KeyValues, ModelInfo, Observe, TokenId};

use crate::device::{ReadBack, floats, integers};
use crate::{BlockPool, Cache, Checkpoint, ConfigError, LanguageModel, ModelError, Output, Sequence};
use block::{Block, norm_product};
use ops::{DecoderOps, Size};
use pass::{Batch, Pass};
use read_back::{Pending, columns, held_key_values};
use rotation::angles;
use weights::Arena;

pub(crate) use rotation::BASE as ROTARY_BASE;

/// Keeps a norm's division defined for a vector of zeros; the value that llama2.c and its models use.
pub(crate) const NORM_EPSILON: f32 = 1e-5;

pub struct Model {
    info: ModelInfo,
    device: Device,
    embedding: Tensor<1>, // [dim, vocab]
    blocks: Vec<Block>,
    final_norm: Tensor<1>, // [dim]
    output: Tensor<1>,     // [dim, vocab]
    rotation: Tensor<2>,   // [position, head_dim]
    #[cfg(feature = "wgpu")]
    stride: Option<stride::Stride>,
}

impl Model {
    /// Whether a model of that shape can run on a device.
    ///
    /// # Errors
    /// When it is larger than the device's operations can be.
    pub fn check(shape: &ModelInfo, device: &Device) -> Result<(), ConfigError> {
        #[cfg(feature = "wgpu")]
        if weights::packing(device) == ops::Packing::Rows {
            let limits =
                [("context", shape.context, ops::MAX_KEYS), ("width of a head", shape.head_dim, ops::MAX_HEAD_DIM)];
            if let Some(&(what, found, limit)) = limits.iter().find(|(_, found, limit)| found > limit) {
                return Err(ConfigError::TooLargeForGpu { what, found, limit });
            }
        }
        let _ = (shape, device);
        Ok(())
    }

    /// Brings a checkpoint's weights to a device, under the name `id`. See [`check`](Self::check).
    pub fn load(id: &str, checkpoint: &Checkpoint, device: &Device) -> Self {
        let info = ModelInfo { id: id.to_string(), ..checkpoint.shape.clone() };
        let arena = Arena::load(checkpoint, device);
        Self {
            embedding: arena.view(&arena.parts.embedding),
            blocks: (0..info.n_layers).map(|layer| Block::new(arena.layer(layer), &info)).collect(),
            final_norm: arena.view(&arena.parts.final_norm),
            output: arena.view(&arena.parts.output),
            rotation: floats(angles(info.context, info.head_dim), [info.context, info.head_dim], device),
            #[cfg(feature = "wgpu")]
            stride: stride::Stride::new(&arena, &info),
            device: device.clone(),
            info,
        }
    }

    /// The passes up to the logits of each one's last positions, `[position, vocab]`, still on the device. Nothing is held in
    /// the caches yet.
    //
    // A function of its own, because an engine's shell is compiled to be small, and so would be what is inlined into it.
    #[inline(never)]
    fn run(&self, tokens: &[TokenId], batch: &mut Batch<'_>, logits: &[usize]) -> Tensor<2> {
        let Self { info, .. } = self;
        #[cfg(feature = "wgpu")]
        if let ([token], [pass], Some(stride)) = (tokens, &mut batch.passes[..], &self.stride) {
            return stride.run(*token, pass, &self.rotation);
        }
        let ids = integers(tokens.iter().map(|&id| id as i32).collect(), &self.device); // [position]
        let size = Size { n_in: info.dim, n_out: info.vocab_size };
        let embedding = self.embedding.clone().into_dispatch();
        let mut x = Tensor::from_dispatch(Dispatch::embed(embedding, ids.into_dispatch(), size)); // [position, dim]
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(x, layer, batch);
        }
        let mut end = 0;
        let wanted = batch.passes.iter().zip(logits).flat_map(|(pass, &count)| {
            end += pass.positions.len();
            (end - count..end).map(|row| row as i32)
        });
        let wanted: Vec<i32> = wanted.collect();
        if wanted.len() < tokens.len() {
            let wanted = integers(wanted, &self.device).into_dispatch();
            x = Tensor::from_dispatch(Dispatch::rows(x.into_dispatch(), wanted));
        }
        norm_product(x, &self.final_norm, &self.output, info.dim, info.vocab_size)
    }

    /// An empty cache with room for `capacity` positions side by side.
    pub fn reserved_cache(&self, capacity: usize) -> Cache {
        Cache::reserved(&self.info, capacity, &self.device)
    }

    /// An empty sequence whose columns lie in a pool.
    pub fn sequence_in(&self, pool: &BlockPool) -> Cache {
        pool.sequence().into()
    }

    /// Memory for `blocks` cache blocks of `block_size` positions.
    pub fn block_pool(&self, blocks: usize, block_size: usize) -> BlockPool {
        BlockPool::new(&self.info, blocks, block_size, &self.device)
    }
}

impl LanguageModel for Model {
    type Cache = Cache;

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn new_cache(&self, layout: &CacheLayout) -> Cache {
        Cache::new(layout, &self.info, &self.device)
    }

    async fn forward(&self, tokens: &[TokenId], cache: &mut Cache, observe: Observe) -> Result<Output, ModelError> {
        assert!(!tokens.is_empty(), "a pass needs a token");
        let positions = cache.layout_mut().next_positions(tokens.len())?;
        let pass = Pass::new(cache, positions.clone(), observe);
        let mut batch = Batch::new(vec![pass], &self.info, &self.rotation);
        let logits = self.run(tokens, &mut batch, &[1]); // [1, vocab]
        let pass = batch.passes.pop().expect("it was put there");
        let kv = observe.kv.then(|| columns(pass.cache.layout(), positions.clone(), &self.device));
        let pending = Pending { logits, queries: pass.observed(), attention: pass.attention, kv };
        let output = pending.read_back(&self.info, &positions, &pass.keys_read).await?;
        pass.cache.layout_mut().commit(positions);
        Ok(output)
    }

    async fn forward_batch(&self, sequences: &mut [Sequence<'_, Cache>]) -> Result<Vec<Vec<Vec<f32>>>, ModelError> {
        let tokens: Vec<TokenId> = sequences.iter().flat_map(|it| it.tokens.iter().copied()).collect();
        let wanted: Vec<usize> = sequences.iter().map(|it| it.logits).collect();
        let mut passes = Vec::new();
        for sequence in sequences.iter_mut() {
            assert!((1..=sequence.tokens.len()).contains(&sequence.logits), "logits of positions that are run");
            let positions = sequence.cache.layout_mut().next_positions(sequence.tokens.len())?;
            passes.push(Pass::new(sequence.cache, positions, Observe::default()));
        }
        let mut batch = Batch::new(passes, &self.info, &self.rotation);
        let logits = self.run(&tokens, &mut batch, &wanted); // [all wanted positions, vocab]
        let read = ReadBack::default().with(logits).read().await?;
        let mut rows = read[0].chunks_exact(self.info.vocab_size).map(<[f32]>::to_vec);
        for pass in batch.passes {
            pass.cache.layout_mut().commit(pass.positions);
        }
        Ok(wanted.iter().map(|&count| rows.by_ref().take(count).collect()).collect())
    }

    async fn key_values(&self, cache: &Cache, positions: Range<usize>) -> Result<Option<KeyValues>, ModelError> {
        held_key_values(&self.info, cache, positions, &self.device).await
    }
}

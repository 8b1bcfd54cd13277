//! The *reference* is the same model written with burn's own operations, one by one, as a paper would put it. Nothing that
//! ships runs on it: the fused operations are held against it, on every device, and their speed is told in its.

mod block;
mod norm;
mod pass;
mod rotation;

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData};
use inferscope_trace::{CacheLayout, KeyValues, ModelInfo, Observe, TokenId};

use crate::device::{ReadBack, integers};
use crate::model::read_back::{self, Pending, columns};
use crate::{Cache, Checkpoint, LanguageModel, ModelError, Output, Sequence};
use block::Block;
use norm::RmsNorm;
use pass::Pass;
use rotation::Rotation;

pub struct Reference {
    info: ModelInfo,
    device: Device,
    embedding: Tensor<2>, // [vocab, dim]
    blocks: Vec<Block>,
    final_norm: RmsNorm,
    output: Tensor<2>, // [dim, vocab]
    rotation: Rotation,
}

impl Reference {
    /// Brings a checkpoint's weights to a device.
    pub fn load(checkpoint: &Checkpoint, device: &Device) -> Self {
        let info = checkpoint.shape.clone();
        let (dim, vocab_size) = (info.dim, info.vocab_size);
        let embedding = TensorData::new(checkpoint.embedding.clone(), [vocab_size, dim]);
        let output = checkpoint.output.as_ref().unwrap_or(&checkpoint.embedding);
        Self {
            embedding: Tensor::from_data(embedding, device),
            blocks: checkpoint.layers.iter().map(|layer| Block::load(layer, &info, device)).collect(),
            final_norm: RmsNorm::load(&checkpoint.final_norm, device),
            output: block::matrix(&[output], dim, device),
            rotation: Rotation::new(info.context, info.head_dim, device),
            device: device.clone(),
            info,
        }
    }

    /// Up to the logits of the last `logits` positions, `[position, vocab]`.
    fn run(&self, tokens: &[TokenId], pass: &mut Pass<'_>, logits: usize) -> Tensor<2> {
        let ids: Tensor<1, Int> = integers(tokens.iter().map(|&id| id as i32).collect(), &self.device); // [position]
        let mut x = self.embedding.clone().select(0, ids); // [position, dim]
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(x, layer, pass);
        }
        let last = x.narrow(0, tokens.len() - logits, logits);
        self.final_norm.forward(last).matmul(self.output.clone())
    }

    fn pass<'a>(&self, cache: &'a mut Cache, positions: Range<usize>, observe: Observe) -> Pass<'a> {
        let rotation = self.rotation.at(&positions);
        Pass::new(&self.info, cache, positions, rotation, observe)
    }
}

impl LanguageModel for Reference {
    type Cache = Cache;

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn new_cache(&self, layout: &CacheLayout) -> Cache {
        Cache::new(layout, &self.info, &self.device)
    }

    async fn forward(&self, tokens: &[TokenId], cache: &mut Cache, observe: Observe) -> Result<Output, ModelError> {
        let positions = cache.layout_mut().next_positions(tokens.len())?;
        let mut pass = self.pass(cache, positions.clone(), observe);
        let logits = self.run(tokens, &mut pass, 1);
        let kv = observe.kv.then(|| columns(pass.cache.layout(), positions.clone(), &self.device));
        let pending = Pending { logits, queries: pass.observed(), attention: pass.attention, kv };
        let output = pending.read_back(&self.info, &positions, &pass.keys_read).await?;
        pass.cache.layout_mut().commit(positions);
        Ok(output)
    }

    /// One sequence after the other, which gives what all of them together would.
    async fn forward_batch(&self, sequences: &mut [Sequence<'_, Cache>]) -> Result<Vec<Vec<Vec<f32>>>, ModelError> {
        let mut all = Vec::new();
        for sequence in sequences {
            let positions = sequence.cache.layout_mut().next_positions(sequence.tokens.len())?;
            let mut pass = self.pass(sequence.cache, positions.clone(), Observe::default());
            let logits = self.run(sequence.tokens, &mut pass, sequence.logits);
            let read = ReadBack::default().with(logits).read().await?;
            pass.cache.layout_mut().commit(positions);
            all.push(read[0].chunks_exact(self.info.vocab_size).map(<[f32]>::to_vec).collect());
        }
        Ok(all)
    }

    async fn key_values(&self, cache: &Cache, positions: Range<usize>) -> Result<Option<KeyValues>, ModelError> {
        read_back::held_key_values(&self.info, cache, positions, &self.device).await
    }
}

//! A *model* is a Llama-style decoder with its weights on a device: an embedding, blocks, a norm and an output matrix
//! (Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models").
//!
//! The positions of all sequences in a pass stand one after the other, so no tensor has a batch dimension: the matrices are
//! applied to all of them at once, and attention to each sequence by itself. It knows nothing of sampling or of who asks.

mod block;
mod norm;
mod pass;
mod rotation;

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData, Transaction};
use inferscope_trace::{Attention, CacheLayout, KeyValues, ModelInfo, Observe, TokenId};

use crate::{BlockPool, Cache, Checkpoint, LanguageModel, ModelError, Output, Sequence};
use block::Block;
use norm::RmsNorm;
use pass::{Batch, Pass};
use rotation::Rotation;

pub(crate) use norm::EPSILON as NORM_EPSILON;
pub(crate) use rotation::BASE as ROTARY_BASE;

pub struct Model {
    info: ModelInfo,
    device: Device,
    embedding: Tensor<2>, // [vocab, dim]
    blocks: Vec<Block>,
    final_norm: RmsNorm,
    output: Tensor<2>, // [dim, vocab]
    rotation: Rotation,
}

impl Model {
    /// Brings a checkpoint's weights to a device, under the name `id`.
    pub fn load(id: &str, checkpoint: &Checkpoint, device: &Device) -> Self {
        let info = ModelInfo { id: id.to_string(), ..checkpoint.shape.clone() };
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

    /// The passes up to the logits of each one's last positions, `[position, vocab]`, still on the device. Nothing is held in
    /// the caches yet.
    fn run(&self, tokens: &[TokenId], batch: &mut Batch<'_>, logits: &[usize]) -> Tensor<2> {
        let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
        let ids: Tensor<1, Int> = Tensor::from_data(ids.as_slice(), &self.device); // [position]

        let mut x = self.embedding.clone().select(0, ids); // [position, dim]
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.forward(x, layer, batch);
        }
        let mut end = 0;
        let wanted = batch.passes.iter().zip(logits).map(|(pass, &count)| {
            end += pass.positions.len();
            x.clone().narrow(0, end - count, count)
        });
        let wanted: Vec<Tensor<2>> = wanted.collect();
        let last = if wanted.len() == 1 { wanted[0].clone() } else { Tensor::cat(wanted, 0) };
        self.final_norm.forward(last).matmul(self.output.clone())
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
        let pass = Pass::new(&self.info, cache, positions.clone(), observe, &self.device);
        let mut batch = Batch::new(vec![pass], &self.rotation);
        let logits = self.run(tokens, &mut batch, &[1]); // [1, vocab]
        let pass = batch.passes.pop().expect("it was put there");
        let keys_read = pass.keys_read.clone();
        let (attention, kv) = pass.into_observed();
        let output = Pending { logits, attention, kv }.read_back(&self.info, &positions, &keys_read).await?;
        cache.layout_mut().commit(positions);
        Ok(output)
    }

    async fn forward_batch(&self, sequences: &mut [Sequence<'_, Cache>]) -> Result<Vec<Vec<Vec<f32>>>, ModelError> {
        let tokens: Vec<TokenId> = sequences.iter().flat_map(|it| it.tokens.iter().copied()).collect();
        let wanted: Vec<usize> = sequences.iter().map(|it| it.logits).collect();
        let mut passes = Vec::new();
        for sequence in sequences.iter_mut() {
            assert!((1..=sequence.tokens.len()).contains(&sequence.logits), "logits of positions that are run");
            let positions = sequence.cache.layout_mut().next_positions(sequence.tokens.len())?;
            passes.push(Pass::new(&self.info, sequence.cache, positions, Observe::default(), &self.device));
        }
        let mut batch = Batch::new(passes, &self.rotation);
        let logits = self.run(&tokens, &mut batch, &wanted); // [all wanted positions, vocab]
        let read = read_all(Transaction::default().register(logits)).await?;
        let mut rows = read[0].chunks_exact(self.info.vocab_size).map(<[f32]>::to_vec);
        for pass in batch.passes {
            pass.cache.layout_mut().commit(pass.positions);
        }
        Ok(wanted.iter().map(|&count| rows.by_ref().take(count).collect()).collect())
    }

    async fn key_values(&self, cache: &Cache, positions: Range<usize>) -> Result<Option<KeyValues>, ModelError> {
        let layers = 0..self.info.n_layers;
        let columns: Option<Vec<_>> = layers.map(|layer| cache.layout().columns(layer, positions.clone())).collect();
        let Some(columns) = columns else { return Ok(None) };
        let by_position = |(keys, values): (Tensor<3>, Tensor<3>)| (keys.swap_dims(0, 1), values.swap_dims(0, 1));
        let (keys, values): (Vec<_>, Vec<_>) = columns.into_iter().map(by_position).unzip();
        let keys: Tensor<4> = Tensor::stack(keys, 0); // [layer, position, kv head, head_dim]
        let values: Tensor<4> = Tensor::stack(values, 0);
        let mut read = read_all(Transaction::default().register(keys).register(values)).await?.into_iter();
        let mut next = || read.next().expect("as many as were registered");
        Ok(Some(key_values(&self.info, &positions, next(), next())))
    }
}

/// A pass's results on the device.
struct Pending {
    logits: Tensor<2>,                  // [1, vocab]
    attention: Option<Tensor<4>>,       // [layer, head, query, key]
    kv: Option<(Tensor<4>, Tensor<4>)>, // each [layer, position, kv head, head_dim]
}

impl Pending {
    /// Waits for the device once, whatever was observed.
    async fn read_back(
        self,
        info: &ModelInfo,
        positions: &Range<usize>,
        keys_read: &[usize],
    ) -> Result<Output, ModelError> {
        let queries = self.attention.as_ref().map(|attention| attention.dims()[2]);
        let with_kv = self.kv.is_some();
        let mut transaction = Transaction::default().register(self.logits);
        if let Some(attention) = self.attention {
            transaction = transaction.register(attention);
        }
        if let Some((keys, values)) = self.kv {
            transaction = transaction.register(keys).register(values);
        }
        let mut read = read_all(transaction).await?.into_iter();
        let mut next = || read.next().expect("as many as were registered");
        let logits = next();
        let attention = queries.map(|queries| Attention {
            n_layers: info.n_layers,
            n_heads: info.n_heads,
            queries,
            keys: positions.end,
            weights: at_positions(next(), keys_read, positions.end),
        });
        let kv = with_kv.then(|| key_values(info, positions, next(), next()));
        Ok(Output { logits, attention, kv })
    }
}

/// Rows over the keys that were read, as rows over all positions: what was not there got nothing.
fn at_positions(weights: Vec<f32>, keys_read: &[usize], keys: usize) -> Vec<f32> {
    if keys_read.len() == keys {
        return weights;
    }
    let mut all = vec![0.0; weights.len() / keys_read.len() * keys];
    for (row, full) in weights.chunks_exact(keys_read.len()).zip(all.chunks_exact_mut(keys)) {
        for (weight, &key) in row.iter().zip(keys_read) {
            full[key] = *weight;
        }
    }
    all
}

async fn read_all(transaction: Transaction) -> Result<Vec<Vec<f32>>, ModelError> {
    let device = |error: &dyn std::fmt::Display| ModelError::Device(error.to_string());
    let data = transaction.execute_async().await.map_err(|error| device(&error))?;
    data.iter().map(|data| Ok(data.as_slice::<f32>().map_err(|error| device(&error))?.to_vec())).collect()
}

fn key_values(info: &ModelInfo, positions: &Range<usize>, keys: Vec<f32>, values: Vec<f32>) -> KeyValues {
    KeyValues {
        first_position: positions.start,
        positions: positions.len(),
        n_layers: info.n_layers,
        n_kv_heads: info.n_kv_heads,
        head_dim: info.head_dim,
        keys,
        values,
    }
}

//! A *model* is a Llama-style decoder with its weights on a device: an embedding, blocks, a norm and an output matrix
//! (Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models").
//!
//! It runs one sequence, so no tensor has a batch dimension. It knows nothing of sampling or of who asks.

mod block;
mod norm;
mod rotation;

use std::ops::Range;

use burn::tensor::{Device, Int, Tensor, TensorData, Transaction};
use inferscope_trace::{Attention, KeyValues, ModelInfo, Observe, TokenId};

use crate::{Cache, Checkpoint, LanguageModel, ModelError, Output, SequenceCache};
use block::{Block, Pass};
use norm::RmsNorm;
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

    /// The pass up to the logits, and what was observed on the way, all still on the device. Nothing is held in the
    /// cache yet.
    fn run(&self, tokens: &[TokenId], cache: &mut Cache, positions: &Range<usize>, observe: Observe) -> Pending {
        let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
        let ids: Tensor<1, Int> = Tensor::from_data(ids.as_slice(), &self.device); // [position]
        let mut pass = Pass::new(&self.info, &self.rotation, positions.clone(), observe, &self.device);

        let mut x = self.embedding.clone().select(0, ids); // [position, dim]
        for (block, cache) in self.blocks.iter().zip(cache.layers_mut()) {
            x = block.forward(x, cache, &mut pass);
        }
        let last = x.narrow(0, tokens.len() - 1, 1); // [1, dim]
        let logits = self.final_norm.forward(last).matmul(self.output.clone()); // [1, vocab]
        let (attention, kv) = pass.into_observed();
        Pending { logits, attention, kv }
    }
}

impl LanguageModel for Model {
    type Cache = Cache;

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn new_cache(&self) -> Cache {
        Cache::new(&self.info, &self.device)
    }

    async fn forward(&self, tokens: &[TokenId], cache: &mut Cache, observe: Observe) -> Result<Output, ModelError> {
        assert!(!tokens.is_empty(), "a pass needs a token");
        let positions = cache.next_positions(tokens.len())?;
        let output = self.run(tokens, cache, &positions, observe).read_back(&self.info, &positions).await?;
        cache.commit(positions);
        Ok(output)
    }

    async fn key_values(&self, cache: &Cache, positions: Range<usize>) -> Result<KeyValues, ModelError> {
        assert!(positions.end <= cache.len(), "only positions that are held can be read");
        let (keys, values): (Vec<_>, Vec<_>) = cache
            .layers()
            .iter()
            .map(|layer| {
                let (keys, values) = layer.read(positions.clone()); // [kv head, position, head_dim]
                (keys.swap_dims(0, 1), values.swap_dims(0, 1))
            })
            .unzip();
        let keys: Tensor<4> = Tensor::stack(keys, 0); // [layer, position, kv head, head_dim]
        let values: Tensor<4> = Tensor::stack(values, 0);
        let mut read = read_all(Transaction::default().register(keys).register(values)).await?.into_iter();
        let mut next = || read.next().expect("as many as were registered");
        Ok(key_values(&self.info, &positions, next(), next()))
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
    async fn read_back(self, info: &ModelInfo, positions: &Range<usize>) -> Result<Output, ModelError> {
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
            weights: next(),
        });
        let kv = with_kv.then(|| key_values(info, positions, next(), next()));
        Ok(Output { logits, attention, kv })
    }
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

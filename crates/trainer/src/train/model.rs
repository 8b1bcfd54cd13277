//! A *Llama* is the model that is trained, as burn parameters: the same computation as `inferscope_core::Model`, over a
//! batch of whole sequences, written with plain tensor operations.
//!
//! These operations are the readable reference. Training runs the fused operations of [`super::ops`] on the same
//! parameters, and a test compares the gradients of both. The module knows nothing of data, optimizers or files.

use burn::module::{Module, Param, ParamId};
use burn::tensor::activation::{log_softmax, silu, softmax};
use burn::tensor::{Device, Int, Tensor, TensorData};
use inferscope_core::{Checkpoint, LayerWeights};
use inferscope_trace::{ModelInfo, TokenId};

use super::kernels::norm::EPSILON;
use super::random::Normal;

/// Standard deviation of the first weights.
const INIT: f32 = 0.02;

/// Parameters of one layer. Matrices are `[in, out]`, so that a layer's input is multiplied from the left.
#[derive(Module, Debug)]
pub struct Block {
    /// `[dim]`
    pub attention_norm: Param<Tensor<1>>,
    /// `[dim, (n_heads + 2 n_kv_heads) · head_dim]`: queries, keys and values side by side.
    pub qkv: Param<Tensor<2>>,
    /// `[n_heads · head_dim, dim]`
    pub attention_output: Param<Tensor<2>>,
    /// `[dim]`
    pub feed_forward_norm: Param<Tensor<1>>,
    /// `[dim, 2 hidden]`: gate and up side by side.
    pub gate_up: Param<Tensor<2>>,
    /// `[hidden, dim]`
    pub down: Param<Tensor<2>>,
}

/// What stands before and after the layers.
#[derive(Module, Debug)]
pub struct Ends {
    /// `[vocab, dim]`; also the output matrix.
    pub embedding: Param<Tensor<2>>,
    /// `[dim]`
    pub final_norm: Param<Tensor<1>>,
}

/// All parameters. The shape they belong to goes beside them.
#[derive(Module, Debug)]
pub struct Llama {
    pub ends: Ends,
    pub blocks: Vec<Block>,
}

/// A batch of sequences of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Tokens of a sequence, without the last target.
    pub positions: usize,
    /// `[row · position]`
    pub inputs: Vec<TokenId>,
    /// `[row · position]`: at every position the token that comes next.
    pub targets: Vec<TokenId>,
}

impl Batch {
    /// From rows of `positions + 1` tokens.
    pub fn new(rows: &[Vec<TokenId>], positions: usize) -> Self {
        assert!(rows.iter().all(|row| row.len() == positions + 1), "every position needs a target");
        let inputs = rows.iter().flat_map(|row| &row[..positions]).copied().collect();
        let targets = rows.iter().flat_map(|row| &row[1..]).copied().collect();
        Self { positions, inputs, targets }
    }

    pub fn rows(&self) -> usize {
        self.inputs.len() / self.positions
    }
}

impl Llama {
    /// First weights from a seed: normal with a deviation of 0.02, those that write to the residual stream smaller by
    /// √(2 n_layers) so that it does not grow with depth (Radford et al. 2019); norms are 1. The device needs autodiff.
    pub fn init(shape: &ModelInfo, seed: u64, device: &Device) -> Self {
        let mut normal = Normal::new(seed);
        let mut matrix = |n: usize, deviation: f32| (0..n).map(|_| normal.next() * deviation).collect::<Vec<f32>>();
        let residual = INIT / (2.0 * shape.n_layers as f32).sqrt();
        let (dim, kv_dim, hidden) = (shape.dim, shape.kv_dim(), shape.hidden_dim);
        let checkpoint = Checkpoint {
            shape: shape.clone(),
            embedding: matrix(shape.vocab_size * dim, INIT),
            layers: (0..shape.n_layers)
                .map(|_| LayerWeights {
                    attention_norm: vec![1.0; dim],
                    query: matrix(dim * dim, INIT),
                    key: matrix(kv_dim * dim, INIT),
                    value: matrix(kv_dim * dim, INIT),
                    attention_output: matrix(dim * dim, residual),
                    feed_forward_norm: vec![1.0; dim],
                    gate: matrix(hidden * dim, INIT),
                    down: matrix(hidden * dim, residual),
                    up: matrix(hidden * dim, INIT),
                })
                .collect(),
            final_norm: vec![1.0; dim],
            output: None,
        };
        Self::from_checkpoint(&checkpoint, device)
    }

    /// Parameters with a checkpoint's weights, on a device with autodiff. Their ids are numbered by position, so that the state of an optimizer
    /// finds them again in another process.
    ///
    /// # Panics
    /// When the checkpoint has an output matrix of its own; the trainer makes none.
    pub fn from_checkpoint(checkpoint: &Checkpoint, device: &Device) -> Self {
        assert!(checkpoint.output.is_none(), "only models with a tied embedding are trained");
        let shape = &checkpoint.shape;
        let (dim, kv_dim, hidden) = (shape.dim, shape.kv_dim(), shape.hidden_dim);
        let mut ids = 1..;
        let mut id = || ParamId::from(ids.next().expect("an endless range"));
        let vector = |id, weights: &[f32]| {
            let tensor = Tensor::<1>::from_data(TensorData::new(weights.to_vec(), [weights.len()]), device);
            Param::initialized(id, tensor.require_grad())
        };
        let matrix = |id, rows: usize, weights: Vec<f32>| {
            let columns = weights.len() / rows;
            let tensor = Tensor::<2>::from_data(TensorData::new(weights, [rows, columns]), device);
            Param::initialized(id, tensor.require_grad())
        };
        let ends = Ends {
            embedding: matrix(id(), shape.vocab_size, checkpoint.embedding.clone()),
            final_norm: vector(id(), &checkpoint.final_norm),
        };
        let blocks = checkpoint
            .layers
            .iter()
            .map(|layer| {
                let qkv = [(&layer.query, dim), (&layer.key, kv_dim), (&layer.value, kv_dim)];
                Block {
                    attention_norm: vector(id(), &layer.attention_norm),
                    qkv: matrix(id(), dim, transpose_together(&qkv, dim)),
                    attention_output: matrix(id(), dim, transpose_together(&[(&layer.attention_output, dim)], dim)),
                    feed_forward_norm: vector(id(), &layer.feed_forward_norm),
                    gate_up: matrix(id(), dim, transpose_together(&[(&layer.gate, hidden), (&layer.up, hidden)], dim)),
                    down: matrix(id(), hidden, transpose_together(&[(&layer.down, dim)], hidden)),
                }
            })
            .collect();
        Self { ends, blocks }
    }

    /// The weights as a file holds them.
    pub fn to_checkpoint(&self, shape: &ModelInfo) -> Checkpoint {
        let (dim, kv_dim, hidden) = (shape.dim, shape.kv_dim(), shape.hidden_dim);
        let layers = self.blocks.iter().map(|block| {
            let [query, key, value] = split_transposed(&numbers(&block.qkv), [dim, kv_dim, kv_dim]);
            let [gate, up] = split_transposed(&numbers(&block.gate_up), [hidden, hidden]);
            let [attention_output] = split_transposed(&numbers(&block.attention_output), [dim]);
            let [down] = split_transposed(&numbers(&block.down), [dim]);
            LayerWeights {
                attention_norm: numbers(&block.attention_norm),
                query,
                key,
                value,
                attention_output,
                feed_forward_norm: numbers(&block.feed_forward_norm),
                gate,
                down,
                up,
            }
        });
        Checkpoint {
            shape: shape.clone(),
            embedding: numbers(&self.ends.embedding),
            layers: layers.collect(),
            final_norm: numbers(&self.ends.final_norm),
            output: None,
        }
    }

    /// `[row, position, vocab]`
    pub fn logits(&self, shape: &ModelInfo, batch: &Batch) -> Tensor<3> {
        let device = self.ends.embedding.device();
        let ids = ids(&batch.inputs, &device);
        let rotation = Rotation::new(batch.positions, shape.head_dim, &device);
        let x = self.ends.embedding.val().select(0, ids); // [row · position, dim]
        let mut x = x.reshape([batch.rows(), batch.positions, shape.dim]);
        for block in &self.blocks {
            x = block.forward(shape, x, &rotation);
        }
        norm(x, &self.ends.final_norm).matmul(self.ends.embedding.val().transpose().unsqueeze())
    }

    /// The mean cross entropy of the next tokens in nats, `[1]`.
    pub fn loss(&self, shape: &ModelInfo, batch: &Batch) -> Tensor<1> {
        let n = batch.targets.len();
        let logits = self.logits(shape, batch).reshape([n, shape.vocab_size]);
        let targets = ids(&batch.targets, &self.ends.embedding.device()).reshape([n, 1]);
        log_softmax(logits, 1).gather(1, targets).mean().neg()
    }
}

impl Block {
    /// `[row, position, dim]` → the same.
    fn forward(&self, shape: &ModelInfo, x: Tensor<3>, rotation: &Rotation) -> Tensor<3> {
        let x = x.clone() + self.attention(shape, norm(x, &self.attention_norm), rotation);
        let gate_up = norm(x.clone(), &self.feed_forward_norm).matmul(self.gate_up.val().unsqueeze());
        let gate = gate_up.clone().narrow(2, 0, shape.hidden_dim);
        let up = gate_up.narrow(2, shape.hidden_dim, shape.hidden_dim);
        x + (silu(gate) * up).matmul(self.down.val().unsqueeze())
    }

    /// `[row, position, dim]` → the same.
    fn attention(&self, shape: &ModelInfo, x: Tensor<3>, rotation: &Rotation) -> Tensor<3> {
        let [rows, positions, dim] = x.dims();
        let (n_heads, n_kv_heads, head_dim) = (shape.n_heads, shape.n_kv_heads, shape.head_dim);
        let group = shape.group_size();
        let qkv = x.matmul(self.qkv.val().unsqueeze());
        let qkv = qkv.reshape([rows, positions, n_heads + 2 * n_kv_heads, head_dim]).swap_dims(1, 2);
        let queries = rotation.apply(qkv.clone().narrow(1, 0, n_heads)); // [row, head, position, head_dim]
        let keys = rotation.apply(qkv.clone().narrow(1, n_heads, n_kv_heads)); // [row, kv head, position, head_dim]
        let values = qkv.narrow(1, n_heads + n_kv_heads, n_kv_heads);

        // The queries of a group are rows of one matrix, so that no key or value has to be repeated for them.
        let queries = queries.reshape([rows, n_kv_heads, group * positions, head_dim]) / (head_dim as f32).sqrt();
        let scores = queries.matmul(keys.transpose()); // [row, kv head, group · position, key]
        let scores = scores.reshape([rows, n_kv_heads, group, positions, positions]) + rotation.mask.clone();
        let weights = softmax(scores, 4).reshape([rows, n_kv_heads, group * positions, positions]);
        let mixed = weights.matmul(values).reshape([rows, n_heads, positions, head_dim]);
        mixed.swap_dims(1, 2).reshape([rows, positions, dim]).matmul(self.attention_output.val().unsqueeze())
    }
}

/// `[.., dim]` → the same.
fn norm(x: Tensor<3>, weight: &Param<Tensor<1>>) -> Tensor<3> {
    let mean_square = x.clone().square().mean_dim(2); // [row, position, 1]
    x / (mean_square + EPSILON).sqrt() * weight.val().unsqueeze()
}

/// What attention needs to know of positions.
struct Rotation {
    cos: Tensor<4>,  // [1, position, head_dim / 2, 1]
    sin: Tensor<4>,  // [1, position, head_dim / 2, 1]
    mask: Tensor<5>, // [1, 1, 1, position, key]: −10⁹ where the key comes later
}

impl Rotation {
    fn new(positions: usize, head_dim: usize, device: &Device) -> Self {
        let angles = (0..positions).flat_map(|position| {
            (0..head_dim).step_by(2).map(move |even| {
                let frequency = 1.0 / 10_000f32.powf(even as f32 / head_dim as f32);
                position as f32 * frequency
            })
        });
        let table =
            |values: Vec<f32>| Tensor::from_data(TensorData::new(values, [1, positions, head_dim / 2, 1]), device);
        let later = (0..positions * positions).map(|i| if i % positions > i / positions { -1e9f32 } else { 0.0 });
        Self {
            cos: table(angles.clone().map(f32::cos).collect()),
            sin: table(angles.map(f32::sin).collect()),
            mask: Tensor::from_data(TensorData::new(later.collect(), [1, 1, 1, positions, positions]), device),
        }
    }

    /// `[row, head, position, head_dim]` → the same, each pair of neighbouring components turned.
    fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let [rows, heads, positions, head_dim] = x.dims();
        let pairs = x.reshape([rows * heads, positions, head_dim / 2, 2]);
        let even = pairs.clone().narrow(3, 0, 1);
        let odd = pairs.narrow(3, 1, 1);
        let turned_even = even.clone() * self.cos.clone() - odd.clone() * self.sin.clone();
        let turned_odd = even * self.sin.clone() + odd * self.cos.clone();
        Tensor::cat(vec![turned_even, turned_odd], 3).reshape([rows, heads, positions, head_dim])
    }
}

pub(super) fn ids(tokens: &[TokenId], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = tokens.iter().map(|&id| id as i32).collect();
    Tensor::from_data(TensorData::new(ids, [tokens.len()]), device)
}

pub(super) fn numbers<const D: usize>(param: &Param<Tensor<D>>) -> Vec<f32> {
    param.val().into_data().try_into_vec().expect("parameters are f32")
}

/// Matrices `[out, in]`, given with their number of outs, side by side as one of `[in, all outs]`.
fn transpose_together(parts: &[(&Vec<f32>, usize)], n_in: usize) -> Vec<f32> {
    let n_out: usize = parts.iter().map(|(_, outs)| outs).sum();
    let mut transposed = vec![0.0; n_in * n_out];
    for (out, row) in parts.iter().flat_map(|(part, _)| part.chunks_exact(n_in)).enumerate() {
        for (i, &weight) in row.iter().enumerate() {
            transposed[i * n_out + out] = weight;
        }
    }
    transposed
}

/// The inverse of [`transpose_together`].
fn split_transposed<const N: usize>(together: &[f32], outs: [usize; N]) -> [Vec<f32>; N] {
    let n_out: usize = outs.iter().sum();
    let mut first = 0;
    outs.map(|outs| {
        let columns = first..first + outs;
        first += outs;
        columns.flat_map(|out| together.iter().skip(out).step_by(n_out).copied()).collect()
    })
}

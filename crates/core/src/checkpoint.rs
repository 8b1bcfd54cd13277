//! A *checkpoint* is a model's weights as they lie in a file of the llama2.c layout (Karpathy 2023, version 0): a header
//! of seven little-endian i32, then f32 tensors, each matrix stored `[out, in]` and each kind of tensor for all layers
//! before the next kind.
//!
//! It knows no device; [`Model::load`](crate::Model::load) brings the weights there.

use inferscope_trace::{ELEMENT_BYTES, ModelInfo};

use crate::config::{ConfigError, HEADER_LEN, read_header};

const HEADER_BYTES: usize = HEADER_LEN * 4;

/// Why a file is not a checkpoint that can be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("the checkpoint has {found} bytes, too few for its header of {HEADER_BYTES}")]
    NoHeader { found: usize },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the checkpoint is cut off: it has {found} bytes, and its header asks for {expected}")]
    Truncated { expected: u128, found: usize },
    #[error("the checkpoint is too long: it has {found} bytes, and its header asks for {expected}")]
    Oversized { expected: u128, found: usize },
    #[error("the checkpoint is damaged: number {index} of {tensor} is {value}")]
    NotFinite { tensor: &'static str, index: usize, value: String },
}

/// Weights of one layer. Matrices are `[out, in]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerWeights {
    /// `[dim]`
    pub attention_norm: Vec<f32>,
    /// `[n_heads · head_dim, dim]`
    pub query: Vec<f32>,
    /// `[n_kv_heads · head_dim, dim]`
    pub key: Vec<f32>,
    /// `[n_kv_heads · head_dim, dim]`
    pub value: Vec<f32>,
    /// `[dim, n_heads · head_dim]`
    pub attention_output: Vec<f32>,
    /// `[dim]`
    pub feed_forward_norm: Vec<f32>,
    /// `[hidden_dim, dim]`, w1 in the file.
    pub gate: Vec<f32>,
    /// `[dim, hidden_dim]`, w2 in the file.
    pub down: Vec<f32>,
    /// `[hidden_dim, dim]`, w3 in the file.
    pub up: Vec<f32>,
}

/// A checked file: its shape is possible, it has exactly the size that the shape asks for, and every weight is a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The id is empty: a file does not know its name.
    pub shape: ModelInfo,
    /// `[vocab, dim]`
    pub embedding: Vec<f32>,
    pub layers: Vec<LayerWeights>,
    /// `[dim]`
    pub final_norm: Vec<f32>,
    /// `[vocab, dim]`; without one the embedding serves.
    pub output: Option<Vec<f32>>,
}

impl Checkpoint {
    /// Reads a whole file. The two tables of rotary angles in it are skipped; the model computes its own.
    ///
    /// # Errors
    /// When the header is impossible, the size is not what the header asks for, or a weight is not finite.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let (header, body) =
            bytes.split_at_checked(HEADER_BYTES).ok_or(CheckpointError::NoHeader { found: bytes.len() })?;
        let mut fields = [0; HEADER_LEN];
        for (field, bytes) in fields.iter_mut().zip(header.as_chunks().0) {
            *field = i32::from_le_bytes(*bytes);
        }
        let shape = read_header(fields)?;
        let expected = file_bytes(&shape);
        let found = bytes.len();
        if (found as u128) < expected {
            return Err(CheckpointError::Truncated { expected, found });
        }
        if found as u128 > expected {
            return Err(CheckpointError::Oversized { expected, found });
        }
        Reader { rest: body }.checkpoint(shape)
    }
}

/// Size of the file that a shape asks for. In 128 bits, since a header's numbers may be as large as they like.
fn file_bytes(shape: &ModelInfo) -> u128 {
    let wide = |count: usize| count as u128;
    let (dim, kv_dim, hidden) = (wide(shape.dim), wide(shape.kv_dim()), wide(shape.hidden_dim));
    let embedding = wide(shape.vocab_size) * dim;
    let layer = 2 * dim + 2 * dim * dim + 2 * dim * kv_dim + 3 * dim * hidden;
    let angles = wide(shape.context) * wide(shape.head_dim);
    let output = if shape.tied_embedding { 0 } else { embedding };
    let elements = embedding + wide(shape.n_layers) * layer + dim + angles + output;
    wide(HEADER_BYTES) + elements * u128::from(ELEMENT_BYTES)
}

/// Takes tensors from the front of a file whose size has been checked.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn checkpoint(mut self, shape: ModelInfo) -> Result<Checkpoint, CheckpointError> {
        let (dim, kv_dim, hidden, n) = (shape.dim, shape.kv_dim(), shape.hidden_dim, shape.n_layers);
        let embedding = self.tensor("the embedding", shape.vocab_size * dim)?;
        let mut attention_norms = self.per_layer("the attention norms", n, dim)?;
        let mut queries = self.per_layer("the query matrices", n, dim * dim)?;
        let mut keys = self.per_layer("the key matrices", n, kv_dim * dim)?;
        let mut values = self.per_layer("the value matrices", n, kv_dim * dim)?;
        let mut attention_outputs = self.per_layer("the attention output matrices", n, dim * dim)?;
        let mut feed_forward_norms = self.per_layer("the feed-forward norms", n, dim)?;
        let mut gates = self.per_layer("the gate matrices (w1)", n, hidden * dim)?;
        let mut downs = self.per_layer("the down matrices (w2)", n, dim * hidden)?;
        let mut ups = self.per_layer("the up matrices (w3)", n, hidden * dim)?;
        let final_norm = self.tensor("the final norm", dim)?;
        self.rest = &self.rest[shape.context * shape.head_dim * 4..];
        let output = match shape.tied_embedding {
            true => None,
            false => Some(self.tensor("the output matrix", shape.vocab_size * dim)?),
        };
        let layers = (0..n)
            .map(|layer| LayerWeights {
                attention_norm: std::mem::take(&mut attention_norms[layer]),
                query: std::mem::take(&mut queries[layer]),
                key: std::mem::take(&mut keys[layer]),
                value: std::mem::take(&mut values[layer]),
                attention_output: std::mem::take(&mut attention_outputs[layer]),
                feed_forward_norm: std::mem::take(&mut feed_forward_norms[layer]),
                gate: std::mem::take(&mut gates[layer]),
                down: std::mem::take(&mut downs[layer]),
                up: std::mem::take(&mut ups[layer]),
            })
            .collect();
        Ok(Checkpoint { shape, embedding, layers, final_norm, output })
    }

    fn per_layer(
        &mut self,
        tensor: &'static str,
        n_layers: usize,
        len: usize,
    ) -> Result<Vec<Vec<f32>>, CheckpointError> {
        (0..n_layers).map(|_| self.tensor(tensor, len)).collect()
    }

    fn tensor(&mut self, tensor: &'static str, len: usize) -> Result<Vec<f32>, CheckpointError> {
        let (bytes, rest) = self.rest.split_at(len * 4);
        self.rest = rest;
        let values: Vec<f32> = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match values.iter().position(|value| !value.is_finite()) {
            Some(index) => Err(CheckpointError::NotFinite { tensor, index, value: values[index].to_string() }),
            None => Ok(values),
        }
    }
}

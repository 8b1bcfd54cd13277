//! A *configuration* is a model's shape as a file declares it.
//!
//! Nothing here trusts the numbers: a shape that leaves this module can be multiplied out and allocated safely, once the
//! size of the file has been compared with it.

use inferscope_trace::{ELEMENT_BYTES, ModelInfo};

/// The most memory a model may ask for beside its weights (cache and rotation table). A header can ask for any amount
/// with a small file behind it, and a page must not try.
const MAX_WORKING_BYTES: u128 = 1 << 30;

/// What is wrong with a model's shape as a file declares it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("the checkpoint declares {value} for {field}, which must be at least 1 and below 2³¹")]
    NotPositive { field: &'static str, value: i64 },
    #[error(
        "the checkpoint declares {n_heads} query heads, which do not divide evenly among {n_kv_heads} key/value heads"
    )]
    UnevenGroups { n_heads: usize, n_kv_heads: usize },
    #[error("the checkpoint declares a width of {dim}, which does not divide evenly among {n_heads} heads")]
    UnevenHeads { dim: usize, n_heads: usize },
    #[error("the checkpoint declares heads of width {head_dim}, but rotary positions need an even width")]
    OddHead { head_dim: usize },
    #[error(
        "a model of the shape that the checkpoint declares needs {bytes} bytes beside its weights, and {MAX_WORKING_BYTES} is the limit"
    )]
    TooLarge { bytes: u128 },
    /// On a GPU, whose workgroup memory is the same everywhere.
    #[error("the model's {what} is {found}, and {limit} is the limit on WebGPU; the CPU engine runs it")]
    TooLargeForGpu { what: &'static str, found: usize, limit: usize },
}

/// A shape that nobody has checked yet. The width of a head is not among it: it is the width over the query heads.
pub(crate) struct DeclaredShape {
    pub dim: i64,
    pub hidden_dim: i64,
    pub n_layers: i64,
    pub n_heads: i64,
    pub n_kv_heads: i64,
    pub vocab_size: i64,
    pub context: i64,
    pub tied_embedding: bool,
}

impl DeclaredShape {
    /// The shape, if there can be such a model. Its id is left empty, since a file does not know its name.
    pub fn check(self) -> Result<ModelInfo, ConfigError> {
        let positive = |field, value: i64| match i32::try_from(value) {
            Ok(count) if count > 0 => Ok(count as usize),
            _ => Err(ConfigError::NotPositive { field, value }),
        };
        let dim = positive("the width (dim)", self.dim)?;
        let hidden_dim = positive("the feed-forward width (hidden_dim)", self.hidden_dim)?;
        let n_layers = positive("the number of layers", self.n_layers)?;
        let n_heads = positive("the number of query heads", self.n_heads)?;
        let n_kv_heads = positive("the number of key/value heads", self.n_kv_heads)?;
        let vocab_size = positive("the size of the vocabulary", self.vocab_size)?;
        let context = positive("the context (seq_len)", self.context)?;
        if n_heads % n_kv_heads != 0 {
            return Err(ConfigError::UnevenGroups { n_heads, n_kv_heads });
        }
        if dim % n_heads != 0 {
            return Err(ConfigError::UnevenHeads { dim, n_heads });
        }
        let head_dim = dim / n_heads;
        if head_dim % 2 != 0 {
            return Err(ConfigError::OddHead { head_dim });
        }
        // Four factors of 31 bits each fit into 128.
        let cache = 2 * n_layers as u128 * (n_kv_heads * head_dim) as u128 * context as u128;
        let rotation = context as u128 * head_dim as u128;
        let bytes = (cache + rotation) * u128::from(ELEMENT_BYTES);
        if bytes > MAX_WORKING_BYTES {
            return Err(ConfigError::TooLarge { bytes });
        }
        Ok(ModelInfo {
            id: String::new(),
            dim,
            hidden_dim,
            n_layers,
            n_heads,
            n_kv_heads,
            head_dim,
            vocab_size,
            context,
            tied_embedding: self.tied_embedding,
        })
    }
}

/// Number of weights of a model of that shape. In 128 bits, since a shape's numbers may be as large as they like.
pub(crate) fn n_weights(shape: &ModelInfo) -> u128 {
    let wide = |count: usize| count as u128;
    let (dim, kv_dim, hidden) = (wide(shape.dim), wide(shape.kv_dim()), wide(shape.hidden_dim));
    let embedding = wide(shape.vocab_size) * dim;
    let layer = 2 * dim + 2 * dim * dim + 2 * dim * kv_dim + 3 * dim * hidden;
    let output = if shape.tied_embedding { 0 } else { embedding };
    embedding + wide(shape.n_layers) * layer + dim + output
}

//! A *configuration* is a model's shape as the header of its checkpoint declares it.
//!
//! Nothing here trusts the numbers: a shape that leaves this module can be multiplied out and allocated safely, once the
//! size of the file has been compared with it.

use inferscope_trace::{ELEMENT_BYTES, ModelInfo};

/// The most memory a model may ask for beside its weights (cache and rotation table). A header can ask for any amount
/// with a small file behind it, and a page must not try.
const MAX_WORKING_BYTES: u128 = 1 << 30;

/// What is wrong with the numbers in a checkpoint's header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("the checkpoint's header gives {value} for {field}, which must be at least 1")]
    NotPositive { field: &'static str, value: i32 },
    #[error(
        "the checkpoint's header gives {n_heads} query heads, which do not divide evenly among {n_kv_heads} key/value heads"
    )]
    UnevenGroups { n_heads: usize, n_kv_heads: usize },
    #[error("the checkpoint's header gives a width of {dim}, which does not divide evenly among {n_heads} heads")]
    UnevenHeads { dim: usize, n_heads: usize },
    #[error("the checkpoint's header gives heads of width {head_dim}, but rotary positions need an even width")]
    OddHead { head_dim: usize },
    #[error(
        "a model of the shape in the checkpoint's header needs {bytes} bytes beside its weights, and {MAX_WORKING_BYTES} is the limit"
    )]
    TooLarge { bytes: u128 },
}

/// Number of i32 in a checkpoint's header.
pub(crate) const HEADER_LEN: usize = 7;

/// The shape that a llama2.c header declares: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative when
/// the output matrix is not shared with the embedding) and context. The model's id is left empty, since a file does not
/// know its name.
pub(crate) fn read_header(header: [i32; HEADER_LEN]) -> Result<ModelInfo, ConfigError> {
    let [dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context] = header;
    let positive = |field, value: i32| match usize::try_from(value) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(ConfigError::NotPositive { field, value }),
    };
    let tied_embedding = vocab_size > 0;
    let dim = positive("the width (dim)", dim)?;
    let hidden_dim = positive("the feed-forward width (hidden_dim)", hidden_dim)?;
    let n_layers = positive("the number of layers", n_layers)?;
    let n_heads = positive("the number of query heads", n_heads)?;
    let n_kv_heads = positive("the number of key/value heads", n_kv_heads)?;
    // The lowest i32 has no positive counterpart, so it stays negative and is refused.
    let vocab_size = positive("the size of the vocabulary", vocab_size.wrapping_abs())?;
    let context = positive("the context (seq_len)", context)?;
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
    let rotation = context as u128 * head_dim as u128 * head_dim as u128;
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
        tied_embedding,
    })
}

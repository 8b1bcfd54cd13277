//! The *llama2.c layout* (Karpathy 2023, version 0): a header of seven little-endian i32, then f32 tensors, each matrix
//! stored `[out, in]` and each kind of tensor for all layers before the next kind. Two tables of rotary angles lie before
//! the output matrix; a reader that computes its own skips them.

use inferscope_trace::{ELEMENT_BYTES, ModelInfo};

use super::elements::{f32_values, not_finite};
use crate::checkpoint::{Checkpoint, LayerPart, Part};
use crate::config::{ConfigError, DeclaredShape, n_weights};
use crate::model::ROTARY_BASE;

/// Number of i32 in the header.
const HEADER_LEN: usize = 7;
const HEADER_BYTES: usize = HEADER_LEN * 4;

/// Why a file is not a checkpoint of this layout that can be run.
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

impl Checkpoint {
    /// Reads a whole file of the llama2.c layout.
    ///
    /// # Errors
    /// When the header is impossible, the size is not what the header asks for, or a weight is not finite.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let shape = declared_shape(bytes)?;
        let expected = file_bytes(&shape);
        let found = bytes.len();
        if (found as u128) < expected {
            return Err(CheckpointError::Truncated { expected, found });
        }
        if found as u128 > expected {
            return Err(CheckpointError::Oversized { expected, found });
        }
        let mut rest = &bytes[HEADER_BYTES..];
        let parts = parts_in_order(&shape);
        let tables = shape.context * shape.head_dim * 4;
        let size_of = |part: Part| part.size(&shape).iter().product::<usize>() * 4;
        Self::read_parts(shape.clone(), &parts, |part| {
            if part == Part::Output {
                rest = &rest[tables..];
            }
            let (tensor, behind) = rest.split_at(size_of(part));
            rest = behind;
            let values = f32_values(tensor);
            match not_finite(&values) {
                Some(index) => {
                    let value = values[index].to_string();
                    Err(CheckpointError::NotFinite { tensor: part.title(), index, value })
                }
                None => Ok(values),
            }
        })
    }

    /// The checkpoint as a file of the llama2.c layout.
    pub fn to_llama2c(&self) -> Vec<u8> {
        let shape = &self.shape;
        let field = |count: usize| i32::try_from(count).expect("a checked shape fits into the header");
        let vocab_size = field(shape.vocab_size);
        let header = [
            field(shape.dim),
            field(shape.hidden_dim),
            field(shape.n_layers),
            field(shape.n_heads),
            field(shape.n_kv_heads),
            if shape.tied_embedding { vocab_size } else { -vocab_size },
            field(shape.context),
        ];
        let mut file: Vec<u8> = header.iter().flat_map(|field| field.to_le_bytes()).collect();
        for part in parts_in_order(shape) {
            if part == Part::Output {
                append(&mut file, &rotary_tables(shape));
            }
            append(&mut file, self.part(part));
        }
        if shape.tied_embedding {
            append(&mut file, &rotary_tables(shape));
        }
        file
    }
}

/// The shape that the header of a file declares: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size (negative
/// when the output matrix is not shared with the embedding) and context.
pub(crate) fn declared_shape(bytes: &[u8]) -> Result<ModelInfo, CheckpointError> {
    let (header, _) = bytes.split_at_checked(HEADER_BYTES).ok_or(CheckpointError::NoHeader { found: bytes.len() })?;
    let mut fields = [0; HEADER_LEN];
    for (field, bytes) in fields.iter_mut().zip(header.as_chunks().0) {
        *field = i32::from_le_bytes(*bytes);
    }
    let tied_embedding = fields[5] > 0;
    // The lowest i32 has no positive counterpart, so it stays negative and is refused.
    fields[5] = fields[5].wrapping_abs();
    let [dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context] = fields.map(i64::from);
    let declared =
        DeclaredShape { dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, context, tied_embedding };
    Ok(declared.check()?)
}

/// Size of the file that a shape asks for.
pub(crate) fn file_bytes(shape: &ModelInfo) -> u128 {
    let angles = shape.context as u128 * shape.head_dim as u128;
    HEADER_BYTES as u128 + (n_weights(shape) + angles) * u128::from(ELEMENT_BYTES)
}

/// Every tensor in the order of the file, where each kind comes for all layers before the next.
fn parts_in_order(shape: &ModelInfo) -> Vec<Part> {
    let mut parts = vec![Part::Embedding];
    for part in LayerPart::ALL {
        parts.extend((0..shape.n_layers).map(|layer| Part::Layer(layer, part)));
    }
    parts.push(Part::FinalNorm);
    parts.extend((!shape.tied_embedding).then_some(Part::Output));
    parts
}

/// Cosines, then sines, of the angle of every position and pair of components: two tables `[context, head_dim / 2]`.
fn rotary_tables(shape: &ModelInfo) -> Vec<f32> {
    let angles = (0..shape.context).flat_map(|position| {
        (0..shape.head_dim)
            .step_by(2)
            .map(move |even| position as f32 / ROTARY_BASE.powf(even as f32 / shape.head_dim as f32))
    });
    let (cosines, mut sines): (Vec<f32>, Vec<f32>) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
    let mut tables = cosines;
    tables.append(&mut sines);
    tables
}

fn append(file: &mut Vec<u8>, values: &[f32]) {
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

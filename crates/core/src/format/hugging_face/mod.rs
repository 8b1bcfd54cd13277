//! *Hugging Face's files* of a Llama: `model.safetensors` with the tensors under the names of its transformers library,
//! and `config.json` with the shape and everything else that a model's arithmetic depends on.
//!
//! Three things differ from a checkpoint in memory. The numbers may be f16 or bf16. Rotary positions turn the first half
//! of a head's components against the second (i, i + head_dim / 2), where this crate turns neighbours (2i, 2i + 1), so
//! that the rows of query and key matrices lie in another order. And the norms may have another ε.
//!
//! The last is a matter of scale: x / √(mean x² + ε) stays the same when x is multiplied by s and ε by s². So a model
//! with any ε is one with this crate's, after whatever writes to the residual stream is multiplied by the root of their
//! ratio.

mod config;

use half::bf16;
use inferscope_trace::ModelInfo;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::elements::{f16_values, f32_values, not_finite};
use crate::checkpoint::{Checkpoint, LayerPart, Part};
use crate::config::ConfigError;
use crate::model::NORM_EPSILON;

pub(crate) use config::Config;

/// Why such files are not a model that can be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HuggingFaceError {
    #[error("the configuration is not JSON ({cause})")]
    Json { cause: String },
    #[error("the configuration's field {field} is missing or not of the right type")]
    Field { field: &'static str },
    #[error("the configuration gives {found} for {field}, and only {supported} is supported here")]
    Unsupported { field: &'static str, found: String, supported: String },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the safetensors file is cut off or damaged ({cause})")]
    Safetensors { cause: String },
    #[error("the safetensors file has no tensor {name}, which a model of its configuration needs")]
    Missing { name: String },
    #[error("the safetensors file has a tensor {name}, which a Llama of its configuration does not have")]
    Unexpected { name: String },
    #[error("the tensor {name} has the shape {found:?}, and the configuration asks for {expected:?}")]
    Shape { name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("the tensor {name} has elements of the type {found}, and only F32, F16 and BF16 can be read here")]
    Element { name: String, found: String },
    #[error("the safetensors file is damaged: number {index} of the tensor {name} is {value}")]
    NotFinite { name: String, index: usize, value: String },
}

impl Checkpoint {
    /// Reads a Llama from the bytes of its `model.safetensors` and its `config.json`.
    ///
    /// # Errors
    /// When either is damaged, when they do not fit together, or when the configuration asks for something that
    /// [`Model`](crate::Model) does not compute.
    pub fn from_safetensors(model: &[u8], config: &[u8]) -> Result<Self, HuggingFaceError> {
        Self::of_hugging_face(model, &Config::parse(config)?)
    }

    pub(crate) fn of_hugging_face(model: &[u8], config: &Config) -> Result<Self, HuggingFaceError> {
        let shape = &config.shape;
        let tensors = SafeTensors::deserialize(model)
            .map_err(|error| HuggingFaceError::Safetensors { cause: error.to_string() })?;
        // Before anything is listed by it, the number of layers must be one that the file speaks of.
        if shape.n_layers > tensors.len() {
            return Err(HuggingFaceError::Missing { name: name(Part::Layer(tensors.len(), LayerPart::AttentionNorm)) });
        }
        let parts = Part::all(shape);
        if let Some(name) = unexpected(&tensors, &parts, shape.tied_embedding) {
            return Err(HuggingFaceError::Unexpected { name });
        }
        let half = shape.head_dim / 2;
        let scale = (f64::from(NORM_EPSILON) / config.norm_epsilon).sqrt() as f32;
        Self::read_parts(shape.clone(), &parts, |part| {
            let name = name(part);
            let Ok(tensor) = tensors.tensor(&name) else { return Err(HuggingFaceError::Missing { name }) };
            let mut weights = weights(&name, &tensor, dimensions(part, shape))?;
            let factor = match part {
                Part::Embedding | Part::Layer(_, LayerPart::AttentionOutput | LayerPart::Down) => scale,
                // The embedding is also the output matrix, which must stay as it was.
                Part::FinalNorm if shape.tied_embedding => 1.0 / scale,
                _ => 1.0,
            };
            weights.iter_mut().for_each(|weight| *weight *= factor);
            check_finite(&name, &weights)?;
            Ok(reordered(part, shape, weights, |row| row % 2 * half + row / 2))
        })
    }

    /// The weights as a `model.safetensors` of 32-bit numbers, to go with [`config_json`](Self::config_json).
    pub fn to_safetensors(&self) -> Vec<u8> {
        let shape = &self.shape;
        let half = shape.head_dim / 2;
        let parts = Part::all(shape).into_iter().map(|part| {
            let weights = reordered(part, shape, self.part(part).to_vec(), |row| row % half * 2 + row / half);
            let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
            (name(part), dimensions(part, shape), bytes)
        });
        let parts: Vec<(String, Vec<usize>, Vec<u8>)> = parts.collect();
        let views = parts.iter().map(|(name, dimensions, bytes)| {
            let view = TensorView::new(Dtype::F32, dimensions.clone(), bytes);
            (name, view.expect("as many bytes as the dimensions ask for"))
        });
        // transformers asks for this word about who wrote the tensors' names.
        let metadata = [("format".to_string(), "pt".to_string())].into_iter().collect();
        safetensors::serialize(views, Some(metadata)).expect("names and numbers are JSON")
    }
}

/// A tensor that none of the parts is. Tables of rotary angles and an output matrix that equals the embedding are
/// written by some and read by nobody.
fn unexpected(tensors: &SafeTensors, parts: &[Part], tied_embedding: bool) -> Option<String> {
    let known: Vec<String> = parts.iter().map(|&part| name(part)).collect();
    let unread =
        |name: &str| name.ends_with(".rotary_emb.inv_freq") || (tied_embedding && name == self::name(Part::Output));
    let mut names = tensors.names();
    names.sort_unstable();
    names.into_iter().find(|found| !unread(found) && !known.iter().any(|name| name == found)).map(str::to_string)
}

/// A tensor's weights, row after row.
fn weights(name: &str, tensor: &TensorView, expected: Vec<usize>) -> Result<Vec<f32>, HuggingFaceError> {
    let name = || name.to_string();
    if tensor.shape() != expected {
        return Err(HuggingFaceError::Shape { name: name(), found: tensor.shape().to_vec(), expected });
    }
    match tensor.dtype() {
        Dtype::F32 => Ok(f32_values(tensor.data())),
        Dtype::F16 => Ok(f16_values(tensor.data())),
        Dtype::BF16 => Ok(bf16_values(tensor.data())),
        other => Err(HuggingFaceError::Element { name: name(), found: other.to_string() }),
    }
}

fn check_finite(name: &str, weights: &[f32]) -> Result<(), HuggingFaceError> {
    match not_finite(weights) {
        Some(index) => {
            let (name, value) = (name.to_string(), weights[index].to_string());
            Err(HuggingFaceError::NotFinite { name, index, value })
        }
        None => Ok(()),
    }
}

/// Little-endian bf16: the upper half of an f32.
fn bf16_values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect()
}

/// The rows of each head of a query or key matrix in another order: row i becomes what row `source(i)` was. Other
/// tensors stay as they are.
fn reordered(part: Part, shape: &ModelInfo, weights: Vec<f32>, source: impl Fn(usize) -> usize) -> Vec<f32> {
    if !matches!(part, Part::Layer(_, LayerPart::Query | LayerPart::Key)) {
        return weights;
    }
    let (head_dim, dim) = (shape.head_dim, shape.dim);
    let mut reordered = Vec::with_capacity(weights.len());
    for head in weights.chunks_exact(head_dim * dim) {
        for row in 0..head_dim {
            reordered.extend_from_slice(&head[source(row) * dim..][..dim]);
        }
    }
    reordered
}

/// `[out, in]` of a matrix, `[dim]` of a norm.
fn dimensions(part: Part, shape: &ModelInfo) -> Vec<usize> {
    let size = part.size(shape);
    if part.is_norm() { size[1..].to_vec() } else { size.to_vec() }
}

/// What transformers calls a tensor.
fn name(part: Part) -> String {
    let (layer, part) = match part {
        Part::Embedding => return "model.embed_tokens.weight".into(),
        Part::FinalNorm => return "model.norm.weight".into(),
        Part::Output => return "lm_head.weight".into(),
        Part::Layer(layer, part) => (layer, part),
    };
    let part = match part {
        LayerPart::AttentionNorm => "input_layernorm",
        LayerPart::Query => "self_attn.q_proj",
        LayerPart::Key => "self_attn.k_proj",
        LayerPart::Value => "self_attn.v_proj",
        LayerPart::AttentionOutput => "self_attn.o_proj",
        LayerPart::FeedForwardNorm => "post_attention_layernorm",
        LayerPart::Gate => "mlp.gate_proj",
        LayerPart::Down => "mlp.down_proj",
        LayerPart::Up => "mlp.up_proj",
    };
    format!("model.layers.{layer}.{part}.weight")
}

//! A *checkpoint* is a model's shape and its weights as 32-bit numbers, in no particular file and on no device.
//!
//! [`format`](crate::format) reads and writes the files that hold one, and [`Model::load`](crate::Model::load) brings the
//! weights to a device.

use inferscope_trace::ModelInfo;

/// Weights of one layer. Matrices are `[out, in]`.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// `[hidden_dim, dim]`, w1 in llama2.c.
    pub gate: Vec<f32>,
    /// `[dim, hidden_dim]`, w2 in llama2.c.
    pub down: Vec<f32>,
    /// `[hidden_dim, dim]`, w3 in llama2.c.
    pub up: Vec<f32>,
}

/// A model as the readers of files leave it: its shape is possible, every tensor has the size that the shape asks for,
/// and every weight is a number. Rotary positions turn neighbouring components of queries and keys (2i, 2i + 1).
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

/// Which tensor of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Embedding,
    Layer(usize, LayerPart),
    FinalNorm,
    /// Only where it is not the embedding.
    Output,
}

/// Which tensor of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerPart {
    AttentionNorm,
    Query,
    Key,
    Value,
    AttentionOutput,
    FeedForwardNorm,
    Gate,
    Down,
    Up,
}

impl LayerPart {
    /// In the order of llama2.c's files, which is nearly the order of their use.
    pub const ALL: [Self; 9] = [
        Self::AttentionNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::AttentionOutput,
        Self::FeedForwardNorm,
        Self::Gate,
        Self::Down,
        Self::Up,
    ];
}

impl Part {
    /// Every tensor of a model of that shape: the embedding, each layer's, the final norm, the output matrix.
    pub fn all(shape: &ModelInfo) -> Vec<Self> {
        let layers = (0..shape.n_layers).flat_map(|layer| LayerPart::ALL.map(|part| Self::Layer(layer, part)));
        let mut parts = vec![Self::Embedding];
        parts.extend(layers);
        parts.push(Self::FinalNorm);
        parts.extend((!shape.tied_embedding).then_some(Self::Output));
        parts
    }

    /// `[out, in]` of a matrix, `[vocab, dim]` of the embedding, `[1, dim]` of a norm.
    pub fn size(self, shape: &ModelInfo) -> [usize; 2] {
        let (dim, hidden) = (shape.dim, shape.hidden_dim);
        match self {
            Self::Embedding | Self::Output => [shape.vocab_size, dim],
            Self::FinalNorm => [1, dim],
            Self::Layer(_, part) => match part {
                LayerPart::AttentionNorm | LayerPart::FeedForwardNorm => [1, dim],
                LayerPart::Query | LayerPart::AttentionOutput => [dim, dim],
                LayerPart::Key | LayerPart::Value => [shape.kv_dim(), dim],
                LayerPart::Gate | LayerPart::Up => [hidden, dim],
                LayerPart::Down => [dim, hidden],
            },
        }
    }

    /// Whether it is a norm's vector of scales and not a matrix.
    pub fn is_norm(self) -> bool {
        matches!(self, Self::FinalNorm | Self::Layer(_, LayerPart::AttentionNorm | LayerPart::FeedForwardNorm))
    }

    /// What a reader's message calls it and its like in other layers.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Embedding => "the embedding",
            Self::FinalNorm => "the final norm",
            Self::Output => "the output matrix",
            Self::Layer(_, part) => match part {
                LayerPart::AttentionNorm => "the attention norms",
                LayerPart::Query => "the query matrices",
                LayerPart::Key => "the key matrices",
                LayerPart::Value => "the value matrices",
                LayerPart::AttentionOutput => "the attention output matrices",
                LayerPart::FeedForwardNorm => "the feed-forward norms",
                LayerPart::Gate => "the gate matrices (w1)",
                LayerPart::Down => "the down matrices (w2)",
                LayerPart::Up => "the up matrices (w3)",
            },
        }
    }
}

impl Checkpoint {
    /// A checkpoint of that shape whose parts `read` supplies, in the order of `parts`, which must be all of them.
    pub(crate) fn read_parts<E>(
        shape: ModelInfo,
        parts: &[Part],
        mut read: impl FnMut(Part) -> Result<Vec<f32>, E>,
    ) -> Result<Self, E> {
        let mut checkpoint = Self {
            embedding: Vec::new(),
            layers: vec![LayerWeights::default(); shape.n_layers],
            final_norm: Vec::new(),
            output: None,
            shape,
        };
        for &part in parts {
            let [rows, columns] = part.size(&checkpoint.shape);
            let weights = read(part)?;
            assert_eq!(weights.len(), rows * columns, "the size of {part:?}");
            *checkpoint.part_mut(part) = weights;
        }
        Ok(checkpoint)
    }

    /// The weights of a part, row after row.
    ///
    /// # Panics
    /// When there is no such layer, or no output matrix beside the embedding.
    pub fn part(&self, part: Part) -> &[f32] {
        match part {
            Part::Embedding => &self.embedding,
            Part::FinalNorm => &self.final_norm,
            Part::Output => self.output.as_deref().expect("an untied model has an output matrix"),
            Part::Layer(layer, part) => {
                let layer = &self.layers[layer];
                match part {
                    LayerPart::AttentionNorm => &layer.attention_norm,
                    LayerPart::Query => &layer.query,
                    LayerPart::Key => &layer.key,
                    LayerPart::Value => &layer.value,
                    LayerPart::AttentionOutput => &layer.attention_output,
                    LayerPart::FeedForwardNorm => &layer.feed_forward_norm,
                    LayerPart::Gate => &layer.gate,
                    LayerPart::Down => &layer.down,
                    LayerPart::Up => &layer.up,
                }
            }
        }
    }

    fn part_mut(&mut self, part: Part) -> &mut Vec<f32> {
        match part {
            Part::Embedding => &mut self.embedding,
            Part::FinalNorm => &mut self.final_norm,
            Part::Output => self.output.get_or_insert_default(),
            Part::Layer(layer, part) => {
                let layer = &mut self.layers[layer];
                match part {
                    LayerPart::AttentionNorm => &mut layer.attention_norm,
                    LayerPart::Query => &mut layer.query,
                    LayerPart::Key => &mut layer.key,
                    LayerPart::Value => &mut layer.value,
                    LayerPart::AttentionOutput => &mut layer.attention_output,
                    LayerPart::FeedForwardNorm => &mut layer.feed_forward_norm,
                    LayerPart::Gate => &mut layer.gate,
                    LayerPart::Down => &mut layer.down,
                    LayerPart::Up => &mut layer.up,
                }
            }
        }
    }
}

//! A *preset* is the shape of a model that ships.

use clap::ValueEnum;
use inferscope_trace::ModelInfo;

use crate::stories::{CONTEXT, VOCAB_SIZE};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// The model of the page: eight query heads on four key/value heads.
    Main,
    /// The main shape as multi-head attention: every query head has keys and values of its own.
    Mha,
    /// The main shape as multi-query attention: all query heads share one head of keys and values.
    Mqa,
    /// The small model that drafts tokens for the main one.
    Draft,
}

impl Preset {
    pub fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Mha => "mha",
            Self::Mqa => "mqa",
            Self::Draft => "draft",
        }
    }

    /// The highest learning rate that does well: the small model takes larger steps.
    pub fn peak_rate(self) -> f64 {
        match self {
            Self::Main | Self::Mha | Self::Mqa => 0.006,
            Self::Draft => 0.015,
        }
    }

    pub fn shape(self) -> ModelInfo {
        let (dim, hidden_dim, n_layers, n_heads, n_kv_heads) = match self {
            Self::Main => (128, 344, 5, 8, 4),
            Self::Mha => (128, 344, 5, 8, 8),
            Self::Mqa => (128, 344, 5, 8, 1),
            Self::Draft => (64, 160, 2, 4, 1),
        };
        ModelInfo {
            id: self.name().to_string(),
            dim,
            hidden_dim,
            n_layers,
            n_heads,
            n_kv_heads,
            head_dim: dim / n_heads,
            vocab_size: VOCAB_SIZE,
            context: CONTEXT,
            tied_embedding: true,
        }
    }
}

//! A *layout* says how a sequence's columns lie in the cache, and which of them stay.

use serde::{Deserialize, Serialize};

use crate::{ELEMENT_BYTES, ModelInfo};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheLayout {
    /// One buffer as long as the context.
    #[default]
    Contiguous,
    /// Blocks of so many positions, anywhere.
    Paged { block: usize },
    /// The first `sinks` positions and the newest `window` stay, the newest itself among them.
    Window { sinks: usize, window: usize },
    /// Every number in so many bits, with a scale of two bytes for each key and each value vector of a head.
    Quantised { bits: u32 },
}

/// Bytes of a quantised vector's scale.
const SCALE_BYTES: u64 = 2;

impl CacheLayout {
    /// How many positions `position` looks at, itself among them.
    pub fn seen_from(&self, position: u64) -> u64 {
        match *self {
            Self::Window { sinks, window } => (position + 1).min((sinks + window) as u64),
            _ => position + 1,
        }
    }

    /// Positions that are kept of `len` that were run.
    pub fn kept(&self, len: u64) -> u64 {
        match *self {
            Self::Window { sinks, window } => len.min((sinks + window) as u64),
            _ => len,
        }
    }

    /// Bytes of one position's keys and values in all layers: 2 (key and value) · layers · kv heads · head_dim · the bytes of
    /// a number, which are 4 unless the layout says otherwise.
    pub fn column_bytes(&self, model: &ModelInfo) -> u64 {
        let vectors = 2 * (model.n_layers * model.n_kv_heads) as u64;
        let head_dim = model.head_dim as u64;
        match *self {
            Self::Quantised { bits } => vectors * ((head_dim * u64::from(bits)).div_ceil(8) + SCALE_BYTES),
            _ => vectors * head_dim * ELEMENT_BYTES,
        }
    }

    /// Bytes of cache that `len` positions take: of those that are kept, and of blocks that they begin.
    pub fn bytes(&self, model: &ModelInfo, len: u64) -> u64 {
        let positions = match *self {
            Self::Paged { block } => len.next_multiple_of(block.max(1) as u64),
            _ => self.kept(len),
        };
        positions * self.column_bytes(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelInfo {
        ModelInfo {
            id: "m".into(),
            dim: 128,
            hidden_dim: 344,
            n_layers: 5,
            n_heads: 8,
            n_kv_heads: 4,
            head_dim: 16,
            vocab_size: 1024,
            context: 256,
            tied_embedding: true,
        }
    }

    #[test]
    fn bytes_of_each_layout_are_those_counted_by_hand() {
        let of = |layout: CacheLayout, len| layout.bytes(&model(), len);
        assert_eq!(of(CacheLayout::Contiguous, 10), crate::cache_bytes(&model(), 10));
        assert_eq!(of(CacheLayout::Contiguous, 1), 2 * 5 * 4 * 16 * 4);
        assert_eq!(of(CacheLayout::Paged { block: 16 }, 17), of(CacheLayout::Contiguous, 32));
        let window = CacheLayout::Window { sinks: 4, window: 12 };
        assert_eq!(
            [of(window, 10), of(window, 200)],
            [of(CacheLayout::Contiguous, 10), of(CacheLayout::Contiguous, 16)]
        );
        assert_eq!(of(CacheLayout::Quantised { bits: 8 }, 1), 2 * 5 * 4 * (16 + 2));
        assert_eq!(of(CacheLayout::Quantised { bits: 4 }, 3), 3 * 2 * 5 * 4 * (8 + 2));
        assert_eq!([window.seen_from(3), window.seen_from(15), window.seen_from(99)], [4, 16, 16]);
    }
}

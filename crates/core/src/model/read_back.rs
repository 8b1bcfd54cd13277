//! A *read-back* brings a pass's results from the device, in one wait whatever was observed, and gives them the form that a
//! record has.

use std::ops::Range;

use burn::backend::Dispatch;
use burn::tensor::{Device, Tensor};
use inferscope_trace::{Attention, KeyValues, ModelInfo};

use super::ops::DecoderOps;
use crate::cache::Layout;
use crate::device::{ReadBack, integers};
use crate::{Cache, ModelError, Output};

/// A pass's results on the device.
pub(crate) struct Pending {
    pub logits: Tensor<2>,         // [1, vocab]
    pub queries: usize,            // of how many positions attention was observed
    pub attention: Vec<Tensor<3>>, // layer after layer: [head, query, key]; empty where nobody looks
    pub kv: Option<Tensor<5>>,     // [layer, 2, position, kv head, head_dim]
}

impl Pending {
    /// `keys_read` are the positions of the keys in each row of attention.
    pub async fn read_back(
        self,
        info: &ModelInfo,
        positions: &Range<usize>,
        keys_read: &[usize],
    ) -> Result<Output, ModelError> {
        let parts = self.attention.len();
        let with_kv = self.kv.is_some();
        let mut wanted = ReadBack::default().with(self.logits);
        for layer in self.attention {
            wanted = wanted.with(layer);
        }
        if let Some(columns) = self.kv {
            wanted = wanted.with(columns);
        }
        let mut read = wanted.read().await?.into_iter();
        let mut next = || read.next().expect("as many as were registered");
        let logits = next();
        let layers: Vec<Vec<f32>> = (0..parts).map(|_| next()).collect();
        let attention = (self.queries > 0).then(|| Attention {
            n_layers: info.n_layers,
            n_heads: info.n_heads,
            queries: self.queries,
            keys: positions.end,
            weights: at_positions(layers.concat(), keys_read, positions.end),
        });
        let kv = with_kv.then(|| key_values(info, positions, &next()));
        Ok(Output { logits, attention, kv })
    }
}

/// Rows over the keys that were read, as rows over all positions: what was not there got nothing.
fn at_positions(weights: Vec<f32>, keys_read: &[usize], keys: usize) -> Vec<f32> {
    if keys_read.len() == keys {
        return weights;
    }
    let mut all = vec![0.0; weights.len() / keys_read.len() * keys];
    for (row, full) in weights.chunks_exact(keys_read.len()).zip(all.chunks_exact_mut(keys)) {
        for (weight, &key) in row.iter().zip(keys_read) {
            full[key] = *weight;
        }
    }
    all
}

/// The columns of positions, each of which must have a slot: `[layer, 2, position, kv head, head_dim]`.
pub(crate) fn columns(layout: &dyn Layout, positions: Range<usize>, device: &Device) -> Tensor<5> {
    let slot = |position| layout.slot(position).expect("a column that is read has a slot") as i32;
    let slots = integers(positions.map(slot).collect(), device).into_dispatch();
    Tensor::from_dispatch(Dispatch::columns(layout.buffer().into_dispatch(), slots))
}

/// Reads columns of the cache back, or None if it does not hold them all.
pub(crate) async fn held_key_values(
    info: &ModelInfo,
    cache: &Cache,
    positions: Range<usize>,
    device: &Device,
) -> Result<Option<KeyValues>, ModelError> {
    let layout = cache.layout();
    let held = positions.end <= layout.len() && positions.clone().all(|position| layout.slot(position).is_some());
    if !held {
        return Ok(None);
    }
    let read = ReadBack::default().with(columns(layout, positions.clone(), device)).read().await?;
    Ok(Some(key_values(info, &positions, &read[0])))
}

/// `columns` is `[layer, 2, position, kv head, head_dim]`, keys before values.
fn key_values(info: &ModelInfo, positions: &Range<usize>, columns: &[f32]) -> KeyValues {
    let one = columns.len() / (2 * info.n_layers);
    let of = |kind: usize| columns.chunks_exact(one).skip(kind).step_by(2).flatten().copied().collect();
    KeyValues {
        first_position: positions.start,
        positions: positions.len(),
        n_layers: info.n_layers,
        n_kv_heads: info.n_kv_heads,
        head_dim: info.head_dim,
        keys: of(0),
        values: of(1),
    }
}

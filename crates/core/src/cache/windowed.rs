//! The *windowed* layout: the first few positions (*sinks*) and the newest ones (the *window*) stay, everything between is
//! dropped (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks"). Here a key keeps the rotation of
//! the position it was written at, so this goes no further than the context that the model was trained for.

use std::ops::Range;

use burn::tensor::{Tensor, s};
use inferscope_trace::ModelInfo;

use super::{Layout, next_in_context};
use crate::ModelError;

#[derive(Clone)]
pub struct Windowed {
    /// Of each layer, keys and values of the positions kept, in their order; None while there are none.
    layers: Vec<Option<(Tensor<3>, Tensor<3>)>>,
    kept: Vec<usize>,
    len: usize,
    sinks: usize,
    window: usize,
    context: usize,
}

impl Windowed {
    /// # Panics
    /// The newest position must be able to see itself.
    pub fn new(info: &ModelInfo, sinks: usize, window: usize) -> Self {
        assert!(window > 0, "an empty window");
        Self { layers: vec![None; info.n_layers], kept: Vec::new(), len: 0, sinks, window, context: info.context }
    }
}

impl Layout for Windowed {
    fn len(&self) -> usize {
        self.len
    }

    fn next_positions(&mut self, count: usize) -> Result<Range<usize>, ModelError> {
        next_in_context(self.len, count, self.context)
    }

    fn write(&mut self, layer: usize, _: &Range<usize>, keys: Tensor<3>, values: Tensor<3>) {
        // What a failed pass may have left behind the kept columns goes.
        let with =
            |kept: Tensor<3>, new: Tensor<3>| Tensor::cat(vec![kept.slice(s![.., 0..self.kept.len(), ..]), new], 1);
        self.layers[layer] = Some(match self.layers[layer].take().filter(|_| !self.kept.is_empty()) {
            Some((old_keys, old_values)) => (with(old_keys, keys), with(old_values, values)),
            None => (keys, values),
        });
    }

    fn readable(&self, positions: &Range<usize>) -> Vec<usize> {
        self.kept.iter().copied().chain(positions.clone()).collect()
    }

    fn sees(&self, query: usize, key: usize) -> bool {
        key < self.sinks || key + self.window > query
    }

    fn read(&self, layer: usize, _: &Range<usize>) -> (Tensor<3>, Tensor<3>) {
        self.layers[layer].clone().expect("a layer is written before it is read")
    }

    fn columns(&self, layer: usize, positions: Range<usize>) -> Option<(Tensor<3>, Tensor<3>)> {
        let first = self.kept.iter().position(|&kept| kept == positions.start)?;
        let all_there = self.kept[first..].iter().copied().take(positions.len()).eq(positions.clone());
        let slots = s![.., first..first + positions.len(), ..];
        let (keys, values) = self.layers[layer].clone().filter(|_| all_there)?;
        Some((keys.slice(slots), values.slice(slots)))
    }

    fn commit(&mut self, positions: Range<usize>) {
        assert_eq!(positions.start, self.len, "positions are committed in order");
        let there = self.readable(&positions);
        self.len = positions.end;
        // What the next position will not see, no later one will.
        let slots: Vec<usize> = (0..there.len()).filter(|&slot| self.sees(self.len, there[slot])).collect();
        self.kept = slots.iter().map(|&slot| there[slot]).collect();
        if self.kept.len() == there.len() {
            return;
        }
        // The sinks in front and the window behind are two runs of neighbours.
        let sinks = slots.iter().enumerate().take_while(|(index, slot)| index == *slot).count();
        let behind = slots.get(sinks).copied().unwrap_or(there.len());
        let keep = |columns: Tensor<3>| match sinks {
            0 => columns.slice(s![.., behind..there.len(), ..]),
            _ if behind == there.len() => columns.slice(s![.., 0..sinks, ..]),
            _ => Tensor::cat(
                vec![columns.clone().slice(s![.., 0..sinks, ..]), columns.slice(s![.., behind..there.len(), ..])],
                1,
            ),
        };
        for layer in &mut self.layers {
            *layer = layer.take().map(|(keys, values)| (keep(keys), keep(values)));
        }
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        // The columns that the position at `len` would see must still be there.
        let needed = (0..len).filter(|&key| self.sees(len, key));
        let kept: Vec<usize> = self.kept.iter().copied().filter(|&key| key < len && self.sees(len, key)).collect();
        let intact =
            kept.iter().copied().eq(needed) && self.kept.iter().take(kept.len()).copied().eq(kept.iter().copied());
        (self.len, self.kept) = if intact { (len, kept) } else { (0, Vec::new()) };
    }

    fn fork(&self) -> Box<dyn Layout> {
        Box::new(self.clone())
    }
}

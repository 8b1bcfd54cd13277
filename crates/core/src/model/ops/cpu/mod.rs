//! The fused operations on a *processor*: loops over the slices of burn's Flex tensors, whose sums go through vectors of
//! numbers. Matrices lie in panels.

mod attention;
mod exp;
mod product;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::TensorData;
use wide::f32x8;

use super::{DecoderOps, PANEL, Reach, Size, Table};
use crate::model::NORM_EPSILON;
use attention::Attention;
use exp::exp;
use product::{Add, Place, multiply};

type Floats = FloatTensor<Flex>;
type Ints = IntTensor<Flex>;

impl DecoderOps for Flex {
    fn embed(embedding: Floats, ids: Ints, size: Size) -> Floats {
        let Size { n_in: dim, .. } = size;
        let (weights, ids) = (floats(&embedding), ints(&ids));
        let mut x = Vec::with_capacity(ids.len() * dim);
        for &id in ids {
            let (panel, lane) = (id as usize / PANEL, id as usize % PANEL);
            let (inputs, _) = weights[panel * PANEL * dim..][..PANEL * dim].as_chunks::<PANEL>();
            x.extend(inputs.iter().map(|input| input[lane]));
        }
        tensor(x, [ids.len(), dim])
    }

    fn rows(x: Floats, ids: Ints) -> Floats {
        let [_, dim] = x.shape().dims();
        let (x, ids) = (floats(&x), ints(&ids));
        let rows = ids.iter().flat_map(|&id| &x[id as usize * dim..][..dim]).copied();
        tensor(rows.collect(), [ids.len(), dim])
    }

    fn norm_product(x: Floats, norm: Floats, matrix: Floats, size: Size) -> Floats {
        let normed = normed(floats(&x), floats(&norm), size.n_in);
        let rows = normed.len() / size.n_in;
        let mut y = vec![0.0; rows * size.n_out];
        multiply::<Place>(&normed, floats(&matrix), size, &mut y);
        tensor(y, [rows, size.n_out])
    }

    fn product_add(mut residual: Floats, x: Floats, matrix: Floats, size: Size) -> Floats {
        // The residual's own memory, unless somebody else holds it too.
        multiply::<Add>(floats(&x), floats(&matrix), size, residual.storage_mut());
        residual
    }

    fn norm_gate(x: Floats, norm: Floats, gate_up: Floats, size: Size) -> Floats {
        let normed = normed(floats(&x), floats(&norm), size.n_in);
        let (rows, hidden) = (normed.len() / size.n_in, size.n_out / 2);
        let mut both = vec![0.0; rows * size.n_out];
        multiply::<Place>(&normed, floats(&gate_up), size, &mut both);
        let mut gated = Vec::with_capacity(rows * hidden);
        for both in both.chunks_exact(2 * hidden) {
            gate(both, &mut gated);
        }
        tensor(gated, [rows, hidden])
    }

    fn attend(
        qkv: Floats,
        mut mixed: Floats,
        mut cache: Floats,
        rotation: Floats,
        table: Ints,
        reach: Reach,
    ) -> (Floats, Floats, Floats) {
        let layer = cache.shape().num_elements() / cache.shape()[0];
        let table = Table::new(ints(&table), reach.positions);
        let attention = Attention { reach, table, rotation: floats(&rotation), qkv: floats(&qkv) };
        let mut weights = vec![0.0; reach.n_heads * reach.observed * reach.keys];
        let of_layer = &mut cache.storage_mut()[reach.layer * layer..][..layer];
        attention.run(of_layer, mixed.storage_mut(), &mut weights);
        (mixed, cache, tensor(weights, [reach.n_heads, reach.observed, reach.keys]))
    }

    fn columns(cache: Floats, slots: Ints) -> Floats {
        let [n_layers, _, n_kv_heads, n_slots, head_dim] = cache.shape().dims();
        let (cache, slots) = (floats(&cache), ints(&slots));
        let mut columns = Vec::with_capacity(n_layers * 2 * slots.len() * n_kv_heads * head_dim);
        for part in cache.chunks_exact(n_kv_heads * n_slots * head_dim) {
            for &slot in slots {
                for head in part.chunks_exact(n_slots * head_dim) {
                    columns.extend(&head[slot as usize * head_dim..][..head_dim]);
                }
            }
        }
        tensor(columns, [n_layers, 2, slots.len(), n_kv_heads, head_dim])
    }

    fn moved(cache: Floats, moves: Ints, slots: usize) -> Floats {
        let [n_layers, _, n_kv_heads, old_slots, head_dim] = cache.shape().dims();
        let (cache, moves) = (floats(&cache), ints(&moves));
        let (from, to) = moves.split_at(moves.len() / 2);
        let mut new = vec![0.0; n_layers * 2 * n_kv_heads * slots * head_dim];
        let heads = cache.chunks_exact(old_slots * head_dim).zip(new.chunks_exact_mut(slots * head_dim));
        for (old, new) in heads {
            for (&from, &to) in from.iter().zip(to) {
                let column = &old[from as usize * head_dim..][..head_dim];
                new[to as usize * head_dim..][..head_dim].copy_from_slice(column);
            }
        }
        tensor(new, [n_layers, 2, n_kv_heads, slots, head_dim])
    }
}

/// Each row of `x` at a root mean square of 1, times the norm's weights.
fn normed(x: &[f32], norm: &[f32], dim: usize) -> Vec<f32> {
    let mut normed = Vec::with_capacity(x.len());
    for row in x.chunks_exact(dim) {
        let (parts, rest) = row.as_chunks::<8>();
        let squares: f32x8 = parts.iter().map(|&part| f32x8::new(part) * f32x8::new(part)).sum();
        let squares = squares.reduce_add() + rest.iter().map(|number| number * number).sum::<f32>();
        let factor = 1.0 / (squares / dim as f32 + NORM_EPSILON).sqrt();
        normed.extend(row.iter().zip(norm).map(|(number, weight)| number * factor * weight));
    }
    normed
}

/// silu(gate) · up of one row, `[2 hidden]`, gate first.
fn gate(both: &[f32], gated: &mut Vec<f32>) {
    let (gate, up) = both.split_at(both.len() / 2);
    let (gates, gate_rest) = gate.as_chunks::<8>();
    let (ups, up_rest) = up.as_chunks::<8>();
    let silu_times = |gate: f32x8, up: f32x8| gate / (f32x8::ONE + exp(-gate)) * up;
    for (&gate, &up) in gates.iter().zip(ups) {
        gated.extend(silu_times(f32x8::new(gate), f32x8::new(up)).to_array());
    }
    for (&gate, &up) in gate_rest.iter().zip(up_rest) {
        gated.push(silu_times(f32x8::splat(gate), f32x8::splat(up)).to_array()[0]);
    }
}

fn floats(tensor: &Floats) -> &[f32] {
    tensor.as_slice().expect("contiguous numbers of 32 bits")
}

fn ints(tensor: &Ints) -> &[i32] {
    tensor.as_slice().expect("contiguous numbers of 32 bits")
}

fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D]) -> Floats {
    debug_assert_eq!(numbers.len(), shape.iter().product::<usize>());
    Floats::from_data(TensorData::new(numbers, shape))
}

//! Kernels beside burn's own operations on the same device: `cargo test -p inferscope-core --features wgpu --lib gpu`.

mod model;

use std::sync::OnceLock;

use burn::backend::Dispatch;
use burn::tensor::activation::{silu, softmax};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::model::NORM_EPSILON;
use crate::model::ops::{DecoderOps, Reach, Size, Table};

const TOLERANCE: f32 = 1e-4;

/// The machine's adapter, or `None` with a word about it. burn sets a device up only once.
fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| match Device::wgpu_options().init() {
        Ok(device) => Some(device),
        Err(error) => {
            println!("SKIPPED: no GPU and no software Vulkan driver ({error})");
            None
        }
    });
    device.as_ref()
}

/// Numbers between -1 and 1 that look random.
fn noise<const D: usize>(shape: [usize; D], seed: u32, device: &Device) -> Tensor<D> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
    Tensor::from_data(TensorData::new(numbers, shape), device)
}

fn integers<const D: usize>(numbers: &[i32], shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(numbers.to_vec(), shape), (device, DType::I32))
}

fn check<const D: usize>(what: &str, found: Tensor<D>, expected: Tensor<D>) {
    assert_eq!(found.dims(), expected.dims(), "{what}");
    let (found, expected) = (found.into_data(), expected.into_data());
    let largest = found.iter::<f32>().zip(expected.iter::<f32>()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(largest < TOLERANCE, "{what}: {largest:e}"); // fails for NaN as well
    assert!(found.iter::<f32>().all(f32::is_finite), "{what}");
}

fn norm(x: Tensor<2>, weights: Tensor<1>) -> Tensor<2> {
    let mean_square = x.clone().square().mean_dim(1);
    x / (mean_square + NORM_EPSILON).sqrt() * weights.unsqueeze()
}

#[test]
fn products_are_those_of_burn() {
    let Some(device) = device() else { return };
    for (rows, n_in, n_out) in [(1, 128, 256), (64, 128, 344), (3, 7, 5), (9, 300, 77), (17, 1024, 129), (1, 33, 1001)]
    {
        let what = format!("{rows} rows, {n_in} to {n_out}");
        let x = noise([rows, n_in], 1, device);
        let weights = noise([n_in], 2, device);
        let scale = (n_in as f32).sqrt().recip();
        let matrix = noise([n_in, 2 * n_out], 3, device) * scale;
        let (gate, up) = (matrix.clone().narrow(1, 0, n_out), matrix.clone().narrow(1, n_out, n_out));
        let normed = norm(x.clone(), weights.clone());
        let found = Tensor::<2>::from_dispatch(Dispatch::norm_gate(
            x.clone().into_dispatch(),
            weights.clone().into_dispatch(),
            matrix.clone().into_dispatch(),
            Size { n_in, n_out: 2 * n_out },
        ));
        let expected = silu(normed.clone().matmul(gate)) * normed.clone().matmul(up);
        check(&format!("gate: {what}"), found, expected);

        let found = Tensor::<2>::from_dispatch(Dispatch::norm_product(
            x.clone().into_dispatch(),
            weights.into_dispatch(),
            matrix.clone().into_dispatch(),
            Size { n_in, n_out: 2 * n_out },
        ));
        check(&format!("norm and product: {what}"), found, normed.matmul(matrix.clone()));

        let residual = noise([rows, 2 * n_out], 4, device);
        let found = Tensor::<2>::from_dispatch(Dispatch::product_add(
            residual.clone().into_dispatch(),
            x.clone().into_dispatch(),
            matrix.clone().into_dispatch(),
            Size { n_in, n_out: 2 * n_out },
        ));
        check(&format!("product and sum: {what}"), found, residual + x.matmul(matrix));
    }
}

#[test]
fn look_ups_copy_what_is_named() {
    let Some(device) = device() else { return };
    let (dim, vocab) = (24, 301);
    let embedding = noise([dim, vocab], 1, device);
    let ids = integers(&[7, 0, 300, 7], [4], device);
    let size = Size { n_in: dim, n_out: vocab };
    let found = Dispatch::embed(embedding.clone().into_dispatch(), ids.clone().into_dispatch(), size);
    check("embedding", Tensor::<2>::from_dispatch(found), embedding.transpose().select(0, ids));

    let x = noise([9, dim], 2, device);
    let ids = integers(&[8, 3], [2], device);
    let found = Dispatch::rows(x.clone().into_dispatch(), ids.clone().into_dispatch());
    check("rows", Tensor::<2>::from_dispatch(found), x.select(0, ids));

    let cache = noise([3, 2, 2, 11, 6], 3, device);
    let slots = integers(&[10, 0, 4], [3], device);
    let found = Dispatch::columns(cache.clone().into_dispatch(), slots.clone().into_dispatch());
    check("columns", Tensor::<5>::from_dispatch(found), cache.clone().select(3, slots).swap_dims(2, 3));

    let moves = integers(&[10, 0, 4, 1, 2, 0], [2, 3], device);
    let found = Dispatch::moved(cache.clone().into_dispatch(), moves.into_dispatch(), 3);
    let expected = cache.select(3, integers(&[4, 10, 0], [3], device));
    check("moved", Tensor::<5>::from_dispatch(found), expected);
}

/// [`DecoderOps::attend`] with burn's operations; `mixed` is of the sequence's rows alone.
fn attend(
    qkv: Tensor<2>,
    mut cache: Tensor<5>,
    rotation: Tensor<2>,
    numbers: &[i32],
    reach: Reach,
) -> (Tensor<2>, Tensor<5>, Tensor<3>) {
    let device = &qkv.device();
    let Reach { layer, n_heads, n_kv_heads, head_dim, positions: n, keys: n_keys, .. } = reach;
    let table = Table::new(numbers, n);
    let heads = qkv.narrow(0, reach.first_row, n).reshape([n, n_heads + 2 * n_kv_heads, head_dim]);
    let angles = rotation.select(0, integers(table.positions, [n], device)).reshape([n, 1, head_dim / 2, 2]);
    let (cos, sin) = (angles.clone().narrow(3, 0, 1), angles.narrow(3, 1, 1));
    let turned = |vectors: Tensor<3>| {
        let count = vectors.dims()[1];
        let pairs = vectors.reshape([n, count, head_dim / 2, 2]);
        let (x, y) = (pairs.clone().narrow(3, 0, 1), pairs.narrow(3, 1, 1));
        let x_turned = x.clone() * cos.clone() - y.clone() * sin.clone();
        Tensor::cat(vec![x_turned, x * sin.clone() + y * cos.clone()], 3).reshape([n, count, head_dim])
    };
    let rounded = |vectors: Tensor<3>| match reach.levels {
        None => vectors,
        Some(levels) => {
            let scale = vectors.clone().abs().max_dim(2).clamp_min(1e-12) / levels;
            (vectors / scale.clone()).round() * scale
        }
    };
    let queries = turned(heads.clone().narrow(1, 0, n_heads)); // [position, head, head_dim]
    let keys = rounded(turned(heads.clone().narrow(1, n_heads, n_kv_heads)));
    let values = rounded(heads.narrow(1, n_heads + n_kv_heads, n_kv_heads));
    for (position, &slot) in table.slots.iter().enumerate() {
        for (half, vectors) in [&keys, &values].into_iter().enumerate() {
            let column = vectors.clone().narrow(0, position, 1).reshape([1, 1, n_kv_heads, 1, head_dim]);
            let slot = slot as usize;
            let place = [layer..layer + 1, half..half + 1, 0..n_kv_heads, slot..slot + 1, 0..head_dim];
            cache = cache.slice_assign(place, column);
        }
    }
    let read = |half: usize, head: usize| {
        let vectors = cache.clone().narrow(0, layer, 1).narrow(1, half, 1).narrow(2, head, 1);
        let slots = cache.dims()[3];
        vectors.reshape([slots, head_dim]).select(0, integers(table.keys, [n_keys], device)) // [key, head_dim]
    };
    let sees = |position: usize, key: i32| {
        key < table.sinks[position] || (key >= table.from[position] && key < table.end[position])
    };
    let seen = (0..n).flat_map(|position| (0..n_keys as i32).map(move |key| (position, key)));
    let mask: Vec<f32> = seen.map(|(position, key)| if sees(position, key) { 0.0 } else { -1e9 }).collect();
    let mask = Tensor::<2>::from_data(TensorData::new(mask, [n, n_keys]), device);
    let (mixed, weights): (Vec<_>, Vec<_>) = (0..n_heads)
        .map(|head| {
            let kv_head = head * n_kv_heads / n_heads;
            let query = queries.clone().narrow(1, head, 1).reshape([n, head_dim]);
            let scores = query.matmul(read(0, kv_head).transpose()) / (head_dim as f32).sqrt();
            let weights = softmax(scores + mask.clone(), 1);
            (weights.clone().matmul(read(1, kv_head)), weights)
        })
        .unzip();
    let weights: Tensor<3> = Tensor::stack(weights, 0);
    let observed = reach.observed.max(1);
    (Tensor::cat(mixed, 1), cache, weights.narrow(1, n - observed, observed))
}

/// A cosine and a sine for each pair.
fn rotation(context: usize, head_dim: usize, device: &Device) -> Tensor<2> {
    let angle = |index: usize| (index / head_dim * (1 + index % head_dim / 2)) as f32 * 0.37;
    let part = |index: usize| if index.is_multiple_of(2) { angle(index).cos() } else { angle(index).sin() };
    let numbers: Vec<f32> = (0..context * head_dim).map(part).collect();
    Tensor::from_data(TensorData::new(numbers, [context, head_dim]), device)
}

/// The table of a sequence that begins with `start` positions in the cache, of which a window and sinks are seen. Slots are not
/// in the order of positions.
fn table(start: usize, positions: usize, [sinks, window]: [usize; 2], n_slots: usize) -> Vec<i32> {
    assert!(start + positions <= n_slots && !n_slots.is_multiple_of(7), "a slot for each position");
    let new = start..start + positions;
    let slot = |position: usize| (position * 7 + 3) % n_slots;
    let mut numbers: Vec<usize> = new.clone().collect();
    numbers.extend(new.clone().map(slot));
    numbers.extend(new.clone().map(|position| sinks.min(position + 1)));
    numbers.extend(new.clone().map(|position| (position + 1).saturating_sub(window).max(sinks.min(position + 1))));
    numbers.extend(new.clone().map(|position| position + 1));
    numbers.extend((0..new.end).map(slot));
    numbers.into_iter().map(|number| number as i32).collect()
}

#[test]
fn attention_is_that_of_burn() {
    let Some(device) = device() else { return };
    let shapes = [(8, 4, 16), (3, 1, 2), (2, 2, 128), (5, 5, 6), (6, 2, 80)];
    for (index, (n_heads, n_kv_heads, head_dim)) in shapes.into_iter().enumerate() {
        for (start, positions, seen, observed, levels) in [
            (0, 1, [0, 500], 1, None),
            (0, 40, [0, 500], 2, None),
            (29, 3, [0, 500], 3, Some(127.0)),
            (25, 12, [2, 10], 0, None),
            (60, 1, [4, 9], 1, Some(7.0)),
        ] {
            let what = format!("{n_heads} heads over {n_kv_heads} of {head_dim}, {positions} after {start}, {seen:?}");
            let n_slots = 101;
            let numbers = table(start, positions, seen, n_slots);
            let reach = Reach {
                layer: 1,
                n_heads,
                n_kv_heads,
                head_dim,
                first_row: 2,
                positions,
                keys: start + positions,
                observed,
                levels,
            };
            let qkv = noise([positions + 3, (n_heads + 2 * n_kv_heads) * head_dim], index as u32, device) * 2.0;
            let cache = noise([2, 2, n_kv_heads, n_slots, head_dim], 9, device);
            let rotation = rotation(64, head_dim, device);
            let mixed = Tensor::<2>::zeros([positions + 3, n_heads * head_dim], device);
            let (mixed, found_cache, weights) = Dispatch::attend(
                qkv.clone().into_dispatch(),
                mixed.into_dispatch(),
                cache.clone().into_dispatch(),
                rotation.clone().into_dispatch(),
                integers(&numbers, [numbers.len()], device).into_dispatch(),
                reach,
            );
            let untouched = cache.clone();
            let (expected, expected_cache, expected_weights) = attend(qkv, cache, rotation, &numbers, reach);
            check(&format!("mixed: {what}"), Tensor::<2>::from_dispatch(mixed).narrow(0, 2, positions), expected);
            check(&format!("cache: {what}"), Tensor::<5>::from_dispatch(found_cache), expected_cache);
            if observed > 0 {
                check(&format!("weights: {what}"), Tensor::<3>::from_dispatch(weights), expected_weights);
            }
            check("somebody else's cache", untouched, noise([2, 2, n_kv_heads, n_slots, head_dim], 9, device));
        }
    }
}

//! The fused path against the plain one, and both against the model that the weights are exported to.

use std::sync::Arc;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor};
use inferscope_core::{LanguageModel, Model};
use inferscope_trace::{ModelInfo, Observe};

use super::super::kernels::block::Plan;
use super::super::model::{Batch, Llama};

pub(super) fn small(n_heads: usize, n_kv_heads: usize) -> ModelInfo {
    ModelInfo {
        id: "small".to_string(),
        dim: n_heads * 16,
        hidden_dim: 40,
        n_layers: 2,
        n_heads,
        n_kv_heads,
        head_dim: 16,
        vocab_size: 37,
        context: 64,
        tied_embedding: true,
    }
}

/// Rows of tokens without any pattern.
fn batch(shape: &ModelInfo, rows: usize, positions: usize) -> Batch {
    let rows: Vec<Vec<u32>> = (0..rows)
        .map(|row| (0..=positions).map(|p| ((row * 31 + p * p * 7 + p * 3) % shape.vocab_size) as u32).collect())
        .collect();
    Batch::new(&rows, positions)
}

/// A model away from its first weights, whose attention is nearly even and would hide mistakes.
fn model(shape: &ModelInfo, device: &Device) -> Llama {
    let mut checkpoint = Llama::init(shape, 3, device).to_checkpoint(shape);
    for layer in &mut checkpoint.layers {
        for weights in [&mut layer.query, &mut layer.key, &mut layer.value, &mut layer.gate, &mut layer.up] {
            weights.iter_mut().for_each(|weight| *weight *= 15.0);
        }
        for (i, weight) in layer.attention_norm.iter_mut().chain(&mut layer.feed_forward_norm).enumerate() {
            *weight += (i % 5) as f32 * 0.1 - 0.2;
        }
    }
    checkpoint.embedding.iter_mut().for_each(|weight| *weight *= 20.0);
    Llama::from_checkpoint(&checkpoint, device)
}

#[test]
fn a_checkpoint_goes_in_and_out_unchanged() {
    let shape = small(4, 2);
    let device = Device::flex().autodiff();
    let checkpoint = model(&shape, &device).to_checkpoint(&shape);
    assert_eq!(Llama::from_checkpoint(&checkpoint, &device).to_checkpoint(&shape), checkpoint);
}

#[test]
fn the_plain_model_computes_what_the_exported_one_computes() {
    for (n_heads, n_kv_heads) in [(4, 4), (4, 2), (4, 1)] {
        let shape = small(n_heads, n_kv_heads);
        let device = Device::flex();
        let llama = model(&shape, &device.clone().autodiff()).valid();
        let batch = batch(&shape, 2, 24);
        let logits: Vec<f32> = llama.logits(&shape, &batch).into_data().try_into_vec().expect("f32");
        let exported = Model::load("small", &llama.to_checkpoint(&shape), &device);
        for (row, tokens) in batch.inputs.chunks(24).enumerate() {
            let mut cache = exported.new_cache(&inferscope_trace::CacheLayout::Contiguous);
            for (position, &token) in tokens.iter().enumerate() {
                let output = pollster::block_on(exported.forward(&[token], &mut cache, Observe::default()));
                let expected = output.expect("the cache has room").logits;
                let start = (row * 24 + position) * shape.vocab_size;
                for (a, b) in logits[start..start + shape.vocab_size].iter().zip(&expected) {
                    assert!((a - b).abs() < 1e-4, "{a} and {b} at {position} of row {row}, {n_kv_heads} kv heads");
                }
            }
        }
    }
}

#[test]
fn gradients_of_the_fused_path_are_those_of_the_plain_one() {
    for (n_heads, n_kv_heads) in [(4, 4), (4, 2), (4, 1)] {
        let shape = small(n_heads, n_kv_heads);
        let device = Device::flex().autodiff();
        let llama = model(&shape, &device);
        let batch = batch(&shape, 3, 48);
        let plan = Arc::new(Plan::new(&shape, 48));
        let (plain, fused) = (llama.loss(&shape, &batch), llama.fused_loss(&plan, &batch));
        // Twice the loss, so that a backward pass that forgets what comes after it is found out.
        let of = |loss: Tensor<1>| GradientsParams::from_grads((loss * 2.0).backward(), &llama);
        let losses = [&plain, &fused].map(|loss| loss.clone().into_scalar::<f32>());
        assert!((losses[0] - losses[1]).abs() < 1e-5 * losses[0], "{losses:?}");
        let mut comparison = Comparison { plain: of(plain), fused: of(fused), compared: 0 };
        llama.visit(&mut comparison);
        assert_eq!(comparison.compared, 2 + 6 * shape.n_layers);
    }
}

#[test]
fn the_fused_loss_needs_no_gradients() {
    let shape = small(4, 2);
    let llama = model(&shape, &Device::flex().autodiff()).valid();
    let batch = batch(&shape, 2, 32);
    let plan = Arc::new(Plan::new(&shape, 32));
    let [plain, fused] = [llama.loss(&shape, &batch), llama.fused_loss(&plan, &batch)].map(|l| l.into_scalar::<f32>());
    assert!((plain - fused).abs() < 1e-5 * plain, "{plain} and {fused}");
}

struct Comparison {
    plain: GradientsParams,
    fused: GradientsParams,
    compared: usize,
}

impl ModuleVisitor for Comparison {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let read = |gradients: &GradientsParams| -> Vec<f32> {
            gradients
                .get::<D>(param.id)
                .expect("every parameter has a gradient")
                .into_data()
                .try_into_vec()
                .expect("f32")
        };
        let (plain, fused) = (read(&self.plain), read(&self.fused));
        let largest = plain.iter().fold(0.0f32, |largest, number| largest.max(number.abs()));
        assert!(largest > 0.0);
        for (a, b) in plain.iter().zip(&fused) {
            assert!((a - b).abs() < 1e-4 * largest, "{a} and {b} of {largest} in parameter {}", param.id);
        }
        self.compared += 1;
    }
}

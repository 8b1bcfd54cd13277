//! The baseline computes what the project's model computes.

use std::path::Path;

use burn::tensor::Device;
use inferscope_core::{Checkpoint, LanguageModel, Model, Part};
use inferscope_trace::{CacheLayout, Observe};

use crate::lanes::Lanes;
use crate::model;

const TOLERANCE: f32 = 1e-3;

fn checkpoint(name: &str) -> Checkpoint {
    // Asked for at run time: a test binary may have been built in another checkout that shares the build folder.
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let file = Path::new(&root).join("../../static/model").join(format!("{name}.infer"));
    Checkpoint::from_inferscope(&std::fs::read(file).unwrap()).unwrap()
}

fn baseline(checkpoint: &Checkpoint) -> model::Model {
    let it = &checkpoint.shape;
    let shape = model::Shape {
        dim: it.dim,
        hidden_dim: it.hidden_dim,
        n_layers: it.n_layers,
        n_heads: it.n_heads,
        n_kv_heads: it.n_kv_heads,
        vocab_size: it.vocab_size,
        context: it.context,
    };
    let parts = Part::all(it).into_iter();
    model::Model::new(shape, parts.flat_map(|part| checkpoint.part(part).iter().copied()).collect())
}

fn best(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.expect("a vocabulary").0 as u32
}

/// A greedy text of either, through the whole context for the main model.
#[test]
fn logits_are_those_of_the_model() {
    for (name, positions) in [("story", 256), ("story-mha", 40), ("story-mqa", 40), ("story-draft", 40)] {
        let checkpoint = checkpoint(name);
        let model = Model::load(name, &checkpoint, &Device::flex());
        let mut baseline = baseline(&checkpoint);
        let mut cache = model.new_cache(&CacheLayout::Contiguous);
        let mut token = 1;
        for position in 0..positions {
            let expected = pollster::block_on(model.forward(&[token], &mut cache, Observe::default())).unwrap().logits;
            let logits = baseline.logits(token as usize, position);
            let largest = expected.iter().zip(logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(largest < TOLERANCE, "{name}, position {position}: off by {largest:e}");
            token = best(&expected);
        }
    }
}

#[test]
fn the_power_of_e_is_exact_to_a_millionth() {
    for step in -8600..8700 {
        let x = step as f32 / 100.0;
        let [found, ..] = Lanes::splat(x).exp().to_array();
        let expected = x.exp();
        assert!((found / expected - 1.0).abs() < 1e-6, "e^{x} is {expected:e} and not {found:e}");
    }
    assert!(Lanes::splat(f32::NEG_INFINITY).exp().to_array()[0] < 1e-37);
    assert!(Lanes::splat(1000.0).exp().to_array()[0] > 1e38);
}

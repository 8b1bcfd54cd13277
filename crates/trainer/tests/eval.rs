//! An evaluation of models about which everything is known beforehand.

use std::path::{Path, PathBuf};

use inferscope_core::{Checkpoint, ElementType, LayerWeights};
use inferscope_trace::ModelInfo;
use inferscope_trainer::eval::Material;

const TOKENIZER: &str = "../../static/model/story.tokenizer.bin";

/// A model whose matrices are all 0: it finds every token equally likely at every position.
fn indifferent() -> Checkpoint {
    let shape = ModelInfo {
        id: String::new(),
        dim: 32,
        hidden_dim: 32,
        n_layers: 1,
        n_heads: 2,
        n_kv_heads: 1,
        head_dim: 16,
        vocab_size: 1024,
        context: 256,
        tied_embedding: true,
    };
    let zeros = |len: usize| vec![0.0; len];
    let layer = LayerWeights {
        attention_norm: vec![1.0; 32],
        query: zeros(32 * 32),
        key: zeros(16 * 32),
        value: zeros(16 * 32),
        attention_output: zeros(32 * 32),
        feed_forward_norm: vec![1.0; 32],
        gate: zeros(32 * 32),
        down: zeros(32 * 32),
        up: zeros(32 * 32),
    };
    Checkpoint { shape, embedding: zeros(1024 * 32), layers: vec![layer], final_norm: vec![1.0; 32], output: None }
}

fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("inferscope-eval-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_model_that_knows_nothing_is_measured_as_such() {
    // Asked for at run time: a test binary may have been built in another checkout that shares the build folder.
    let tokenizer = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(TOKENIZER);
    let model = written("indifferent.infer", &indifferent().to_inferscope(ElementType::F32));
    let material = Material::gather(&tokenizer, 40).unwrap();
    let evaluation = material.evaluate(&model, Some(&model)).unwrap();
    let uniform = 1024f64.ln();
    for (what, nats) in [
        ("loss", evaluation.held_out.loss),
        ("entropy", evaluation.held_out.entropy),
        ("loss in 8 bits", evaluation.loss_int8),
        ("loss in 4 bits", evaluation.loss_int4),
    ] {
        assert!((nats - uniform).abs() < 1e-4, "{what}: {nats}");
    }
    assert_eq!(evaluation.held_out.open, 1.0, "everything is open");
    let acceptance = evaluation.acceptance.unwrap();
    assert!((acceptance - 1.0).abs() < 1e-4, "a model accepts what it proposes itself: {acceptance}");
    assert_eq!(evaluation.model, "indifferent");
    // Attention without keys is spread evenly over all positions before, so a head that copies nothing scores little.
    for score in evaluation.induction.iter().flatten() {
        assert!((0.0..0.2).contains(score), "{score}");
    }
    assert!(evaluation.copy.iter().all(|copy| copy.rate.is_none_or(|rate| rate < 0.01)), "{:?}", evaluation.copy);
    assert_eq!(evaluation.samples.len(), 3);
    std::fs::remove_dir_all(model.parent().unwrap()).unwrap();
}

#[test]
fn a_missing_file_is_named() {
    let error = Material::gather(Path::new("no/such/tokenizer.bin"), 1).err().unwrap();
    assert!(format!("{error:#}").contains("no/such/tokenizer.bin"), "{error:#}");
}

//! The same oracle on a GPU, or on a software Vulkan driver: `cargo test -p inferscope-core --features wgpu --test wgpu`.
#![cfg(feature = "wgpu")]

mod support;

use burn::tensor::Device;
use inferscope_core::{LanguageModel, Model, Session};
use inferscope_trace::{CacheLayout, ModelInfo};
use support::{EVERYTHING, Files, NOTHING, block_on, difference, greedy, reference, reference_models, story};

/// The machine's adapter, or `None` with a word about it. To be called once: burn sets a device up only once.
fn device() -> Option<Device> {
    match Device::wgpu_options().init() {
        Ok(device) => Some(device),
        Err(error) => {
            println!("SKIPPED: no GPU and no software Vulkan driver ({error})");
            None
        }
    }
}

/// Greedy steps of the first oracle that has a prompt, beside the same on the processor.
fn check(files: &Files, device: &Device) {
    let oracle = files.oracles().into_iter().find(|oracle| !oracle.prompt.is_empty()).unwrap();
    let (model, tokenizer) = files.load(device);
    let (twin, _) = files.load(&Device::flex());
    let settings = greedy(24);
    let open = |model| Session::open(model, &tokenizer, &oracle.prompt, Vec::new(), settings.clone()).unwrap();
    let (mut session, mut expected) = (open(model), open(twin));
    while !session.is_finished() {
        let (step, _) = block_on(session.step(&settings.sampling, EVERYTHING)).unwrap();
        let (twin, _) = block_on(expected.step(&settings.sampling, EVERYTHING)).unwrap();
        let position = step.end_position();
        assert_eq!(step.token, oracle.ids[position], "{} position {position}", files.name);
        if let Some(logits) = oracle.logits.get(position - 1) {
            let difference = difference(&step.logits, logits);
            assert!(difference < 1e-4, "{} position {position}: {difference:e}", files.name);
        }
        let (attention, kv) = (step.attention.unwrap(), step.kv.unwrap());
        let (twin_attention, twin_kv) = (twin.attention.unwrap(), twin.kv.unwrap());
        assert!(difference(&attention.weights, &twin_attention.weights) < 1e-4, "attention");
        assert!(difference(&kv.keys, &twin_kv.keys) < 1e-3, "keys");
        assert!(difference(&kv.values, &twin_kv.values) < 1e-4, "values");
    }
    let (attention, kv) = block_on(session.inspect(3, EVERYTHING)).unwrap();
    let (twin_attention, twin_kv) = block_on(expected.inspect(3, EVERYTHING)).unwrap();
    assert!(difference(&attention.unwrap().weights, &twin_attention.unwrap().weights) < 1e-4);
    assert!(difference(&kv.unwrap().values, &twin_kv.unwrap().values) < 1e-4);
}

/// A sequence gives the same logits in one pass and in several.
fn check_cuts(device: &Device) {
    let (model, _) = story().load(device);
    let tokens: Vec<u32> = (0..12).map(|i| 260 + i * 31).collect();
    let whole = block_on(model.forward(&tokens, &mut model.new_cache(&CacheLayout::Contiguous), NOTHING)).unwrap();
    let mut cache = model.new_cache(&CacheLayout::Contiguous);
    for range in [0..5, 5..6, 6..11] {
        block_on(model.forward(&tokens[range], &mut cache, NOTHING)).unwrap();
    }
    let last = block_on(model.forward(&tokens[11..], &mut cache, NOTHING)).unwrap();
    assert!(difference(&last.logits, &whole.logits) < 1e-4);
}

/// What the kernels have no room for is refused with a sentence.
fn check_limits(device: &Device) {
    let shape = story().read_checkpoint().shape;
    assert_eq!(Model::check(&shape, device), Ok(()));
    for (context, head_dim) in [(4096, 16), (256, 160)] {
        let large = ModelInfo { context, head_dim, ..shape.clone() };
        let error = Model::check(&large, device).unwrap_err();
        assert!(error.to_string().contains("the CPU engine runs it"), "{error}");
        assert_eq!(Model::check(&large, &Device::flex()), Ok(()));
    }
}

#[test]
fn the_gpu_agrees_with_the_oracles_and_the_processor() {
    let Some(device) = device() else { return };
    check_cuts(&device);
    check_limits(&device);
    let Some(folder) = reference() else { return };
    for files in reference_models(&folder) {
        check(&files, &device);
    }
}

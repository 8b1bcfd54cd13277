//! A *part* is a piece of a step that can be timed by itself, natively: passes of the model at several places, and what stands
//! before and after them. `cargo bench -p inferscope-core`, with a word behind `--` for those with it in their names, says which
//! of them a change made faster; what a reader waits for in a browser, `cargo xtask bench` says.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use burn::tensor::Device;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use inferscope_core::sampler::{coin, draw};
use inferscope_core::{Cache, Checkpoint, LanguageModel, Model, Sequence, SequenceCache, Tokenizer};
use inferscope_trace::{CacheLayout, Observe, Sampling, TokenId};
use pollster::block_on;

const STORY: &str = "Once upon a time, there was a small boy named Tom. Tom had a red house near the beach. Zoe the girl was his \
                     dear friend. One cold day Tom found a shiny map near the tall door. The map said nine steps from the tree.";

/// The positions of a pass that judges four guesses of a draft.
const VERIFIED: usize = 5;

fn file(name: &str) -> Vec<u8> {
    // Asked for at run time: a bench may have been built in another checkout that shares the build folder.
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap());
    fs::read(root.join("../../static/model").join(name)).unwrap()
}

fn model() -> Model {
    Model::load("story", &Checkpoint::from_inferscope(&file("story.infer")).unwrap(), &Device::flex())
}

fn tokenizer(model: &Model) -> Tokenizer {
    Tokenizer::parse(&file("story.tokenizer.bin"), model.info().vocab_size).unwrap()
}

/// Any tokens: what a pass costs does not depend on which.
fn tokens(count: usize) -> Vec<TokenId> {
    (0..count as TokenId).map(|i| (i * 37 + 5) % 1024).collect()
}

/// A cache that holds so many positions.
fn filled(model: &Model, len: usize) -> Cache {
    let mut cache = model.new_cache(&CacheLayout::Contiguous);
    forward(model, &tokens(len), &mut cache);
    cache
}

fn forward(model: &Model, tokens: &[TokenId], cache: &mut Cache) -> Vec<f32> {
    block_on(model.forward(tokens, cache, Observe::default())).unwrap().logits
}

fn passes(criterion: &mut Criterion) {
    let model = model();
    let mut group = criterion.benchmark_group("model");

    let prompt = tokens(64);
    group.throughput(Throughput::Elements(prompt.len() as u64));
    group.bench_function("prefill of 64", |bencher| {
        let empty = || model.new_cache(&CacheLayout::Contiguous);
        bencher.iter_batched_ref(empty, |cache| forward(&model, &prompt, cache), BatchSize::SmallInput);
    });

    for position in [16, 240] {
        let mut cache = filled(&model, position);
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("decode at position {position}"), |bencher| {
            bencher.iter(|| {
                let logits = forward(&model, &prompt[..1], &mut cache);
                // Forgetting the column again is a matter of a length.
                cache.truncate(position);
                logits
            });
        });
    }

    let mut cache = filled(&model, 64);
    group.throughput(Throughput::Elements(VERIFIED as u64));
    group.bench_function(format!("verify {VERIFIED} positions"), |bencher| {
        bencher.iter(|| {
            let sequence = Sequence { tokens: &prompt[..VERIFIED], cache: &mut cache, logits: VERIFIED };
            let logits = block_on(model.forward_batch(&mut [sequence])).unwrap();
            cache.truncate(64);
            logits
        });
    });
    group.finish();
}

fn around_the_model(criterion: &mut Criterion) {
    let model = model();
    let tokenizer = tokenizer(&model);
    let mut group = criterion.benchmark_group("tokenizer");
    group.throughput(Throughput::Bytes(STORY.len() as u64));
    group.bench_function("encode a prompt", |bencher| bencher.iter(|| tokenizer.encode(black_box(STORY))));
    group.finish();

    let file = file("story.infer");
    let mut group = criterion.benchmark_group("checkpoint");
    group.throughput(Throughput::Bytes(file.len() as u64));
    group.bench_function("read story.infer", |bencher| bencher.iter(|| Checkpoint::from_inferscope(black_box(&file))));
    group.finish();

    let logits = forward(&model, &tokens(16), &mut model.new_cache(&CacheLayout::Contiguous));
    let rules = Sampling::default().with("temperature", 0.8).with("top_k", 40.0).with("top_p", 0.95);
    let mut group = criterion.benchmark_group("sampler");
    for (name, sampling) in [("the best token", rules.clone().with("temperature", 0.0)), ("by three rules", rules)] {
        let mut step = 0;
        group.bench_function(format!("draw {name}"), |bencher| {
            bencher.iter(|| {
                step += 1;
                draw(black_box(&logits), &sampling, coin(1, step))
            });
        });
    }
    group.finish();
}

criterion_group!(parts, passes, around_the_model);
criterion_main!(parts);

//! The same tokens on the processor and on a GPU (or a software Vulkan driver), for twenty prompts of two hundred tokens each:
//! `cargo test -p inferscope-core --features wgpu --test same_tokens`.
//!
//! Greedy text must be the same throughout. A seeded draw may differ where its number lies next to the border between two
//! candidates, or where two candidates' logits change places, in both cases nearer than the devices' logits agree, and nowhere
//! else; from there on the texts are different texts, so a prompt is compared up to that step.
#![cfg(feature = "wgpu")]

mod support;

use burn::tensor::Device;
use inferscope_core::sampler::{Distribution, coin, draw};
use inferscope_core::{LanguageModel, Model};
use inferscope_trace::{CacheLayout, Sampling, TokenId};
use support::{NOTHING, block_on, difference, story};

const PROMPTS: [&str; 20] = [
    "Once upon a time, there was a brave girl named Zumo. One sunny day",
    "Once upon a time",
    "There was once a small dragon named Tibo. One windy evening",
    "",
    "The fox",
    "In a quiet valley lived an old owl.",
    "Mira and Polo were best friends.",
    "One cold morning, a boy named Rano found a key.",
    "It was raining.",
    "\"Where is my hat?\" asked the bear.",
    "A little boat sailed over the lake",
    "Every night the moon",
    "Long ago, in a village by the sea,",
    "The baker had a secret.",
    "Lila was afraid of the dark.",
    "Tom and his dog",
    "Nobody knew why the bell rang.",
    "She opened the box and",
    "Far away, behind the hills,",
    "The old tree was sad.",
];
const TOKENS: usize = 200;
/// The devices' logits agree to this.
const AGREEMENT: f32 = 1e-4;

fn logits<M: LanguageModel>(model: &M, cache: &mut M::Cache, tokens: &[TokenId]) -> Vec<f32> {
    block_on(model.forward(tokens, cache, NOTHING)).unwrap().logits
}

/// How near a number comes to the border of the candidate that it draws, on the line of all probabilities.
fn distance_to_border(logits: &[f32], sampling: &Sampling, coin: f64) -> f64 {
    let mut end = 0.0;
    let borders = Distribution::new(logits, sampling).candidates.into_iter().map(|candidate| {
        end += f64::from(candidate.probability);
        (end - coin).abs()
    });
    borders.fold(f64::INFINITY, f64::min)
}

/// Both models write after each prompt, the processor's words for both. Gives at how many steps they drew differently.
fn compare(cpu: &Model, gpu: &Model, prompts: &[Vec<TokenId>], sampling: &Sampling) -> usize {
    let mut apart = 0;
    for (seed, prompt) in prompts.iter().enumerate() {
        let [mut cpu_cache, mut gpu_cache] = [cpu, gpu].map(|model| model.new_cache(&CacheLayout::Contiguous));
        let mut next = prompt.clone();
        for step in 0..TOKENS.min(cpu.info().context - prompt.len()) {
            let [here, there] = [logits(cpu, &mut cpu_cache, &next), logits(gpu, &mut gpu_cache, &next)];
            let off = difference(&here, &there);
            assert!(off < AGREEMENT, "prompt {seed} step {step}: logits differ by {off:e}");
            let coin = coin(seed as u32, step);
            let token = draw(&here, sampling, coin);
            let other = draw(&there, sampling, coin);
            if other != token {
                let border = distance_to_border(&here, sampling, coin);
                let tie = (here[token as usize] - here[other as usize]).abs();
                println!("prompt {seed} step {step}: {border:e} from a border, logits of both {tie:e} apart");
                assert!(border < f64::from(AGREEMENT) || tie < AGREEMENT, "prompt {seed} step {step}");
                apart += 1;
                break;
            }
            next = vec![token];
        }
    }
    apart
}

#[test]
fn both_devices_write_the_same() {
    let device = match Device::wgpu_options().init() {
        Ok(device) => device,
        Err(error) => return println!("SKIPPED: no GPU and no software Vulkan driver ({error})"),
    };
    let (cpu, tokenizer) = story().load(&Device::flex());
    let (gpu, _) = story().load(&device);
    let prompts = PROMPTS.map(|prompt| tokenizer.encode(prompt)).to_vec();
    let greedy = Sampling::default().with("temperature", 0.0);
    assert_eq!(compare(&cpu, &gpu, &prompts, &greedy), 0, "greedy text");
    let drawn = Sampling::default().with("temperature", 1.0);
    let apart = compare(&cpu, &gpu, &prompts, &drawn);
    println!("drawn at temperature 1: {apart} of {} texts part", prompts.len());
}

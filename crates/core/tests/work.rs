//! The counted work, and the numbers, against a model of plain loops that counts its multiplications.

mod support;

use burn::tensor::Device;
use inferscope_core::{LanguageModel, Model};
use inferscope_trace::{CacheLayout, Work};
use support::plain::Plain;
use support::small::{SHAPES, checkpoint};
use support::{NOTHING, block_on, difference, story};

#[test]
fn flops_are_twice_the_multiplications_and_logits_agree() {
    for (name, header) in SHAPES {
        let checkpoint = checkpoint(header);
        let model = Model::load("small", &checkpoint, &Device::flex());
        let vocab_size = checkpoint.shape.vocab_size as u32;
        let tokens: Vec<u32> = (0..12).map(|i| (i * 5 + 1) % vocab_size).collect();

        // A prefill of 7, then decode, then three at once: every kind of step.
        let mut plain = Plain::new(&checkpoint);
        let mut cache = model.new_cache(&CacheLayout::Contiguous);
        let mut first = 0;
        for n in [7, 1, 1, 3] {
            let step = &tokens[first..first + n];
            plain.multiplications = 0;
            let expected = plain.run(step);
            let output = block_on(model.forward(step, &mut cache, NOTHING)).unwrap();
            let difference = difference(&output.logits, &expected);
            assert!(difference < 1e-4, "{name}, {n} positions from {first}: {difference:e}");
            let work = Work::of_step(model.info(), first, n, Some(&CacheLayout::Contiguous));
            assert_eq!(work.flops, 2 * plain.multiplications, "{name}, {n} positions from {first}");
            first += n;
        }

        // Without the cache everything is run at once.
        let mut plain = Plain::new(&checkpoint);
        plain.run(&tokens);
        let work = Work::of_step(model.info(), 0, tokens.len(), None);
        assert_eq!(work.flops, 2 * plain.multiplications, "{name}");
    }
}

#[test]
fn the_projects_own_model_agrees_with_plain_loops() {
    let checkpoint = story().read_checkpoint();
    let model = Model::load("story", &checkpoint, &Device::flex());
    let tokens: Vec<u32> = (0..20).map(|i| 260 + i * 31).collect();
    let mut plain = Plain::new(&checkpoint);
    let expected = plain.run(&tokens);
    let output = block_on(model.forward(&tokens, &mut model.new_cache(&CacheLayout::Contiguous), NOTHING)).unwrap();
    assert!(difference(&output.logits, &expected) < 1e-4);
    assert_eq!(Work::of_step(model.info(), 0, 20, Some(&CacheLayout::Contiguous)).flops, 2 * plain.multiplications);
}

#[test]
fn weight_bytes_are_those_of_the_file() {
    for (name, header) in SHAPES {
        let checkpoint = checkpoint(header);
        let shape = &checkpoint.shape;
        let layers = checkpoint.layers.iter().map(|layer| {
            let matrices = [&layer.query, &layer.key, &layer.value, &layer.attention_output];
            let others = [&layer.gate, &layer.down, &layer.up, &layer.attention_norm, &layer.feed_forward_norm];
            matrices.iter().chain(&others).map(|weights| weights.len()).sum::<usize>()
        });
        let output = checkpoint.output.as_ref().map_or(0, Vec::len);
        let elements = checkpoint.embedding.len() + layers.sum::<usize>() + checkpoint.final_norm.len() + output;
        assert_eq!(
            Work::of_step(shape, 0, 1, Some(&CacheLayout::Contiguous)).weight_bytes,
            4 * elements as u64,
            "{name}"
        );
    }
}

//! The model's fused operations beside the reference, which is written with burn's own: every shape, every layout, however a
//! sequence is cut into passes.

mod support;

use burn::tensor::Device;
use inferscope_core::reference::Reference;
use inferscope_core::{Checkpoint, LanguageModel, Model, Output, Sequence, SequenceCache};
use inferscope_trace::{CacheLayout, Observe, Rows, TokenId};
use support::small::{Numbers, SHAPES, checkpoint};
use support::{EVERYTHING, NOTHING, block_on, difference, story};

const TOLERANCE: f32 = 5e-5;

const LAYOUTS: [CacheLayout; 8] = [
    CacheLayout::Contiguous,
    CacheLayout::Paged { block: 1 },
    CacheLayout::Paged { block: 5 },
    CacheLayout::Window { sinks: 0, window: 1 },
    CacheLayout::Window { sinks: 3, window: 4 },
    CacheLayout::Window { sinks: 2, window: 30 },
    CacheLayout::Quantised { bits: 8 },
    CacheLayout::Quantised { bits: 4 },
];

/// The project's model and the small ones, each with a sequence of tokens.
fn checkpoints() -> Vec<(&'static str, Checkpoint, Vec<TokenId>)> {
    let small = SHAPES.map(|(name, header)| (name, checkpoint(header)));
    let all = std::iter::once(("story", story().read_checkpoint())).chain(small);
    all.map(|(name, checkpoint)| {
        let mut numbers = Numbers(11);
        let tokens = (0..20).map(|_| numbers.below(checkpoint.shape.vocab_size) as TokenId).collect();
        (name, checkpoint, tokens)
    })
    .collect()
}

fn passes<M: LanguageModel>(model: &M, tokens: &[TokenId], lengths: &[usize], layout: &CacheLayout) -> Vec<Output> {
    let mut cache = model.new_cache(layout);
    let observe = Observe { attention: Rows::All, ..EVERYTHING };
    let run = |&n: &usize| {
        let start = cache.len();
        block_on(model.forward(&tokens[start..start + n], &mut cache, observe)).unwrap()
    };
    lengths.iter().map(run).collect()
}

#[test]
fn fused_operations_give_what_single_ones_give() {
    let device = Device::flex();
    for (name, checkpoint, tokens) in checkpoints() {
        let model = Model::load(name, &checkpoint, &device);
        let reference = Reference::load(&checkpoint, &device);
        for layout in &LAYOUTS {
            for lengths in [&[20][..], &[1; 20], &[6, 1, 3, 1, 9]] {
                let outputs = passes(&model, &tokens, lengths, layout);
                for (pass, (found, expected)) in
                    outputs.iter().zip(passes(&reference, &tokens, lengths, layout)).enumerate()
                {
                    let at = format!("{name} {layout:?} {lengths:?}, pass {pass}");
                    let (seen, expected_seen) = (found.attention.as_ref().unwrap(), expected.attention.unwrap());
                    let (kv, expected_kv) = (found.kv.as_ref().unwrap(), expected.kv.unwrap());
                    // A number next to a rounding's threshold may fall on either side, and then differs by a whole level.
                    let tolerance = if matches!(layout, CacheLayout::Quantised { .. }) { 0.3 } else { TOLERANCE };
                    assert!(difference(&found.logits, &expected.logits) < tolerance, "{at}: logits");
                    assert!(difference(&seen.weights, &expected_seen.weights) < tolerance, "{at}: attention");
                    assert!(difference(&kv.keys, &expected_kv.keys) < tolerance, "{at}: keys");
                    assert!(difference(&kv.values, &expected_kv.values) < tolerance, "{at}: values");
                    assert_eq!((seen.queries, seen.keys), (expected_seen.queries, expected_seen.keys), "{at}");
                }
            }
        }
    }
}

#[test]
fn a_position_is_the_same_to_the_last_bit_in_whatever_company() {
    let exact =
        [CacheLayout::Contiguous, CacheLayout::Paged { block: 3 }, CacheLayout::Window { sinks: 4, window: 20 }];
    for (name, checkpoint, tokens) in checkpoints() {
        let model = Model::load(name, &checkpoint, &Device::flex());
        let alone = passes(&model, &tokens, &[1; 20], &CacheLayout::Contiguous);
        for layout in &exact {
            for lengths in [&[20][..], &[2, 3, 15], &[7, 1, 1, 11]] {
                let mut end = 0;
                for (output, n) in passes(&model, &tokens, lengths, layout).into_iter().zip(lengths) {
                    end += n;
                    assert_eq!(output.logits, alone[end - 1].logits, "{name} {layout:?} {lengths:?} at {end}");
                }
            }
        }
    }
}

#[test]
fn a_batch_gives_each_sequence_what_it_gets_alone_to_the_last_bit() {
    for (name, checkpoint, tokens) in checkpoints() {
        let model = Model::load(name, &checkpoint, &Device::flex());
        let parts = [&tokens[..5], &tokens[3..4], &tokens[7..20]];
        let mut caches = parts.map(|_| model.new_cache(&CacheLayout::Contiguous));
        let mut sequences: Vec<_> =
            parts.iter().zip(&mut caches).map(|(tokens, cache)| Sequence { tokens, cache, logits: 1 }).collect();
        let together = block_on(model.forward_batch(&mut sequences)).unwrap();
        for (tokens, logits) in parts.iter().zip(together) {
            let mut cache = model.new_cache(&CacheLayout::Contiguous);
            let alone = block_on(model.forward(tokens, &mut cache, NOTHING)).unwrap();
            assert_eq!(logits, [alone.logits], "{name}");
        }
    }
}

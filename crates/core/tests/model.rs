//! Properties of the model and its cache: however a sequence is cut into passes, the numbers are the same.

mod support;

use burn::tensor::Device;
use inferscope_core::{LanguageModel, Model, ModelError, Output, SequenceCache};
use inferscope_trace::{Attention, CacheLayout, KeyValues, Observe, Rows};
use support::small::{SHAPES, checkpoint};
use support::{EVERYTHING, NOTHING, block_on, difference, story};

const TOLERANCE: f32 = 1e-4;

/// The project's model and the small ones, each with a sequence of 12 tokens.
fn models() -> Vec<(&'static str, Model, Vec<u32>)> {
    let own = ("story", story().read_checkpoint());
    let small = SHAPES.map(|(name, header)| (name, checkpoint(header)));
    std::iter::once(own)
        .chain(small)
        .map(|(name, checkpoint)| {
            let vocab_size = checkpoint.shape.vocab_size as u32;
            let tokens = (0..12).map(|i| (i * 37 + 5) % vocab_size).collect();
            (name, Model::load(name, &checkpoint, &Device::flex()), tokens)
        })
        .collect()
}

/// Runs the tokens in passes of the given lengths and returns each pass's output.
fn passes(model: &Model, tokens: &[u32], lengths: &[usize], observe: Observe) -> Vec<Output> {
    let mut cache = model.new_cache(&CacheLayout::Contiguous);
    lengths
        .iter()
        .map(|&n| {
            let start = cache.len();
            block_on(model.forward(&tokens[start..start + n], &mut cache, observe)).unwrap()
        })
        .collect()
}

fn attention(output: &Output) -> &Attention {
    output.attention.as_ref().expect("attention was observed")
}

fn kv(output: &Output) -> &KeyValues {
    output.kv.as_ref().expect("columns were observed")
}

#[test]
fn step_by_step_equals_one_pass() {
    for (name, model, tokens) in models() {
        let whole = passes(&model, &tokens, &[12], EVERYTHING).remove(0);
        for lengths in [&[1; 12][..], &[11, 1], &[5, 4, 3], &[1, 11]] {
            let parts = passes(&model, &tokens, lengths, EVERYTHING);
            let last = parts.last().unwrap();
            assert!(difference(&last.logits, &whole.logits) < TOLERANCE, "{name} {lengths:?}: logits");
            let weights = difference(&attention(last).weights, &attention(&whole).weights);
            assert!(weights < TOLERANCE, "{name} {lengths:?}: attention {weights:e}");
            for part in parts.iter().map(kv) {
                for layer in 0..part.n_layers {
                    for position in part.first_position..part.first_position + part.positions {
                        let pair = |kv: &KeyValues| {
                            [kv.key(layer, position).unwrap().to_vec(), kv.value(layer, position).unwrap().to_vec()]
                        };
                        let columns = difference(&pair(part).concat(), &pair(kv(&whole)).concat());
                        assert!(columns < TOLERANCE, "{name} {lengths:?}: layer {layer} position {position}");
                    }
                }
            }
        }
    }
}

#[test]
fn observation_has_the_models_shape_and_changes_nothing() {
    for (name, model, tokens) in models() {
        let info = model.info();
        let observed = passes(&model, &tokens, &[7, 1, 1, 3], EVERYTHING);
        let unobserved = passes(&model, &tokens, &[7, 1, 1, 3], NOTHING);
        for ((output, plain), (first, n)) in observed.iter().zip(&unobserved).zip([(0, 7), (7, 1), (8, 1), (9, 3)]) {
            assert_eq!(output.logits, plain.logits, "{name}");
            assert_eq!((&plain.attention, &plain.kv), (&None, &None), "{name}: nobody looked");
            assert_eq!(output.logits.len(), info.vocab_size);

            let attention = attention(output);
            assert_eq!((attention.n_layers, attention.n_heads), (info.n_layers, info.n_heads));
            assert_eq!((attention.queries, attention.keys), (1, first + n), "every position up to the query's own");
            assert_eq!(attention.weights.len(), info.n_layers * info.n_heads * attention.keys);
            for layer in 0..info.n_layers {
                for head in 0..info.n_heads {
                    let row = attention.row(layer, head);
                    assert!(row.iter().all(|weight| (0.0..=1.0).contains(weight)), "{name}: weights are shares");
                    assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{name}: a row sums to 1");
                }
            }

            let kv = kv(output);
            assert_eq!((kv.first_position, kv.positions), (first, n));
            assert_eq!((kv.n_layers, kv.n_kv_heads, kv.head_dim), (info.n_layers, info.n_kv_heads, info.head_dim));
            let elements = info.n_layers * n * info.kv_dim();
            assert_eq!((kv.keys.len(), kv.values.len()), (elements, elements));
        }
    }
}

#[test]
fn every_position_of_a_pass_attends_as_it_does_alone() {
    for (name, model, tokens) in models() {
        let all = Observe { attention: Rows::All, kv: false };
        let whole = passes(&model, &tokens, &[7, 5], all);
        let alone = passes(&model, &tokens, &[1; 12], EVERYTHING);
        for (position, single) in alone.iter().enumerate() {
            let attention = attention(&whole[usize::from(position >= 7)]);
            assert_eq!(attention.mean(12, None, None), None);
            for layer in 0..model.info().n_layers {
                for head in 0..model.info().n_heads {
                    let row = attention.mean(position, Some(layer), Some(head)).unwrap();
                    let expected = self::attention(single).row(layer, head);
                    assert_eq!(row.len(), expected.len());
                    assert!(difference(&row, expected) < TOLERANCE, "{name}: {layer}.{head} at {position}");
                }
            }
        }
        assert_eq!(attention(&whole[1]).mean(6, None, None), None, "that was in the pass before");
    }
}

#[test]
fn columns_read_from_the_cache_are_those_that_were_written() {
    for (name, model, tokens) in models() {
        let mut cache = model.new_cache(&CacheLayout::Contiguous);
        let written = block_on(model.forward(&tokens[..9], &mut cache, EVERYTHING)).unwrap();
        assert_eq!(block_on(model.key_values(&cache, 0..9)).unwrap().as_ref(), Some(kv(&written)), "{name}");
        let some = block_on(model.key_values(&cache, 4..6)).unwrap().unwrap();
        assert_eq!(block_on(model.key_values(&cache, 4..10)).unwrap(), None, "{name}: not run yet");
        for layer in 0..some.n_layers {
            for position in 4..6 {
                assert_eq!(some.key(layer, position), kv(&written).key(layer, position), "{name}");
                assert_eq!(some.value(layer, position), kv(&written).value(layer, position), "{name}");
            }
        }
    }
}

#[test]
fn a_truncated_cache_forgets() {
    for (name, model, tokens) in models() {
        let mut cache = model.new_cache(&CacheLayout::Contiguous);
        block_on(model.forward(&tokens[..6], &mut cache, NOTHING)).unwrap();
        let expected = block_on(model.forward(&tokens[6..9], &mut cache.clone(), NOTHING)).unwrap();
        // Other tokens take the places, then are taken back.
        let reversed: Vec<u32> = tokens.iter().rev().copied().collect();
        block_on(model.forward(&reversed, &mut cache, NOTHING)).unwrap();
        cache.truncate(100);
        assert_eq!(cache.len(), 18, "there is nothing beyond to forget");
        cache.truncate(6);
        let output = block_on(model.forward(&tokens[6..9], &mut cache, NOTHING)).unwrap();
        assert_eq!(output.logits, expected.logits, "{name}");
    }
}

#[test]
fn a_clone_is_independent() {
    for (name, model, tokens) in models() {
        let mut cache = model.new_cache(&CacheLayout::Contiguous);
        block_on(model.forward(&tokens[..6], &mut cache, NOTHING)).unwrap();
        let before = block_on(model.key_values(&cache, 0..6)).unwrap();
        let mut other = cache.clone();
        other.truncate(2);
        block_on(model.forward(&tokens[6..12], &mut other, NOTHING)).unwrap();
        assert_eq!(block_on(model.key_values(&cache, 0..6)).unwrap(), before, "{name}");
        assert_eq!((cache.len(), other.len()), (6, 8));
    }
}

#[test]
fn the_context_ends() {
    let (_, model, tokens) = models().remove(1);
    let mut cache = model.new_cache(&CacheLayout::Contiguous);
    let full: Vec<u32> = tokens.iter().cycle().take(24).copied().collect();
    block_on(model.forward(&full[..20], &mut cache, NOTHING)).unwrap();
    let error = block_on(model.forward(&full[..5], &mut cache, NOTHING)).unwrap_err();
    assert_eq!(error, ModelError::ContextFull { context: 24, needed: 25 });
    assert_eq!(cache.len(), 20, "the cache is as it was");
    block_on(model.forward(&full[20..], &mut cache, NOTHING)).unwrap();
    assert_eq!(cache.len(), 24);
    assert!(block_on(model.forward(&[3], &mut cache, NOTHING)).is_err());
}

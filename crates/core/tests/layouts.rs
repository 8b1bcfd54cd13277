//! Every layout of the cache: a run with it equals one without, however it is cut into passes, as far as the layout keeps
//! everything; and what does not keep everything drops what it says and no more.

mod support;

use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::{Checkpoint, LanguageModel, Model, ModelError, Sequence, SequenceCache, Session, score};
use inferscope_trace::{CacheLayout, Observe, Rows, Settings, TokenId};
use support::small::{Numbers, SHAPES, checkpoint_bytes, letters};
use support::{EVERYTHING, NOTHING, block_on, difference};

const TOLERANCE: f32 = 2e-5;

/// Layouts that keep every position as it is.
const EXACT: [CacheLayout; 7] = [
    CacheLayout::Contiguous,
    CacheLayout::Paged { block: 1 },
    CacheLayout::Paged { block: 3 },
    CacheLayout::Paged { block: 16 },
    CacheLayout::Paged { block: 64 },
    // Nothing is old enough to be dropped.
    CacheLayout::Window { sinks: 0, window: 24 },
    CacheLayout::Window { sinks: 4, window: 20 },
];

const WINDOWS: [(usize, usize); 5] = [(0, 1), (0, 5), (1, 1), (3, 4), (2, 9)];

fn models() -> Vec<(&'static str, Model, Vec<TokenId>)> {
    let model = |(name, header): (&'static str, _)| {
        let checkpoint = Checkpoint::parse(&checkpoint_bytes(header)).unwrap();
        let vocab = checkpoint.shape.vocab_size;
        let mut numbers = Numbers(7);
        let tokens = (0..20).map(|_| numbers.below(vocab) as TokenId).collect();
        (name, Model::load(name, &checkpoint, &Device::flex()), tokens)
    };
    SHAPES.into_iter().map(model).collect()
}

/// The logits after each of the tokens, run in passes of these lengths (for all but the last of a pass: None).
fn logits(model: &Model, tokens: &[TokenId], lengths: &[usize], layout: &CacheLayout) -> Vec<Option<Vec<f32>>> {
    let mut cache = model.new_cache(layout);
    let mut all = Vec::new();
    let mut start = 0;
    for &n in lengths {
        let output = block_on(model.forward(&tokens[start..start + n], &mut cache, NOTHING)).unwrap();
        all.extend((1..n).map(|_| None));
        all.push(Some(output.logits));
        start += n;
    }
    all
}

fn assert_alike(name: &str, found: &[Option<Vec<f32>>], expected: &[Option<Vec<f32>>]) {
    let mut compared = 0;
    for (position, (found, expected)) in found.iter().zip(expected).enumerate() {
        if let (Some(found), Some(expected)) = (found, expected) {
            assert!(difference(found, expected) < TOLERANCE, "{name} at {position}");
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[test]
fn a_layout_that_keeps_everything_equals_running_everything_again() {
    for (name, model, tokens) in models() {
        let uncached: Vec<Option<Vec<f32>>> = (1..=tokens.len())
            .map(|n| logits(&model, &tokens[..n], &[n], &CacheLayout::Contiguous).pop().unwrap())
            .collect();
        for layout in &EXACT {
            for lengths in [&[1; 20][..], &[20], &[7, 1, 1, 1, 5, 1, 4], &[3, 16, 1]] {
                assert_alike(&format!("{name} {layout:?}"), &logits(&model, &tokens, lengths, layout), &uncached);
            }
        }
    }
}

#[test]
fn whole_runs_are_the_same_token_for_token() {
    let checkpoint = Checkpoint::parse(&checkpoint_bytes(SHAPES[1].1)).unwrap();
    let model = Rc::new(Model::load("small", &checkpoint, &Device::flex()));
    let tokenizer = letters(checkpoint.shape.vocab_size);
    let run = |layout: CacheLayout, cache: bool| {
        let settings = Settings { max_new_tokens: 18, seed: 3, cache, layout, ..Settings::default() };
        let mut session = Session::open(model.clone(), &tokenizer, "ab", Vec::new(), settings.clone()).unwrap();
        while !session.is_finished() {
            block_on(session.step(&settings.sampling, NOTHING)).unwrap();
        }
        session.generated().to_vec()
    };
    let uncached = run(CacheLayout::Contiguous, false);
    assert!(uncached.len() > 10);
    for layout in EXACT {
        assert_eq!(run(layout, true), uncached, "{layout:?}");
    }
}

#[test]
fn going_back_and_parting_leave_the_rest_as_it_was() {
    let others = WINDOWS.map(|(sinks, window)| CacheLayout::Window { sinks, window });
    for (name, model, tokens) in models() {
        for layout in EXACT.iter().chain(&others) {
            let mut cache = model.new_cache(layout);
            block_on(model.forward(&tokens[..9], &mut cache, NOTHING)).unwrap();
            let mut fork = cache.clone();
            let expected = block_on(model.forward(&tokens[9..12], &mut cache, NOTHING)).unwrap().logits;
            let other: Vec<TokenId> = tokens[..3].iter().rev().copied().collect();
            block_on(model.forward(&other, &mut fork, NOTHING)).unwrap();
            let again = |cache: &mut _, to: usize| {
                let from = SequenceCache::len(cache);
                block_on(model.forward(&tokens[from..to], cache, NOTHING)).unwrap().logits
            };
            // The fork goes back to where the two parted, or further if it must, and then runs the same.
            fork.truncate(9);
            assert!(fork.len() <= 9);
            assert!(difference(&again(&mut fork, 12), &expected) < TOLERANCE, "{name} {layout:?}");
            // And the first one has not noticed.
            cache.truncate(100);
            assert_eq!(cache.len(), 12);
            let next = again(&mut cache, 14);
            let alone = logits(&model, &tokens[..14], &[12, 2], layout).pop().unwrap().unwrap();
            assert!(difference(&next, &alone) < TOLERANCE, "{name} {layout:?}");
        }
    }
}

#[test]
fn a_window_drops_what_is_neither_a_sink_nor_near() {
    for (name, model, tokens) in models() {
        for (sinks, window) in WINDOWS {
            let layout = CacheLayout::Window { sinks, window };
            let whole = logits(&model, &tokens, &[20], &layout);
            for lengths in [&[1; 20][..], &[7, 1, 1, 1, 5, 1, 4]] {
                assert_alike(&format!("{name} {layout:?}"), &logits(&model, &tokens, lengths, &layout), &whole);
            }
            let mut cache = model.new_cache(&layout);
            for (position, token) in tokens.iter().enumerate() {
                let output = block_on(model.forward(&[*token], &mut cache, EVERYTHING)).unwrap();
                let attention = output.attention.unwrap();
                assert_eq!(attention.keys, position + 1);
                let row = attention.row(0, 0);
                let seen = |key: usize| key < sinks || key + window > position;
                assert!(row.iter().enumerate().all(|(key, &weight)| seen(key) == (weight > 0.0)), "{name} {row:?}");
                assert_eq!(
                    row.iter().filter(|weight| **weight > 0.0).count() as u64,
                    layout.seen_from(position as u64)
                );
                let kept =
                    (0..=position).filter(|&at| block_on(model.key_values(&cache, at..at + 1)).unwrap().is_some());
                // The newest is there for the next one to see, unless the window has room for one only.
                let expected = (0..=position).filter(|&key| key < sinks || key + window > position + 1);
                assert!(kept.eq(expected), "{name} {layout:?} after {position}");
            }
        }
    }
}

#[test]
fn quantised_columns_hold_as_many_values_as_their_bits_and_change_little() {
    for (name, model, tokens) in models() {
        let exact = logits(&model, &tokens, &[12, 1, 1, 6], &CacheLayout::Contiguous);
        let mut last = f32::MAX;
        for bits in [4, 8, 16] {
            let layout = CacheLayout::Quantised { bits };
            let found = logits(&model, &tokens, &[12, 1, 1, 6], &layout);
            let off = found.iter().flatten().zip(exact.iter().flatten()).map(|(a, b)| difference(a, b));
            let off = off.fold(0.0, f32::max);
            assert!(off < last && off < [0.0, 1.5, 0.1, 0.0, 3e-4][bits as usize / 4], "{name} {bits} bits: {off}");
            last = off.max(1e-6);
            let mut cache = model.new_cache(&layout);
            block_on(model.forward(&tokens, &mut cache, NOTHING)).unwrap();
            let columns = block_on(model.key_values(&cache, 0..20)).unwrap().unwrap();
            let largest = ((1u32 << (bits - 1)) - 1) as f32;
            for vector in
                columns.keys.chunks_exact(columns.head_dim).chain(columns.values.chunks_exact(columns.head_dim))
            {
                let scale = vector.iter().fold(0.0f32, |max, value| max.max(value.abs())) / largest;
                let whole =
                    |value: &f32| (value / scale - (value / scale).round()).abs() < 0.02 * largest / 127.0 + 1e-3;
                assert!(vector.iter().all(whole), "{name} {bits} bits: {vector:?}");
            }
        }
    }
}

#[test]
fn a_score_is_the_mean_surprise_step_by_step_in_every_layout() {
    let (_, model, tokens) = models().remove(0);
    let windows = WINDOWS.map(|(sinks, window)| CacheLayout::Window { sinks, window });
    let rounded = [4, 8].map(|bits| CacheLayout::Quantised { bits });
    for layout in EXACT.iter().chain(&windows).chain(&rounded) {
        let found = block_on(score(&model, &tokens, layout)).unwrap();
        let stepwise = logits(&model, &tokens, &[1; 20], layout);
        let surprise = stepwise[..19].iter().zip(&tokens[1..]).map(|(logits, &next)| {
            let logits = logits.as_ref().unwrap();
            let total: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            total.ln() - f64::from(logits[next as usize])
        });
        let expected = surprise.sum::<f64>() / 19.0;
        assert!((found - expected).abs() < 1e-4, "{layout:?}: {found} and {expected}");
    }
    assert_eq!(block_on(score(&model, &tokens[..1], &CacheLayout::Contiguous)), Ok(0.0));
}

#[test]
fn sequences_share_blocks_until_one_writes_and_all_blocks_come_back() {
    let (_, model, tokens) = models().remove(1);
    let pool = model.block_pool(8, 4);
    let mut first = model.sequence_in(&pool);
    block_on(model.forward(&tokens[..6], &mut first, NOTHING)).unwrap();
    assert_eq!(pool.free_blocks(), 6);
    let mut second = first.clone();
    assert_eq!((pool.free_blocks(), pool.references()[..2].to_vec()), (6, vec![2, 2]));
    // The second block is half full and shared, so writing takes a copy of it; the first stays shared.
    let expected = logits(&model, &tokens[..7], &[6, 1], &CacheLayout::Contiguous).pop().unwrap().unwrap();
    let found = block_on(model.forward(&tokens[6..7], &mut second, NOTHING)).unwrap().logits;
    assert!(difference(&found, &expected) < TOLERANCE);
    assert_eq!((pool.free_blocks(), pool.copies(), pool.references().iter().filter(|&&it| it == 2).count()), (5, 1, 1));
    let found = block_on(model.forward(&tokens[6..7], &mut first, NOTHING)).unwrap().logits;
    assert!(difference(&found, &expected) < TOLERANCE);
    assert_eq!(pool.copies(), 1, "nobody shares the first one's own block any more");
    second.truncate(4);
    assert_eq!(pool.free_blocks(), 6);
    drop((first, second));
    assert_eq!((pool.free_blocks(), pool.references()), (8, vec![0; 8]));
}

#[test]
fn a_pool_that_is_used_up_says_so_and_goes_on_when_blocks_come_back() {
    let (_, model, tokens) = models().remove(1);
    let pool = model.block_pool(3, 4);
    let (mut first, mut second) = (model.sequence_in(&pool), model.sequence_in(&pool));
    block_on(model.forward(&tokens[..8], &mut first, NOTHING)).unwrap();
    let error = block_on(model.forward(&tokens[..5], &mut second, NOTHING)).unwrap_err();
    assert_eq!(error, ModelError::OutOfBlocks { needed: 2, free: 1 });
    assert_eq!((second.len(), pool.free_blocks()), (0, 1));
    drop(first);
    let found = block_on(model.forward(&tokens[..5], &mut second, NOTHING)).unwrap().logits;
    let expected = logits(&model, &tokens[..5], &[5], &CacheLayout::Contiguous).pop().unwrap().unwrap();
    assert!(difference(&found, &expected) < TOLERANCE);
}

#[test]
fn a_batch_gives_each_sequence_what_it_gets_alone() {
    let all = Observe { attention: Rows::None, kv: false };
    for (name, model, tokens) in models() {
        let layouts =
            [CacheLayout::Contiguous, CacheLayout::Paged { block: 4 }, CacheLayout::Window { sinks: 1, window: 5 }];
        // Different lengths before, and different numbers of new tokens.
        let parts = [(0, 9, 1), (4, 1, 1), (11, 3, 3)];
        let mut caches: Vec<_> = layouts.iter().map(|layout| model.new_cache(layout)).collect();
        for (cache, (before, ..)) in caches.iter_mut().zip(parts).filter(|(_, (before, ..))| *before > 0) {
            block_on(model.forward(&tokens[..before], cache, all)).unwrap();
        }
        let mut sequences: Vec<Sequence<'_, _>> = caches
            .iter_mut()
            .zip(parts)
            .map(|(cache, (before, n, logits))| Sequence { tokens: &tokens[before..before + n], cache, logits })
            .collect();
        let together = block_on(model.forward_batch(&mut sequences)).unwrap();
        for ((found, (before, n, wanted)), layout) in together.iter().zip(parts).zip(&layouts) {
            assert_eq!(found.len(), wanted);
            for (index, found) in found.iter().enumerate() {
                let end = before + n - wanted + index + 1;
                let alone = logits(&model, &tokens[..end], &[end], layout).pop().unwrap().unwrap();
                assert!(difference(found, &alone) < TOLERANCE, "{name} {layout:?} at {end}");
            }
        }
        assert!(caches.iter().zip(parts).all(|(cache, (before, n, _))| cache.len() == before + n));
    }
}

//! Speculative decoding: what it writes is what the target would write, and its caches never hold what was taken back.

mod support;

use std::collections::HashMap;
use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::sampler::Law;
use inferscope_core::{Checkpoint, LanguageModel, Model, Session, SessionError, Speculation};
use inferscope_trace::{CacheLayout, Finish, Own, Round, Sampling, Settings, TokenId};
use support::scripted::Scripted;
use support::small::{Header, checkpoint_bytes, letters};
use support::{NOTHING, block_on, greedy, story};

const VOCAB: usize = 9;
const TARGET: Header = [8, 12, 2, 2, 1, VOCAB as i32, 24];
const DRAFT: Header = [8, 8, 1, 1, 1, VOCAB as i32, 24];

fn model(header: Header, sharpness: f32) -> Rc<Model> {
    let mut checkpoint = Checkpoint::parse(&checkpoint_bytes(header)).unwrap();
    checkpoint.final_norm.iter_mut().for_each(|weight| *weight *= sharpness);
    Rc::new(Model::load("small", &checkpoint, &Device::flex()))
}

fn run(target: &Rc<Model>, draft: &Rc<Model>, settings: &Settings, gamma: usize) -> (Vec<TokenId>, Vec<Round>) {
    let tokenizer = letters(VOCAB);
    let mut run = Speculation::open(target.clone(), draft.clone(), &tokenizer, "ab", settings.clone()).unwrap();
    let mut rounds = Vec::new();
    while run.finish().is_none() {
        rounds.push(block_on(run.round(&settings.sampling, gamma, &|| 0.0)).unwrap().0);
    }
    (run.generated().to_vec(), rounds)
}

fn plain(target: &Rc<Model>, settings: &Settings) -> Vec<TokenId> {
    let mut session = Session::open(target.clone(), &letters(VOCAB), "ab", Vec::new(), settings.clone()).unwrap();
    while !session.is_finished() {
        block_on(session.step(&settings.sampling, NOTHING)).unwrap();
    }
    session.generated().to_vec()
}

#[test]
fn greedy_text_is_the_targets_own_whatever_the_draft_proposes() {
    let (target, draft) = (model(TARGET, 6.0), model(DRAFT, 6.0));
    for layout in [CacheLayout::Contiguous, CacheLayout::Paged { block: 4 }] {
        let settings = Settings { layout, ..greedy(18) };
        let expected = plain(&target, &settings);
        for gamma in 1..=8 {
            let (tokens, rounds) = run(&target, &draft, &settings, gamma);
            assert_eq!(tokens, expected, "γ = {gamma}");
            assert_eq!(rounds.iter().map(|round| round.added).sum::<usize>(), tokens.len());
        }
        // A draft that is the target itself is always right.
        let (_, rounds) = run(&target, &target, &settings, 4);
        let (last, full) = rounds[1..].split_last().unwrap();
        assert!(full.iter().all(|round| (round.added, round.own, round.rolled_back) == (5, Own::Bonus, 0)), "{full:?}");
        assert_eq!(last.accepted(), last.guesses.len());
    }
}

/// The exact distribution of the tokens at places 1 and 2 of a text, from the target's own passes.
fn exact(target: &Model, sampling: &Sampling) -> HashMap<(TokenId, TokenId), f64> {
    let prompt = letters(VOCAB).encode("ab");
    let law = |tokens: &[TokenId]| {
        let mut cache = target.new_cache(&CacheLayout::Contiguous);
        let logits = block_on(target.forward(tokens, &mut cache, NOTHING)).unwrap().logits;
        Law::new(&logits, sampling).by_id()
    };
    let mut joint = HashMap::new();
    let ends = |token: TokenId| letters(VOCAB).is_end(token);
    let all = 0..VOCAB as TokenId;
    for first in all.clone().filter(|&token| !ends(token)) {
        let p0 = f64::from(law(&prompt)[first as usize]);
        let with_first = [&prompt[..], &[first]].concat();
        let second_law = law(&with_first);
        for second in all.clone().filter(|&token| !ends(token)) {
            let third_law = law(&[&with_first[..], &[second]].concat());
            for third in all.clone() {
                *joint.entry((second, third)).or_insert(0.0) +=
                    p0 * f64::from(second_law[second as usize]) * f64::from(third_law[third as usize]);
            }
        }
    }
    joint
}

#[test]
fn sampled_text_follows_the_targets_distribution() {
    let (target, draft) = (model(TARGET, 3.0), model(DRAFT, 3.0));
    let cases = [
        (Sampling::default().with("temperature", 1.0), 1),
        (Sampling::default().with("temperature", 1.0), 4),
        (Sampling::default().with("temperature", 0.8).with("top_k", 5.0), 3),
    ];
    for (sampling, gamma) in cases {
        let law = exact(&target, &sampling);
        let n = 3000;
        let (mut counts, mut accepted, mut rejected) = (HashMap::new(), 0, 0);
        for seed in 0..n {
            let settings = Settings { max_new_tokens: 4, sampling: sampling.clone(), seed, ..Settings::default() };
            let (tokens, rounds) = run(&target, &draft, &settings, gamma);
            if let [_, second, third, ..] = tokens[..] {
                *counts.entry((second, third)).or_insert(0.0) += 1.0;
            }
            accepted += rounds.iter().map(Round::accepted).sum::<usize>();
            rejected += rounds.iter().filter(|round| round.own == Own::Replacement).count();
        }
        assert!(accepted > 500 && rejected > 500, "{accepted} and {rejected}: both must happen");
        // The texts that ended before are a cell of their own; what is expected less than five times is taken together.
        let total: f64 = law.values().sum();
        let mut cells = vec![((1.0 - total) * f64::from(n), f64::from(n) - counts.values().sum::<f64>())];
        let (mut rare, mut rare_count) = (0.0, 0.0);
        for (pair, share) in &law {
            let (expected, count) = (share * f64::from(n), counts.get(pair).copied().unwrap_or(0.0));
            if expected < 5.0 {
                (rare, rare_count) = (rare + expected, rare_count + count);
            } else {
                cells.push((expected, count));
            }
        }
        cells.push((rare, rare_count));
        let used: Vec<_> = cells.iter().filter(|(expected, _)| *expected >= 5.0).collect();
        let statistic: f64 = used.iter().map(|(expected, count)| (count - expected).powi(2) / expected).sum();
        let freedom = used.len() as f64 - 1.0;
        assert!(freedom > 15.0);
        // As in the sampler's own tests: 4.5 standard deviations above the mean.
        let limit = freedom + 4.5 * (2.0 * freedom).sqrt();
        assert!(statistic < limit, "γ = {gamma}, {sampling:?}: {statistic:.1} with {freedom} degrees of freedom");
    }
}

#[test]
fn only_what_stays_in_the_text_stays_in_the_caches() {
    let script: Vec<TokenId> = (0..40).map(|i| 4 + i % 20).collect();
    let mut wrong = script.clone();
    // The draft errs at some places.
    for at in [6, 7, 11] {
        wrong[at] = 28;
    }
    let (target, draft) = (Rc::new(Scripted::new(40, script)), Rc::new(Scripted::new(40, wrong)));
    let tokenizer = letters(Scripted::VOCAB);
    let mut run = Speculation::open(target.clone(), draft.clone(), &tokenizer, "ab", greedy(14)).unwrap();
    let mut rounds = Vec::new();
    let mut finish = None;
    while finish.is_none() {
        let (round, end) = block_on(run.round(&greedy(1).sampling, 3, &|| 0.0)).unwrap();
        rounds.push((round.before, round.accepted(), round.added, round.target_positions, round.rolled_back));
        finish = end;
    }
    // Prompt of 4 tokens. Place by place: what was proposed, kept, added, run and taken back.
    assert_eq!(
        rounds,
        [(4, 0, 1, 4, 0), (5, 2, 3, 4, 1), (8, 0, 1, 4, 3), (9, 3, 4, 4, 0), (13, 3, 4, 4, 0), (17, 0, 1, 1, 0)]
    );
    assert_eq!(finish, Some(Finish::Length));
    assert_eq!(run.generated().len(), 14);
    assert!(matches!(block_on(run.round(&greedy(1).sampling, 3, &|| 0.0)), Err(SessionError::Finished)));
}

#[test]
fn models_of_other_vocabularies_are_refused_and_contexts_are_kept_to() {
    let (small, large) = (Rc::new(Scripted::new(12, vec![4])), model(TARGET, 1.0));
    let other = model([8, 8, 1, 1, 1, 7, 24], 1.0);
    let error = Speculation::open(large, other, &letters(VOCAB), "ab", greedy(4)).err();
    assert_eq!(error, Some(SessionError::OtherVocabulary { draft: 7, target: 9 }));
    let mut run =
        Speculation::open(Rc::new(Scripted::new(40, vec![4])), small, &letters(Scripted::VOCAB), "ab", greedy(30))
            .unwrap();
    let finish = loop {
        if let (_, Some(finish)) = block_on(run.round(&greedy(1).sampling, 8, &|| 0.0)).unwrap() {
            break finish;
        }
    };
    assert_eq!((finish, run.generated().len()), (Finish::Context, 9));
}

#[test]
fn the_model_that_ships_can_be_its_own_draft() {
    let (model, tokenizer) = story().load(&Device::flex());
    let settings = Settings { max_new_tokens: 24, ..greedy(24) };
    let mut run =
        Speculation::open(model.clone(), model.clone(), &tokenizer, "Once upon a time", settings.clone()).unwrap();
    let mut rounds = 0;
    while run.finish().is_none() {
        block_on(run.round(&settings.sampling, 5, &|| 0.0)).unwrap();
        rounds += 1;
    }
    let mut session = Session::open(model, &tokenizer, "Once upon a time", Vec::new(), settings.clone()).unwrap();
    while !session.is_finished() {
        block_on(session.step(&settings.sampling, NOTHING)).unwrap();
    }
    assert_eq!(run.generated(), session.generated());
    assert_eq!(rounds, 5, "the first, three rounds of six, and the five that are left");
}

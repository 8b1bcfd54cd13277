//! Whole runs of the project's own model: with and without the cache, continued, and looked back at.

mod support;

use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::sampler::default_sampling;
use inferscope_core::{Model, Session, Tokenizer};
use inferscope_trace::{Attention, Finish, KeyValues, Settings, Step, TokenId};
use support::small::{SHAPES, checkpoint, letters};
use support::{EVERYTHING, NOTHING, block_on, difference, story};

const PROMPT: &str = "One day, a little fox named Zimbo";

fn settings(cache: bool) -> Settings {
    Settings {
        max_new_tokens: 30,
        sampling: default_sampling().with("temperature", 1.2),
        seed: 11,
        cache,
        ..Settings::default()
    }
}

fn load() -> (Rc<Model>, Tokenizer) {
    story().load(&Device::flex())
}

fn open(model: &(Rc<Model>, Tokenizer), generated: &[TokenId], settings: &Settings) -> Session {
    Session::open(model.0.clone(), &model.1, PROMPT, generated.to_vec(), settings.clone()).unwrap()
}

fn run(session: &mut Session, settings: &Settings) -> Vec<Step> {
    let mut steps = Vec::new();
    while !session.is_finished() {
        steps.push(block_on(session.step(&settings.sampling, NOTHING)).unwrap().0);
    }
    steps
}

fn tokens(steps: &[Step]) -> Vec<TokenId> {
    steps.iter().map(|step| step.token).collect()
}

#[test]
fn cached_equals_uncached() {
    let model = load();
    let with = run(&mut open(&model, &[], &settings(true)), &settings(true));
    let without = run(&mut open(&model, &[], &settings(false)), &settings(false));
    assert_eq!(tokens(&with), tokens(&without));
    for (with, without) in with.iter().zip(&without) {
        assert_eq!(with.end_position(), without.end_position());
        assert!(difference(&with.logits, &without.logits) < 1e-4, "step {}", with.index);
    }
}

#[test]
fn the_same_settings_give_the_same_run_and_another_seed_another() {
    let model = load();
    let settings = settings(true);
    let run = |settings: &Settings| tokens(&run(&mut open(&model, &[], settings), settings));
    assert_eq!(run(&settings), run(&settings));
    assert_ne!(run(&settings), run(&Settings { seed: 12, ..settings.clone() }));
}

#[test]
fn a_run_continued_anywhere_equals_the_uninterrupted_one() {
    let model = load();
    for cache in [true, false] {
        let settings = settings(cache);
        let whole = run(&mut open(&model, &[], &settings), &settings);
        let tokens = tokens(&whole);
        for taken in [1, 2, 13, tokens.len() - 1] {
            let continued = run(&mut open(&model, &tokens[..taken], &settings), &settings);
            assert_eq!(self::tokens(&continued), tokens[taken..], "from {taken}, cache {cache}");
            for (step, expected) in continued.iter().zip(&whole[taken..]) {
                assert_eq!((step.index, step.coin), (expected.index, expected.coin));
                assert!(difference(&step.logits, &expected.logits) < 1e-4);
            }
        }
    }
}

fn assert_close(found: &(Option<Attention>, Option<KeyValues>), step: &Step) {
    let (attention, expected) = (found.0.as_ref().unwrap(), step.attention.as_ref().unwrap());
    assert_eq!((attention.n_layers, attention.n_heads, attention.keys), (5, 8, expected.keys));
    assert!(difference(&attention.weights, &expected.weights) < 1e-4, "step {}", step.index);
    let (kv, expected) = (found.1.as_ref().unwrap(), step.kv.as_ref().unwrap());
    assert_eq!((kv.first_position, kv.positions), (expected.first_position, expected.positions));
    assert!(difference(&kv.keys, &expected.keys) < 1e-4, "step {}", step.index);
    assert!(difference(&kv.values, &expected.values) < 1e-4, "step {}", step.index);
}

#[test]
fn looking_back_finds_what_was_there_and_changes_nothing() {
    let model = load();
    for cache in [true, false] {
        let settings = settings(cache);
        let undisturbed = run(&mut open(&model, &[], &settings), &settings);
        let mut observed = open(&model, &[], &settings);
        let mut disturbed = open(&model, &[], &settings);
        let mut steps = Vec::new();
        for expected in &undisturbed {
            steps.push(block_on(observed.step(&settings.sampling, EVERYTHING)).unwrap().0);
            let (step, _) = block_on(disturbed.step(&settings.sampling, NOTHING)).unwrap();
            assert_eq!(step.logits, expected.logits, "step {}, to the last bit", step.index);
            for index in [0, step.index / 2, step.index] {
                assert_close(&block_on(disturbed.inspect(index, EVERYTHING)).unwrap(), &steps[index]);
            }
        }
    }
}

#[test]
fn a_run_fills_the_context_to_the_last_position() {
    for (name, header) in SHAPES {
        let model = Rc::new(Model::load(name, &checkpoint(header), &Device::flex()));
        let tokenizer = letters(header[5].unsigned_abs() as usize);
        // Some seed gets to the end without drawing the BOS token.
        let (mut session, settings) = (0..)
            .map(|seed| {
                let settings = Settings { max_new_tokens: 100, seed, ..settings(true) };
                let mut session =
                    Session::open(model.clone(), &tokenizer, "aab", Vec::new(), settings.clone()).unwrap();
                run(&mut session, &settings);
                (session, settings)
            })
            .find(|(session, _)| session.generated().last() != Some(&1))
            .unwrap();
        assert_eq!(session.prompt().len() + session.generated().len(), 25, "{name}: 24 positions and one more token");
        assert!(block_on(session.step(&settings.sampling, NOTHING)).is_err());

        let all_but_one = session.generated()[..session.generated().len() - 1].to_vec();
        let mut again = Session::open(model, &tokenizer, "aab", all_but_one, settings.clone()).unwrap();
        let (step, finish) = block_on(again.step(&settings.sampling, NOTHING)).unwrap();
        assert_eq!((step.end_position(), finish), (24, Some(Finish::Context)), "{name}");
        assert_eq!(Some(&step.token), session.generated().last(), "{name}");
    }
}

#[test]
fn a_branch_writes_what_a_run_from_its_tokens_would() {
    let model = load();
    for cache in [true, false] {
        let settings = settings(cache);
        let mut trunk = open(&model, &[], &settings);
        let steps = run(&mut trunk, &settings);
        let same = run(&mut trunk.branch(7, steps[7].token, 30).unwrap(), &settings);
        assert_eq!(tokens(&same), tokens(&steps[8..]), "with the token that was drawn it is the same run");
        let other = steps[7].token + 1;
        let branched = run(&mut trunk.branch(7, other, 30).unwrap(), &settings);
        let prefix: Vec<TokenId> = tokens(&steps[..7]).into_iter().chain([other]).collect();
        let afresh = run(&mut open(&model, &prefix, &settings), &settings);
        assert_eq!(tokens(&branched), tokens(&afresh));
        for (branched, afresh) in branched.iter().zip(&afresh) {
            assert!(difference(&branched.logits, &afresh.logits) < 1e-4, "step {}", branched.index);
        }
    }
}

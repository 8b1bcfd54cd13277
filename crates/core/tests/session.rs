//! The generate loop with a scripted model: which positions it runs, when it ends, and what it survives.

mod support;

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

use inferscope_core::sampler::coin;
use inferscope_core::{LanguageModel, ModelError, Session, SessionError};
use inferscope_trace::{CacheLayout, Finish, Observe, Phase, Rows, Sampling, Settings, Step, TokenId, Work};
use support::scripted::Scripted;
use support::small::letters;
use support::{EVERYTHING, NOTHING, block_on, greedy};

const BOS: TokenId = 1;

/// A session on a fresh scripted model; `prompt` gives one token for each letter, after BOS and a space.
fn open(model: &Rc<Scripted>, prompt: &str, settings: Settings) -> Result<Session<Scripted>, SessionError> {
    resume(model, prompt, Vec::new(), settings)
}

fn resume(
    model: &Rc<Scripted>,
    prompt: &str,
    generated: Vec<TokenId>,
    settings: Settings,
) -> Result<Session<Scripted>, SessionError> {
    Session::open(model.clone(), &letters(Scripted::VOCAB), prompt, generated, settings)
}

fn scripted(context: usize, script: &[TokenId]) -> Rc<Scripted> {
    Rc::new(Scripted::new(context, script.to_vec()))
}

fn step(session: &mut Session<Scripted>) -> (Step, Option<Finish>) {
    block_on(session.step(&greedy(1).sampling, NOTHING)).unwrap()
}

/// Steps until the end.
fn run(session: &mut Session<Scripted>) -> (Vec<TokenId>, Finish) {
    let mut tokens = Vec::new();
    loop {
        let (step, finish) = step(session);
        tokens.push(step.token);
        assert_eq!(session.is_finished(), finish.is_some());
        if let Some(finish) = finish {
            return (tokens, finish);
        }
    }
}

#[test]
fn prefill_runs_the_prompt_and_decode_one_position_a_step() {
    let model = scripted(20, &[9, 9, 9, 5, 6, 7, 8]);
    let mut session = open(&model, "ab", greedy(4)).unwrap();
    assert_eq!(session.prompt(), [BOS, 3, 4, 5]);
    for (index, token) in [5, 6, 7, 8].into_iter().enumerate() {
        let (step, finish) = step(&mut session);
        assert_eq!((step.index, step.token), (index, token));
        assert_eq!(step.phase, if index == 0 { Phase::Prefill } else { Phase::Decode });
        let (first, positions) = if index == 0 { (0, 4) } else { (3 + index, 1) };
        assert_eq!((step.first_position, step.positions), (first, positions));
        assert_eq!(step.work, Work::of_step(model.info(), first, positions, Some(&CacheLayout::Contiguous)));
        assert_eq!(step.milliseconds, 0.0);
        assert_eq!(finish, (index == 3).then_some(Finish::Length));
    }
    assert_eq!(session.generated(), [5, 6, 7, 8]);
    assert_eq!(model.passes(), [(0, 4), (4, 1), (5, 1), (6, 1)]);
    assert_eq!(model.calls.borrow()[2].tokens, [6], "each step runs the token that the one before drew");
}

#[test]
fn without_the_cache_every_step_runs_everything() {
    let model = scripted(20, &[9, 9, 9, 5, 6, 7, 8]);
    let mut session = open(&model, "ab", Settings { cache: false, ..greedy(3) }).unwrap();
    for index in 0..3 {
        let (step, _) = step(&mut session);
        assert_eq!((step.first_position, step.positions), (0, 4 + index));
        assert_eq!(step.work, Work::of_step(model.info(), 0, 4 + index, None));
        assert_eq!(step.work.cache_bytes_read + step.work.cache_bytes_written, 0);
    }
    assert_eq!(session.generated(), [5, 6, 7]);
    assert_eq!(model.passes(), [(0, 4), (0, 5), (0, 6)]);
}

#[test]
fn an_empty_prompt_is_bos_alone() {
    let model = scripted(20, &[5, 6]);
    let mut session = open(&model, "", greedy(1)).unwrap();
    assert_eq!(session.prompt(), [BOS]);
    assert_eq!(run(&mut session), (vec![5], Finish::Length));
}

#[test]
fn runs_end_for_three_reasons() {
    let script = [9, 9, 9, 5, 6, BOS, 7];
    let end_of_text = run(&mut open(&scripted(20, &script), "ab", greedy(9)).unwrap());
    assert_eq!(end_of_text, (vec![5, 6, BOS], Finish::EndOfText));
    let length = run(&mut open(&scripted(20, &script), "ab", greedy(2)).unwrap());
    assert_eq!(length, (vec![5, 6], Finish::Length));
    // A context of 5 runs positions 0 to 4; the token that the last of them yields has no place to be run.
    let context = run(&mut open(&scripted(5, &script), "ab", greedy(9)).unwrap());
    assert_eq!(context, (vec![5, 6], Finish::Context));
    // A prompt may fill the context: it yields one token.
    let full = run(&mut open(&scripted(4, &script), "ab", greedy(9)).unwrap());
    assert_eq!(full, (vec![5], Finish::Context));
    // When reasons meet, the text's own end is named first, then the reader's limit.
    let both = run(&mut open(&scripted(6, &script), "ab", greedy(3)).unwrap());
    assert_eq!(both.1, Finish::EndOfText);
    let both = run(&mut open(&scripted(5, &script), "ab", greedy(2)).unwrap());
    assert_eq!(both.1, Finish::Length);
}

#[test]
fn a_finished_session_refuses_to_go_on() {
    let model = scripted(20, &[5]);
    let mut session = open(&model, "", greedy(1)).unwrap();
    run(&mut session);
    let again = block_on(session.step(&Sampling::default(), NOTHING));
    assert_eq!(again.unwrap_err(), SessionError::Finished);
    assert_eq!(model.passes().len(), 1, "the model was not asked");
}

#[test]
fn what_can_not_be_run_is_refused_with_a_reason() {
    let model = scripted(5, &[5]);
    let refused = |prompt, generated, settings| resume(&model, prompt, generated, settings).err();
    let too_long = SessionError::PromptTooLong { tokens: 7, context: 5 };
    assert_eq!(refused("abcde", vec![], greedy(3)), Some(too_long.clone()));
    assert_eq!(too_long.to_string(), "the prompt is 7 tokens long, and the model's context window holds 5");
    assert_eq!(refused("ab", vec![], greedy(0)), Some(SessionError::NothingToGenerate));
    let continuation = SessionError::ContinuationTooLong { prompt: 4, generated: 3, context: 5 };
    assert_eq!(refused("ab", vec![5, 6, 7], greedy(9)), Some(continuation));
    let unknown = SessionError::UnknownToken { token: 30, vocab_size: 30 };
    assert_eq!(refused("ab", vec![30], greedy(9)), Some(unknown));
    assert_eq!(refused("abc", vec![], greedy(3)), None, "exactly as long as the context");
}

#[test]
fn a_continued_run_rebuilds_its_cache_and_goes_on() {
    let script = [9, 9, 9, 5, 6, 7, 8, 10];
    let mut whole = open(&scripted(20, &script), "ab", greedy(5)).unwrap();
    let (tokens, _) = run(&mut whole);

    let model = scripted(20, &script);
    let mut session = resume(&model, "ab", tokens[..3].to_vec(), greedy(5)).unwrap();
    assert_eq!((session.prompt().len(), session.generated()), (4, &tokens[..3]));
    let (rebuilt, _) = step(&mut session);
    assert_eq!((rebuilt.index, rebuilt.phase), (3, Phase::Decode));
    assert_eq!((rebuilt.first_position, rebuilt.positions), (0, 7), "it says what it ran");
    assert_eq!(rebuilt.work, Work::of_step(model.info(), 0, 7, Some(&CacheLayout::Contiguous)));
    assert_eq!(rebuilt.coin, coin(0, 3), "the coin is that of the step, wherever it is run");
    let (next, finish) = step(&mut session);
    assert_eq!((next.index, next.first_position, next.positions), (4, 7, 1));
    assert_eq!(session.generated(), tokens);
    assert_eq!(finish, Some(Finish::Length));
    // A run that had ended is still ended.
    assert!(resume(&model, "ab", tokens.clone(), greedy(5)).unwrap().is_finished());
    assert!(resume(&model, "ab", vec![5, BOS], greedy(5)).unwrap().is_finished());
    assert!(resume(&scripted(5, &script), "ab", vec![5, 6], greedy(5)).unwrap().is_finished());
}

#[test]
fn settings_of_a_step_are_recorded_with_it() {
    let model = scripted(20, &[5]);
    let mut session = open(&model, "a", Settings { seed: 77, ..greedy(9) }).unwrap();
    let warm = Sampling::default().with("temperature", 2.0).with("top_k", 3.0);
    for (index, sampling) in [warm.clone(), Sampling::default(), warm].iter().enumerate() {
        let attention = [Rows::None, Rows::Last][usize::from(index == 1)];
        let observe = Observe { attention, kv: index == 2 };
        let (step, _) = block_on(session.step(sampling, observe)).unwrap();
        assert_eq!(&step.sampling, sampling);
        assert_eq!(step.coin, coin(77, index));
        assert_eq!((step.attention.is_some(), step.kv.is_some()), (index == 1, index == 2));
        assert_eq!(model.calls.borrow().last().unwrap().observe, observe);
    }
}

#[test]
fn a_failed_step_can_be_tried_again() {
    for cache in [true, false] {
        let script = [9, 9, 9, 5, 6, 7, 8];
        let settings = Settings { cache, ..greedy(4) };
        let (tokens, _) = run(&mut open(&scripted(20, &script), "ab", settings.clone()).unwrap());
        for failing in 0..4 {
            let model = scripted(20, &script);
            let mut session = open(&model, "ab", settings.clone()).unwrap();
            model.fail_in.set(Some(failing));
            for _ in 0..failing {
                step(&mut session);
            }
            let error = block_on(session.step(&settings.sampling, NOTHING)).unwrap_err();
            assert_eq!(error, SessionError::Model(ModelError::Device("out of electricity".into())));
            assert_eq!(session.generated(), &tokens[..failing], "nothing was added");
            run(&mut session);
            assert_eq!(session.generated(), tokens);
        }
    }
}

#[test]
fn a_dropped_step_leaves_no_trace() {
    let model = scripted(20, &[9, 9, 9, 5, 6, 7, 8]);
    model.slow.set(true);
    let mut session = open(&model, "ab", greedy(4)).unwrap();
    for expected in [5, 6, 7, 8] {
        let sampling = greedy(1).sampling;
        {
            let mut dropped = pin!(session.step(&sampling, NOTHING));
            assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert_eq!(step(&mut session).0.token, expected);
    }
}

#[test]
fn looking_back_finds_each_steps_own_columns_and_attention() {
    for cache in [true, false] {
        let model = scripted(20, &[9, 9, 9, 5, 6, 7, 8]);
        let mut session = open(&model, "ab", Settings { cache, ..greedy(4) }).unwrap();
        let mut recorded = Vec::new();
        while !session.is_finished() {
            recorded.push(block_on(session.step(&greedy(1).sampling, EVERYTHING)).unwrap().0);
            for step in &recorded {
                let (attention, kv) = block_on(session.inspect(step.index, EVERYTHING)).unwrap();
                assert_eq!((&attention, &kv), (&step.attention, &step.kv), "step {}, cache {cache}", step.index);
            }
        }
        let one = block_on(session.inspect(1, Observe { attention: Rows::Last, kv: false })).unwrap();
        assert_eq!(one, (recorded[1].attention.clone(), None));
        let calls = model.calls.borrow().len();
        let one = block_on(session.inspect(1, Observe { attention: Rows::None, kv: true })).unwrap();
        assert_eq!(one, (None, recorded[1].kv.clone()));
        assert_eq!(block_on(session.inspect(1, NOTHING)).unwrap(), (None, None));
        assert_eq!(model.calls.borrow().len(), calls, "columns are in the cache; nothing is run for them");
        let all = Observe { attention: Rows::All, kv: false };
        for step in &recorded {
            let (attention, _) = block_on(session.inspect(step.index, all)).unwrap();
            assert_eq!(attention.unwrap().queries, step.positions, "step {}, cache {cache}", step.index);
        }
        let missing = block_on(session.inspect(4, EVERYTHING)).unwrap_err();
        assert_eq!(missing, SessionError::NoSuchStep { step: 4, steps: 4 });
    }
}

#[test]
fn looking_back_works_before_a_continued_run_has_gone_on() {
    let script = [9, 9, 9, 5, 6, 7, 8];
    let mut whole = open(&scripted(20, &script), "ab", greedy(4)).unwrap();
    let recorded: Vec<Step> =
        (0..4).map(|_| block_on(whole.step(&greedy(1).sampling, EVERYTHING)).unwrap().0).collect();
    let model = scripted(20, &script);
    let mut session = resume(&model, "ab", vec![5, 6], greedy(4)).unwrap();
    for step in &recorded[..2] {
        let found = block_on(session.inspect(step.index, EVERYTHING)).unwrap();
        assert_eq!(found, (step.attention.clone(), step.kv.clone()));
        let only_kv = block_on(session.inspect(step.index, Observe { attention: Rows::None, kv: true })).unwrap();
        assert_eq!(only_kv, (None, step.kv.clone()));
    }
    run(&mut session);
    assert_eq!(session.generated(), whole.generated());
}

#[test]
fn a_branch_goes_on_with_another_token_from_the_columns_it_shares() {
    let script = [9, 9, 9, 5, 6, 7, 8, 10];
    let model = scripted(20, &script);
    let mut trunk = open(&model, "ab", greedy(5)).unwrap();
    let (tokens, _) = run(&mut trunk);
    let before = model.passes().len();
    let mut branch = trunk.branch(2, 20, 5).unwrap();
    assert_eq!((branch.prompt(), branch.generated()), (trunk.prompt(), &[5, 6, 20][..]));
    assert_eq!(branch.columns(), 6, "the prompt and the two tokens that both share");
    let (next, _) = step(&mut branch);
    assert_eq!((next.index, next.first_position, next.positions), (3, 6, 1));
    assert_eq!(model.passes()[before..], [(6, 1)], "only the new token was run");
    assert_eq!(model.calls.borrow().last().unwrap().tokens, [20]);
    run(&mut branch);
    assert_eq!(branch.generated().len(), 5);
    assert_eq!(trunk.generated(), tokens, "the run it came from is as it was");
}

#[test]
fn a_branch_can_end_a_run_and_needs_a_step_and_a_token() {
    let model = scripted(20, &[9, 9, 9, 5, 6, 7]);
    let mut trunk = open(&model, "ab", greedy(3)).unwrap();
    assert_eq!(trunk.branch(0, 5, 3).err(), Some(SessionError::NoSuchStep { step: 0, steps: 0 }));
    run(&mut trunk);
    assert_eq!(trunk.branch(3, 5, 3).err(), Some(SessionError::NoSuchStep { step: 3, steps: 3 }));
    assert_eq!(trunk.branch(1, 30, 3).err(), Some(SessionError::UnknownToken { token: 30, vocab_size: 30 }));
    assert_eq!(trunk.branch(1, BOS, 3).unwrap().finish(), Some(Finish::EndOfText));
    assert_eq!(trunk.branch(2, 5, 3).unwrap().finish(), Some(Finish::Length));
    assert_eq!(trunk.branch(1, 5, 3).unwrap().finish(), None);
    assert_eq!(trunk.branch(2, 5, 4).unwrap().finish(), None, "it may be longer");
    let mut uncached = open(&model, "ab", Settings { cache: false, ..greedy(3) }).unwrap();
    run(&mut uncached);
    assert_eq!(uncached.branch(1, 5, 3).unwrap().columns(), 0);
}

//! The engine as the page meets it: commands in, replies out, on the CPU.

use std::cell::Cell;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use inferscope_trace::{Finish, Phase, Rows, Step};

use super::*;

const MODEL: &str = "story";
const PROMPT: &str = "One day, a little fox named Zimbo";
const SEEN: Observe = Observe { attention: Rows::Last, kv: true };
const UNSEEN: Observe = Observe { attention: Rows::None, kv: false };

/// Milliseconds that the test's clock moves on each time it is read.
const TICK: f64 = 1.0;

type TestEngine = Engine<Box<dyn Fn() -> f64>>;

fn engine() -> TestEngine {
    let now = Cell::new(0.0);
    let clock = move || {
        now.set(now.get() + TICK);
        now.get()
    };
    Engine::new(Device::flex(), Box::new(clock))
}

/// On the CPU nothing is awaited for long: a few polls finish any command.
fn ask(engine: &mut TestEngine, command: Command) -> Reply {
    let mut answer = pin!(engine.answer(Ok(command)));
    loop {
        if let Poll::Ready(reply) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return reply;
        }
    }
}

fn model_file(name: &str) -> Vec<u8> {
    // Asked for at run time: a test binary may have been built in another checkout that shares the build folder.
    let path = format!("{}/../../static/model/{name}", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn file(name: &str) -> NamedFile {
    NamedFile { name: name.into(), bytes: model_file(name) }
}

fn load_as(model: &str) -> Command {
    Command::Load { model: model.into(), files: vec![file("story.infer"), file("story.tokenizer.bin")] }
}

fn load() -> Command {
    load_as(MODEL)
}

fn loaded() -> TestEngine {
    let mut engine = engine();
    assert!(matches!(ask(&mut engine, load()), Reply::Ready { .. }));
    engine
}

fn greedy() -> Sampling {
    Sampling::default().with("temperature", 0.0)
}

fn open_on(model: &str, session: SessionId, prompt: &str, generated: &[TokenId]) -> Command {
    let settings = Settings { max_new_tokens: 6, sampling: greedy(), ..Settings::default() };
    Command::Open {
        session,
        model: model.into(),
        prompt: prompt.into(),
        generated: generated.to_vec(),
        settings,
        first: None,
    }
}

fn open(session: SessionId, prompt: &str, generated: &[TokenId]) -> Command {
    open_on(MODEL, session, prompt, generated)
}

fn step(engine: &mut TestEngine, session: SessionId, observe: Observe) -> (Step, Option<Finish>) {
    match ask(engine, Command::Step { session, sampling: greedy(), observe }) {
        Reply::Stepped { session: answered, step, finish } if answered == session => (step, finish),
        other => panic!("a step was asked for, the reply was {other:?}"),
    }
}

#[track_caller]
fn assert_failed(reply: Reply, subject: Subject, kind: FaultKind, says: &str) {
    let Reply::Failed { subject: answered, fault } = reply else { panic!("a fault was due, the reply was {reply:?}") };
    assert_eq!((answered, fault.kind), (subject, kind), "{fault}");
    assert!(fault.message.contains(says), "“{fault}” should say “{says}”");
}

#[test]
fn loading_tells_the_models_shape_and_vocabulary() {
    let Reply::Ready { model, vocabulary } = ask(&mut engine(), load()) else { panic!("not ready") };
    assert_eq!((model.id.as_str(), model.dim, model.n_layers, model.context), ("story", 128, 5, 256));
    assert_eq!(vocabulary.pieces.len(), model.vocab_size);
}

#[test]
fn a_session_can_be_opened_with_its_first_step() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    let expected = step(&mut engine, 1, SEEN);
    let Command::Open { session, model, prompt, generated, settings, .. } = open(2, PROMPT, &[]) else {
        unreachable!()
    };
    let opened =
        ask(&mut engine, Command::Open { session, model, prompt, generated, settings, first: Some((greedy(), SEEN)) });
    let Reply::Opened { session: 2, first: Some(first), .. } = opened else { panic!("not opened: {opened:?}") };
    assert_eq!(first, expected);
    assert_eq!(step(&mut engine, 2, UNSEEN), step(&mut engine, 1, UNSEEN), "both go on alike");
}

#[test]
fn a_clock_too_coarse_for_a_step_gives_each_its_share_of_the_turn() {
    let looks = Cell::new(0);
    // It ticks at every fifth look, and a step is three looks.
    let clock = move || {
        looks.set(looks.get() + 1);
        f64::from(looks.get() / 5)
    };
    let mut engine: TestEngine = Engine::new(Device::flex(), Box::new(clock));
    ask(&mut engine, load());
    ask(&mut engine, open(1, PROMPT, &[]));
    step(&mut engine, 1, UNSEEN);
    let Reply::Rushed { steps, .. } =
        ask(&mut engine, Command::Rush { session: 1, sampling: greedy(), observe: UNSEEN })
    else {
        panic!("not rushed")
    };
    assert_eq!(steps.len(), 5);
    let times: Vec<f64> = steps.iter().map(|step| step.milliseconds).collect();
    assert!(times[0] > 0.0 && times[0] < 1.0 && times.iter().all(|time| *time == times[0]), "{times:?}");
}

#[test]
fn a_rush_is_the_same_steps_in_turns() {
    let mut engine = loaded();
    for session in [1, 2] {
        ask(&mut engine, open(session, PROMPT, &[]));
    }
    let one_by_one: Vec<(Step, Option<Finish>)> = (0..6).map(|_| step(&mut engine, 1, UNSEEN)).collect();
    let mut turns = Vec::new();
    let mut rushed = Vec::new();
    while rushed.len() < 6 {
        let rush = Command::Rush { session: 2, sampling: greedy(), observe: UNSEEN };
        let Reply::Rushed { session: 2, steps, finish } = ask(&mut engine, rush) else { panic!("not rushed") };
        turns.push(steps.len());
        let last = steps.len() - 1;
        rushed.extend(steps.into_iter().enumerate().map(|(index, step)| (step, finish.filter(|_| index == last))));
    }
    // The prefill by itself; then a step and the question whether there is time for another are three looks at the clock, so
    // the time is over at the fourth step.
    assert_eq!(turns, [1, 4, 1]);
    assert_eq!(rushed, one_by_one);
    assert_failed(
        ask(&mut engine, Command::Rush { session: 2, sampling: greedy(), observe: UNSEEN }),
        Subject::Session(2),
        FaultKind::Internal,
        "The run has ended",
    );
}

#[test]
fn a_run_prefills_then_decodes_until_its_length() {
    let mut engine = loaded();
    let Reply::Opened { session: 7, prompt, first: None } = ask(&mut engine, open(7, PROMPT, &[])) else {
        panic!("not opened")
    };
    assert_eq!(
        ask(&mut engine, Command::Tokenize { request: 3, model: MODEL.into(), text: PROMPT.into() }),
        Reply::Tokenized { request: 3, tokens: prompt.clone() }
    );
    let (prefill, finish) = step(&mut engine, 7, SEEN);
    assert_eq!((prefill.phase, prefill.positions, finish), (Phase::Prefill, prompt.len(), None));
    assert_eq!(prefill.milliseconds, TICK, "the clock is read before and after");
    assert_eq!(prefill.kv.expect("asked for").positions, prompt.len());
    for index in 1..6 {
        let (decode, finish) = step(&mut engine, 7, UNSEEN);
        assert_eq!((decode.index, decode.phase, decode.positions), (index, Phase::Decode, 1));
        assert_eq!((decode.attention, decode.kv), (None, None));
        assert_eq!(finish, (index == 5).then_some(Finish::Length));
    }
}

#[test]
fn a_run_moves_to_another_session_without_changing_its_tokens() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    let tokens: Vec<TokenId> = (0..6).map(|_| step(&mut engine, 1, UNSEEN).0.token).collect();
    ask(&mut engine, open(2, PROMPT, &tokens[..3]));
    let moved: Vec<TokenId> = (3..6).map(|_| step(&mut engine, 2, UNSEEN).0.token).collect();
    assert_eq!(moved, tokens[3..]);
}

#[test]
fn looking_back_shows_what_was_not_recorded() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    step(&mut engine, 1, UNSEEN);
    let (decode, _) = step(&mut engine, 1, UNSEEN);
    let reply = ask(&mut engine, Command::Inspect { session: 1, step: 1, observe: SEEN });
    let Reply::Inspected { session: 1, step: 1, attention: Some(attention), kv: Some(kv) } = reply else {
        panic!("not inspected: {reply:?}")
    };
    assert_eq!(attention.keys, decode.end_position());
    assert_eq!((kv.first_position, kv.positions), (decode.first_position, 1));
}

#[test]
fn nothing_runs_before_a_model_is_loaded() {
    let mut engine = engine();
    let says = "story, which is not loaded";
    let tokenize = Command::Tokenize { request: 1, model: MODEL.into(), text: "a".into() };
    assert_failed(ask(&mut engine, tokenize), Subject::Model(MODEL.into()), FaultKind::Internal, says);
    assert_failed(ask(&mut engine, open(1, PROMPT, &[])), Subject::Session(1), FaultKind::Internal, says);
}

#[test]
fn a_session_that_is_not_open_is_named_in_the_fault() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    assert_eq!(ask(&mut engine, Command::Close { session: 1 }), Reply::Closed { session: 1 });
    let step = Command::Step { session: 1, sampling: greedy(), observe: UNSEEN };
    assert_failed(ask(&mut engine, step), Subject::Session(1), FaultKind::Internal, "session 1");
    let inspect = Command::Inspect { session: 4, step: 0, observe: SEEN };
    assert_failed(ask(&mut engine, inspect), Subject::Session(4), FaultKind::Internal, "session 4");
}

#[test]
fn a_prompt_beyond_the_context_is_the_readers_to_mend() {
    let mut engine = loaded();
    let reply = ask(&mut engine, open(1, &"once upon a time ".repeat(100), &[]));
    assert_failed(reply, Subject::Session(1), FaultKind::Input, "256");
}

#[test]
fn wrong_files_leave_the_loaded_models_running() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    let cut = |name: &str| NamedFile { bytes: model_file(name)[..1000].to_vec(), ..file(name) };
    for (files, says) in [
        (vec![cut("story.infer"), file("story.tokenizer.bin")], "cut off"),
        (vec![file("story.infer"), cut("story.tokenizer.bin")], "cut off"),
        (vec![file("story.infer")], "tokenizer"),
        (vec![], "file"),
    ] {
        for model in ["other", MODEL] {
            let reply = ask(&mut engine, Command::Load { model: model.into(), files: files.clone() });
            assert_failed(reply, Subject::Model(model.into()), FaultKind::Model, says);
        }
    }
    step(&mut engine, 1, UNSEEN);
}

#[test]
fn sessions_on_several_models_take_turns() {
    let mut engine = loaded();
    assert!(matches!(ask(&mut engine, load_as("twin")), Reply::Ready { model, .. } if model.id == "twin"));
    ask(&mut engine, open(1, PROMPT, &[]));
    ask(&mut engine, open_on("twin", 2, PROMPT, &[]));
    for _ in 0..4 {
        let tokens = [1, 2].map(|session| step(&mut engine, session, UNSEEN).0.token);
        assert_eq!(tokens[0], tokens[1], "the same weights, neither disturbed by the other");
    }
}

#[test]
fn a_shape_is_warmed_up_once() {
    let mut engine = loaded();
    ask(&mut engine, load_as("twin"));
    assert_eq!(engine.warm.len(), 1);
    assert_eq!((engine.warm[0].id.as_str(), engine.warm[0].dim), ("", 128));
}

#[test]
fn a_forgotten_model_takes_its_sessions_and_no_others_with_it() {
    let mut engine = loaded();
    ask(&mut engine, load_as("twin"));
    ask(&mut engine, open(1, PROMPT, &[]));
    ask(&mut engine, open_on("twin", 2, PROMPT, &[]));
    let weights = Rc::downgrade(&engine.models["twin"].model);
    assert_eq!(ask(&mut engine, Command::Forget { model: "twin".into() }), Reply::Forgotten { model: "twin".into() });
    assert_eq!(weights.strong_count(), 0, "its memory is free");
    let stepped = ask(&mut engine, Command::Step { session: 2, sampling: greedy(), observe: UNSEEN });
    assert_failed(stepped, Subject::Session(2), FaultKind::Internal, "session 2");
    assert_failed(
        ask(&mut engine, open_on("twin", 3, PROMPT, &[])),
        Subject::Session(3),
        FaultKind::Internal,
        "twin, which is not loaded",
    );
    step(&mut engine, 1, UNSEEN);
}

#[test]
fn a_model_that_is_replaced_closes_its_sessions() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    assert!(matches!(ask(&mut engine, load()), Reply::Ready { .. }));
    let step = Command::Step { session: 1, sampling: greedy(), observe: UNSEEN };
    assert_failed(ask(&mut engine, step), Subject::Session(1), FaultKind::Internal, "session 1");
}

#[test]
fn a_branch_is_a_session_of_its_own() {
    let mut engine = loaded();
    ask(&mut engine, open(1, PROMPT, &[]));
    let tokens: Vec<TokenId> = (0..4).map(|_| step(&mut engine, 1, UNSEEN).0.token).collect();
    let branch = Command::Branch { session: 2, from: 1, step: 1, token: 300, max_new_tokens: 9 };
    let Reply::Branched { session: 2, columns, finish: None } = ask(&mut engine, branch) else {
        panic!("not branched")
    };
    let (next, _) = step(&mut engine, 2, UNSEEN);
    assert_eq!((next.index, next.first_position, next.positions), (2, columns, 1));
    assert_eq!(step(&mut engine, 1, UNSEEN).0.index, 4, "the other goes on where it was, after {tokens:?}");
    let nowhere = Command::Branch { session: 3, from: 9, step: 0, token: 300, max_new_tokens: 9 };
    assert_failed(ask(&mut engine, nowhere), Subject::Session(3), FaultKind::Internal, "session 9");
}

#[test]
fn a_probe_counts_work_by_the_clock() {
    // A quarter of a second goes by each time the clock is read, whatever was done: four times fit into the second.
    let now = Cell::new(0.0);
    let clock = move || {
        now.set(now.get() + 250.0);
        now.get()
    };
    let mut engine: TestEngine = Engine::new(Device::flex(), Box::new(clock));
    let Reply::Probed { request: 5, flops, bytes } = ask(&mut engine, Command::Probe { request: 5 }) else {
        panic!("not probed")
    };
    assert_eq!((flops, bytes), (4.0 * 2.0 * 384f64.powi(3), 4.0 * 32.0 * 1024.0 * 1024.0));
}

/// What the model writes by itself from a prompt.
fn alone(engine: &mut TestEngine, prompt: &str) -> Vec<TokenId> {
    ask(engine, open(90, prompt, &[]));
    (0..6).map(|_| step(engine, 90, UNSEEN).0.token).collect()
}

#[test]
fn two_models_speculate_and_write_what_the_target_writes() {
    let mut engine = loaded();
    ask(&mut engine, load_as("draft"));
    let expected = alone(&mut engine, PROMPT);
    let settings = Settings { max_new_tokens: 6, sampling: greedy(), ..Settings::default() };
    let speculate = |session, draft: &str| Command::Speculate {
        session,
        model: MODEL.into(),
        draft: draft.into(),
        prompt: PROMPT.into(),
        settings: settings.clone(),
    };
    assert!(matches!(ask(&mut engine, speculate(1, "draft")), Reply::Opened { session: 1, .. }));
    let mut written = Vec::new();
    loop {
        match ask(&mut engine, Command::Round { session: 1, sampling: greedy(), gamma: 3 }) {
            Reply::RoundDone { round, finish, .. } => {
                assert_eq!((round.draft_milliseconds, round.target_milliseconds), (TICK, TICK));
                written.extend(round.guesses[..round.accepted()].iter().map(|guess| guess.token).chain([round.token]));
                if finish.is_some() {
                    break;
                }
            }
            other => panic!("a round was asked for, the reply was {other:?}"),
        }
    }
    assert_eq!(written, expected);
    assert_failed(ask(&mut engine, speculate(2, "nobody")), Subject::Session(2), FaultKind::Internal, "nobody");
    // A session that needs a model goes with it, and is no session of another kind.
    let wrong = Command::Step { session: 1, sampling: greedy(), observe: UNSEEN };
    assert_failed(ask(&mut engine, wrong), Subject::Session(1), FaultKind::Internal, "not open");
    ask(&mut engine, Command::Forget { model: "draft".into() });
    let gone = Command::Round { session: 1, sampling: greedy(), gamma: 3 };
    assert_failed(ask(&mut engine, gone), Subject::Session(1), FaultKind::Internal, "not open");
}

#[test]
fn requests_are_served_and_what_can_not_be_is_refused_with_a_sentence() {
    use inferscope_trace::{Batching, Memory, Request, ServingSettings};
    let mut engine = loaded();
    let prompts = [PROMPT, "Once upon a time", "The"];
    let expected = prompts.map(|prompt| alone(&mut engine, prompt));
    let request =
        |prompt: &str| Request { prompt: prompt.into(), max_new_tokens: 6, sampling: greedy(), seed: 1, arrives: 0 };
    let settings = ServingSettings {
        slots: 64,
        memory: Memory::Paged { block: 8, sharing: true },
        batching: Batching::Continuous,
        max_batch: 2,
        chunk: 0,
    };
    let serve = |settings| Command::Serve {
        session: 5,
        model: MODEL.into(),
        requests: prompts.iter().map(|prompt| request(prompt)).collect(),
        settings,
    };
    let small = ServingSettings { slots: 8, ..settings };
    assert_failed(ask(&mut engine, serve(small)), Subject::Session(5), FaultKind::Input, "the memory has 8");
    assert!(matches!(ask(&mut engine, serve(settings)), Reply::Serving { session: 5, prompts } if prompts.len() == 3));
    let mut written = vec![Vec::new(); 3];
    loop {
        match ask(&mut engine, Command::ServeStep { session: 5 }) {
            Reply::ServeStepped { step, finished, .. } => {
                step.ran.iter().for_each(|ran| written[ran.request].extend(ran.token));
                assert_eq!(step.milliseconds, TICK);
                if finished {
                    break;
                }
            }
            other => panic!("a step was asked for, the reply was {other:?}"),
        }
    }
    assert_eq!(written, expected);
}

#[test]
fn texts_are_scored_and_batches_measured() {
    let mut engine = loaded();
    let text = "Once upon a time, there was a girl named Lily. She liked to play in the park with her friend.";
    let score = |layout| Command::Score { request: 8, model: MODEL.into(), text: text.into(), layout };
    let Reply::Scored { request: 8, nats, tokens } = ask(&mut engine, score(CacheLayout::Contiguous)) else {
        panic!("no score")
    };
    // An even guess among all tokens would be ln 1024 = 6.93.
    assert!(nats > 0.1 && nats < 4.0 && tokens > 15, "{nats} nats over {tokens} tokens");
    let Reply::Scored { nats: rounded, .. } = ask(&mut engine, score(CacheLayout::Quantised { bits: 4 })) else {
        panic!("no score")
    };
    assert!(rounded != nats && (rounded - nats).abs() < 0.5);
    let measure = Command::MeasureBatches { request: 9, model: MODEL.into() };
    let Reply::BatchesMeasured { request: 9, points } = ask(&mut engine, measure) else { panic!("nothing measured") };
    assert_eq!(points.iter().map(|(size, _)| *size).collect::<Vec<_>>(), [1, 2, 4, 8, 16, 32]);
    assert!(points.iter().all(|(_, milliseconds)| *milliseconds == TICK));
}

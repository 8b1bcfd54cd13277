//! Serving many requests: each writes what it would write alone, whatever the memory, the batch and the neighbours.

mod support;

use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::{Checkpoint, Model, Server, ServerError, Session, SessionError, Tokenizer};
use inferscope_trace::{Batching, Memory, Request, Sampling, ServingSettings, ServingStep, Settings, TokenId};
use support::small::{SHAPES, checkpoint_bytes, letters};
use support::{NOTHING, block_on};

const PROMPTS: [(&str, usize, usize); 6] =
    [("abc", 12, 0), ("abcde", 3, 0), ("b", 17, 0), ("abcdd", 9, 1), ("abcde", 6, 4), ("", 8, 9)];

fn load() -> (Rc<Model>, Tokenizer) {
    let checkpoint = Checkpoint::parse(&checkpoint_bytes(SHAPES[1].1)).unwrap();
    let tokenizer = letters(checkpoint.shape.vocab_size);
    (Rc::new(Model::load("small", &checkpoint, &Device::flex())), tokenizer)
}

fn requests() -> Vec<Request> {
    let sampling = Sampling::default().with("temperature", 0.9).with("top_k", 20.0);
    let request = |(seed, (prompt, max_new_tokens, arrives)): (u32, (&str, usize, usize))| Request {
        prompt: prompt.into(),
        max_new_tokens,
        sampling: sampling.clone(),
        seed,
        arrives,
    };
    (0..).zip(PROMPTS).map(request).collect()
}

fn alone(model: &Rc<Model>, tokenizer: &Tokenizer, request: &Request) -> Vec<TokenId> {
    let settings = Settings {
        max_new_tokens: request.max_new_tokens,
        sampling: request.sampling.clone(),
        seed: request.seed,
        ..Settings::default()
    };
    let mut session = Session::open(model.clone(), tokenizer, &request.prompt, Vec::new(), settings).unwrap();
    while !session.is_finished() {
        block_on(session.step(&request.sampling, NOTHING)).unwrap();
    }
    session.generated().to_vec()
}

fn serve(settings: ServingSettings) -> (Vec<Vec<TokenId>>, Vec<ServingStep>) {
    let (model, tokenizer) = load();
    let mut server = Server::open(model, &tokenizer, requests(), settings).unwrap();
    let mut steps = Vec::new();
    while !server.is_finished() {
        steps.push(block_on(server.step()).unwrap());
        assert!(steps.len() < 300, "it gets nowhere: {:?}", steps.last());
    }
    (server.generated(), steps)
}

const ROOMY: ServingSettings = ServingSettings {
    slots: 120,
    memory: Memory::Paged { block: 4, sharing: false },
    batching: Batching::Continuous,
    max_batch: 4,
    chunk: 0,
};

#[test]
fn every_request_writes_what_it_writes_alone() {
    let (model, tokenizer) = load();
    let expected: Vec<Vec<TokenId>> = requests().iter().map(|request| alone(&model, &tokenizer, request)).collect();
    assert!(expected.iter().map(Vec::len).sum::<usize>() > 30);
    let (mut preempted, mut shared) = (0, 0);
    for memory in [
        Memory::Reserved,
        Memory::Paged { block: 1, sharing: false },
        Memory::Paged { block: 4, sharing: true },
        Memory::Paged { block: 8, sharing: true },
    ] {
        for batching in [Batching::Static, Batching::Continuous] {
            for (slots, max_batch, chunk) in [(120, 4, 0), (48, 4, 2), (32, 6, 3), (24, 2, 1)] {
                let settings = ServingSettings { slots, memory, batching, max_batch, chunk };
                let (found, steps) = serve(settings);
                assert_eq!(found, expected, "{settings:?}");
                preempted += steps.iter().map(|step| step.preempted.len()).sum::<usize>();
                shared += steps.iter().map(|step| step.shared.len()).sum::<usize>();
                check(&settings, &steps);
            }
        }
    }
    assert!(preempted > 3 && shared > 3, "{preempted} were sent back, {shared} shared: both must happen");
}

/// What holds in every step of every server.
fn check(settings: &ServingSettings, steps: &[ServingStep]) {
    for step in steps {
        let map = &step.memory;
        assert!(map.given_out() <= settings.slots && map.used() <= map.given_out());
        let mut end = 0;
        for extent in &map.extents {
            assert!(extent.first_slot >= end, "slots are given out once");
            end = extent.first_slot + extent.slots;
        }
        let mut places: Vec<usize> = step.ran.iter().map(|ran| ran.place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), step.ran.len(), "one request a place");
        assert!(places.iter().all(|&place| place < settings.max_batch));
        if settings.chunk > 0 {
            assert!(step.ran.iter().all(|ran| ran.positions <= settings.chunk));
        }
    }
}

#[test]
fn a_continuous_batch_takes_the_next_as_soon_as_a_place_is_free_and_a_static_one_waits() {
    let settings = ServingSettings { max_batch: 2, ..ROOMY };
    let (_, continuous) = serve(settings);
    let (_, still) = serve(ServingSettings { batching: Batching::Static, ..settings });
    assert!(continuous.len() < still.len(), "{} against {} steps", continuous.len(), still.len());
    let ended = |steps: &[ServingStep], id| {
        steps.iter().position(|s| s.ran.iter().any(|r| r.request == id && r.finish.is_some()))
    };
    // The second request is short; the third begins right after it, or only after the first.
    let began = |steps: &[ServingStep], id| steps.iter().position(|s| s.admitted.contains(&id));
    assert_eq!(began(&continuous, 2).unwrap(), ended(&continuous, 1).unwrap() + 1);
    assert_eq!(began(&still, 2).unwrap(), ended(&still, 0).unwrap() + 1);
    // Nobody is ahead of who came before.
    let admitted: Vec<usize> = continuous.iter().flat_map(|step| step.admitted.clone()).collect();
    assert_eq!(admitted, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn blocks_waste_less_than_reservations_and_more_requests_fit() {
    let settings = ServingSettings { slots: 32, max_batch: 6, ..ROOMY };
    let most = |steps: &[ServingStep]| steps.iter().map(|step| step.ran.len()).max().unwrap();
    let wasted = |steps: &[ServingStep]| {
        let sum = |part: fn(&ServingStep) -> usize| steps.iter().map(part).sum::<usize>() as f64;
        sum(|step| step.memory.wasted()) / sum(|step| step.memory.given_out())
    };
    let (_, reserved) = serve(ServingSettings { memory: Memory::Reserved, ..settings });
    let (_, paged) = serve(settings);
    assert!(most(&paged) > most(&reserved), "{} and {}", most(&paged), most(&reserved));
    assert!(wasted(&paged) < 0.25 && wasted(&reserved) > 0.35, "{} and {}", wasted(&paged), wasted(&reserved));
    // With blocks of one slot nothing is wasted at all.
    let (_, single) = serve(ServingSettings { memory: Memory::Paged { block: 1, sharing: false }, ..settings });
    assert_eq!(wasted(&single), 0.0);
}

#[test]
fn requests_that_begin_alike_share_blocks_until_they_part() {
    let (_, steps) =
        serve(ServingSettings { memory: Memory::Paged { block: 4, sharing: true }, max_batch: 6, ..ROOMY });
    // "abcdd" comes one step after "abcde": BOS, the space and "abcd" are there, in a full block and a half.
    assert_eq!(steps[1].shared, [(3, 6)]);
    let both = steps[1].memory.extents.iter().filter(|extent| extent.owners.len() > 1);
    assert!(both.clone().count() >= 1 && both.clone().all(|extent| extent.owners.contains(&3)));
    assert!(steps[1].memory.saved_by_sharing() >= 4);
    assert_eq!(steps[1].memory.copies, 1, "it writes into the half block, and so takes a copy");
    assert_eq!(steps[1].ran.iter().find(|ran| ran.request == 3).unwrap().positions, 1);
}

#[test]
fn a_long_prompt_in_chunks_does_not_hold_up_those_who_decode() {
    let (_, steps) = serve(ServingSettings { chunk: 2, max_batch: 6, ..ROOMY });
    let first =
        |id| steps.iter().position(|step| step.ran.iter().any(|ran| ran.request == id && ran.token.is_some())).unwrap();
    // BOS, a space and five letters are four chunks; the single letter is through after two.
    assert_eq!((first(2), first(1)), (1, 3));
    assert!(steps[2].ran.iter().any(|ran| ran.request == 1 && ran.prefill && ran.token.is_none()));
    assert!(steps[2].ran.iter().any(|ran| ran.request == 2 && !ran.prefill && ran.token.is_some()));
}

#[test]
fn what_can_not_be_served_is_refused_with_a_reason() {
    let (model, tokenizer) = load();
    let open = |requests, settings| Server::open(model.clone(), &tokenizer, requests, settings).err().unwrap();
    assert_eq!(open(Vec::new(), ROOMY), ServerError::NoRequests);
    assert_eq!(open(requests(), ServingSettings { max_batch: 0, ..ROOMY }), ServerError::Nothing);
    let empty_block = ServingSettings { memory: Memory::Paged { block: 0, sharing: false }, ..ROOMY };
    assert_eq!(open(requests(), empty_block), ServerError::Nothing);
    // Three tokens of prompt and 17 new ones, of which the last is never run.
    let small = ServingSettings { slots: 18, ..ROOMY };
    assert_eq!(open(requests(), small), ServerError::TooLarge { request: 2, needed: 20, slots: 16 });
    let mut long = requests();
    long[1].prompt = "a".repeat(40);
    let error = SessionError::PromptTooLong { tokens: 42, context: 24 };
    assert_eq!(open(long, ROOMY), ServerError::Request { request: 1, error });
    let (_, _) = serve(ROOMY);
    let mut server = Server::open(model.clone(), &tokenizer, requests(), ROOMY).unwrap();
    while !server.is_finished() {
        block_on(server.step()).unwrap();
    }
    assert_eq!(block_on(server.step()).err(), Some(ServerError::Finished));
}

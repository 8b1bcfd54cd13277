use std::sync::Arc;

use inferscope_trace::{Extent, Finish, MemoryMap, Ran, ServingSettings};

use super::*;
use crate::fixture;

fn ran(request: RequestId, place: usize, positions: usize, token: u32, last: bool) -> Ran {
    Ran {
        request,
        place,
        first_position: 0,
        positions,
        prefill: positions > 1,
        token: Some(token),
        finish: last.then_some(Finish::Length),
    }
}

/// Two requests in two places; the second ends after two steps, and a third waits for its place.
fn run() -> ServingTrace {
    let base = fixture::trace(3, 1, true);
    let extent = |first_slot, used, owners: &[usize]| Extent {
        first_slot,
        slots: 4,
        used,
        owners: owners.to_vec(),
        first_position: 0,
    };
    let step = |index, ran: Vec<Ran>, waiting: &[usize], extents| {
        Arc::new(ServingStep {
            index,
            admitted: vec![],
            shared: vec![],
            preempted: vec![],
            ran,
            waiting: waiting.to_vec(),
            memory: MemoryMap { slots: 12, extents, copies: 0 },
            milliseconds: 2.0,
        })
    };
    let mut requests = usual_queue(&Sampling::default());
    requests.truncate(3);
    ServingTrace {
        model: base.model,
        vocabulary: base.vocabulary,
        backend: base.backend,
        settings: ServingSettings {
            slots: 12,
            memory: Memory::Paged { block: 4, sharing: true },
            batching: Batching::Continuous,
            max_batch: 2,
            chunk: 0,
        },
        requests: requests.into_iter().map(|request| Request { arrives: 0, ..request }).collect(),
        prompts: vec![vec![1, 2]; 3],
        steps: vec![
            step(
                0,
                vec![ran(0, 0, 3, 2, false), ran(1, 1, 2, 3, false)],
                &[2],
                vec![extent(0, 3, &[0]), extent(8, 2, &[1])],
            ),
            step(1, vec![ran(0, 0, 1, 4, false), ran(1, 1, 1, 5, true)], &[2], vec![extent(0, 4, &[0, 1])]),
            step(2, vec![ran(0, 0, 1, 2, true), ran(2, 1, 2, 2, true)], &[], vec![extent(4, 1, &[0])]),
        ],
        finished: true,
    }
}

#[test]
fn the_schedule_shows_who_ran_where_and_no_further_than_the_moment() {
    let all = ScheduleFrame::new(&run(), Moment::end_of(2));
    let second: Vec<_> = all.places[1].iter().map(|turn| (turn.step, turn.request, turn.last)).collect();
    assert_eq!(second, [(0, 1, false), (1, 1, true), (2, 2, true)]);
    assert_eq!((all.idle, all.shown, all.steps), (0, 3, 3));
    assert_eq!(ScheduleFrame::new(&run(), Moment::end_of(0)).places[0].len(), 1);
    assert_eq!(ScheduleFrame::new(&run(), Moment::end_of(9)), all, "the other way may have ended before");
}

#[test]
fn the_map_shows_every_slot_and_says_what_it_holds() {
    let map = |step| MapFrame::new(&run(), Moment::end_of(step)).unwrap();
    assert_eq!(MapFrame::new(&run(), Moment::START), None);
    let first = map(0);
    assert_eq!(first.slots[2], Slot::Used { request: 0, position: 2, readers: 1 });
    assert_eq!((first.slots[3], first.slots[4], first.slots[10]), (Slot::Wasted(0), Slot::Free, Slot::Wasted(1)));
    assert_eq!((map(1).shared, map(1).saved), (1, 4));
    assert_eq!(first.spans, [(0, 4), (4, 4), (8, 4)]);
    let mut reserved = run();
    reserved.settings.memory = Memory::Reserved;
    assert_eq!(MapFrame::new(&reserved, Moment::end_of(2)).unwrap().spans, [(0, 4), (4, 4), (8, 4)]);
    assert_eq!(MapFrame::new(&reserved, Moment::end_of(1)).unwrap().spans, [(0, 4), (4, 8)]);
    let words = |step, slot| map(step).words(&run(), Moment::end_of(step), slot);
    assert_eq!(words(0, 5), "Slot 5 is free.");
    assert_eq!(words(0, 3), "Block 0 is request A’s: 3 of 4 slots hold the columns of “<s>␣a␣a”.");
    assert!(words(1, 0).starts_with("Block 0 is shared by requests A and B: 4 of 4"));
}

#[test]
fn each_request_has_its_times() {
    let rows = request_rows(&run(), Moment::end_of(2));
    assert_eq!(rows[0].first_token, Some((1, 2.0)));
    assert_eq!((rows[0].per_token, rows[0].tokens, rows[0].standing), (Some(2.0), 3, Standing::Done));
    assert_eq!((rows[2].first_token, rows[2].per_token), (Some((3, 6.0)), None));
    let early: Vec<Standing> = request_rows(&run(), Moment::end_of(0)).iter().map(|row| row.standing).collect();
    assert_eq!(early, [Standing::Running, Standing::Running, Standing::Waiting]);
    assert_eq!(request_rows(&run(), Moment::START)[0].standing, Standing::Later);
}

#[test]
fn sums_are_those_of_the_steps() {
    let sums = ServingSums::of(&run(), Moment::end_of(2));
    assert_eq!((sums.steps, sums.tokens, sums.milliseconds, sums.most, sums.mean_batch), (3, 6, 6.0, 2, 2.0));
    // 16 slots given out over the steps, of which 3 + 2, 4 and 1 hold something.
    assert!((sums.waste - 6.0 / 16.0).abs() < 1e-12);
    assert_eq!(sums.tokens_per_second(), Some(1000.0));
    assert_eq!(ServingSums::of(&run(), Moment::START).tokens_per_second(), None);
}

#[test]
fn requests_have_letters_for_names() {
    assert_eq!([name(0), name(25), name(26)], ["A", "Z", "A2"]);
}

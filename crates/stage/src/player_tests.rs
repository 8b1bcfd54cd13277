//! Sequences of events under a make-believe engine that answers at once or late, or never.

use super::*;

/// A player with an engine that answers each action at once.
struct Bench {
    player: Player,
    /// Steps until the run ends.
    length: usize,
    asked: usize,
}

impl Bench {
    fn new(length: usize) -> Self {
        Self { player: Player::default(), length, asked: 0 }
    }

    fn send(&mut self, event: Event) {
        let mut event = Some(event);
        while let Some(each) = event.take() {
            let (player, action) = self.player.on(each);
            self.player = player;
            event = match action {
                Action::Load => Some(Event::Loaded),
                Action::Open => {
                    self.asked = self.player.recorded;
                    Some(Event::Opened)
                }
                Action::RequestStep => {
                    self.asked += 1;
                    Some(Event::Stepped { finished: self.asked == self.length })
                }
                Action::None | Action::Clear => None,
            };
        }
    }

    /// Lets time pass in small ticks until nothing moves any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.player.is_moving() {
                return;
            }
            self.send(Event::Tick(0.3));
        }
        panic!("never comes to rest: {:?}", self.player);
    }
}

#[test]
fn run_goes_from_idle_to_done_and_shows_every_step() {
    let mut bench = Bench::new(5);
    bench.send(Event::Run(Pace::Timed));
    assert_eq!(bench.player.status, Status::Running);
    bench.settle();
    assert_eq!((bench.player.status, bench.player.recorded), (Status::Done, 5));
    assert_eq!(bench.player.moment, Moment::end_of(4));
}

#[test]
fn maximum_pace_needs_no_ticks() {
    let mut bench = Bench::new(200);
    bench.send(Event::Run(Pace::Max));
    assert_eq!((bench.player.status, bench.player.recorded), (Status::Done, 200));
}

#[test]
fn pausing_is_not_asking_for_the_next_step() {
    let mut bench = Bench::new(5);
    bench.send(Event::Run(Pace::Timed));
    bench.send(Event::Tick(0.5));
    bench.send(Event::Pause);
    assert_eq!(bench.player.status, Status::Paused);
    assert!(!bench.player.is_moving());
    for _ in 0..10 {
        bench.send(Event::Tick(0.5));
    }
    assert_eq!(bench.asked, 1);
    bench.send(Event::Play);
    bench.settle();
    assert_eq!(bench.player.status, Status::Done);
}

#[test]
fn one_step_is_one_step() {
    let mut bench = Bench::new(3);
    for shown in 1..=3 {
        bench.send(Event::Step);
        bench.settle();
        assert_eq!((bench.player.recorded, bench.player.moment), (shown, Moment::end_of(shown - 1)));
        assert_eq!(bench.player.status, if shown == 3 { Status::Done } else { Status::Paused });
    }
    bench.send(Event::Step);
    bench.settle();
    assert_eq!(bench.player.recorded, 3);
}

#[test]
fn impatient_steps_count() {
    let mut bench = Bench::new(4);
    for shown in 0..4 {
        bench.send(Event::Step);
        bench.send(Event::Tick(0.4));
        assert_eq!((bench.player.moment.step, bench.player.recorded), (shown, shown + 1));
    }
    bench.send(Event::Step);
    assert_eq!((bench.player.moment, bench.player.status), (Moment::end_of(3), Status::Done));
}

#[test]
fn step_during_a_run_stops_at_the_end_of_the_present_step() {
    let mut bench = Bench::new(4);
    bench.send(Event::Run(Pace::Timed));
    bench.send(Event::Tick(0.4));
    bench.send(Event::Step);
    assert_eq!((bench.player.moment, bench.player.status), (Moment::end_of(0), Status::Paused));
}

#[test]
fn going_back_replays_the_record_and_asks_nothing() {
    let mut bench = Bench::new(5);
    bench.send(Event::Run(Pace::Max));
    bench.send(Event::Back);
    assert_eq!((bench.player.moment, bench.player.status), (Moment::end_of(3), Status::Paused));
    bench.send(Event::Seek(None));
    assert_eq!(bench.player.moment, Moment::START);
    bench.send(Event::Back);
    assert_eq!(bench.player.moment, Moment::START);
    bench.send(Event::Seek(Some(99)));
    assert_eq!((bench.player.moment, bench.player.status), (Moment::end_of(4), Status::Done));
    let asked = bench.asked;
    bench.send(Event::Play);
    bench.settle();
    assert_eq!((bench.asked, bench.player.status), (asked, Status::Done));
}

#[test]
fn back_from_the_middle_of_a_step_shows_the_end_of_the_one_before() {
    let mut bench = Bench::new(5);
    bench.send(Event::Step);
    bench.settle();
    bench.send(Event::Step);
    bench.send(Event::Tick(0.4));
    bench.send(Event::Back);
    assert_eq!(bench.player.moment, Moment::end_of(0));
    bench.send(Event::Back);
    assert_eq!(bench.player.moment, Moment::START);
}

#[test]
fn reset_during_a_run_ignores_late_answers() {
    let mut bench = Bench::new(5);
    bench.send(Event::Run(Pace::Timed));
    bench.send(Event::Reset);
    assert_eq!((bench.player.status, bench.player.recorded), (Status::Ready, 0));
    bench.send(Event::Stepped { finished: false });
    assert_eq!((bench.player.status, bench.player.recorded), (Status::Ready, 0));
}

#[test]
fn another_model_is_loaded_and_then_runs_if_run_was_pressed() {
    let mut bench = Bench::new(5);
    bench.send(Event::Run(Pace::Max));
    let (player, action) = bench.player.on(Event::Changed);
    assert_eq!((player.status, player.recorded, action), (Status::Loading, 0, Action::Load));
    let (late, action) = player.on(Event::Stepped { finished: true });
    assert_eq!((late.recorded, action), (0, Action::None), "an answer for the old run is nobody's");
    let (ready, action) = player.on(Event::Loaded);
    assert_eq!((ready.status, action), (Status::Ready, Action::None));
    let (player, _) = player.on(Event::Run(Pace::Max));
    // Chosen while the one before was still loading: the press is not forgotten.
    let (player, action) = player.on(Event::Changed);
    assert_eq!((player.status, action), (Status::Loading, Action::Load));
    let (player, action) = player.on(Event::Loaded);
    assert_eq!((player.status, action), (Status::Running, Action::Open));
}

#[test]
fn run_pressed_while_loading_runs_once_loaded() {
    let (player, action) = Player::default().on(Event::Load);
    assert_eq!((player.status, action), (Status::Loading, Action::Load));
    let (player, action) = player.on(Event::Run(Pace::Timed));
    assert_eq!(action, Action::None, "it loads already");
    let (player, action) = player.on(Event::Loaded);
    assert_eq!((player.status, action), (Status::Running, Action::Open));
    // A second engine that becomes ready in mid-run changes nothing here.
    let (again, action) = player.on(Event::Loaded);
    assert_eq!((again, action), (player, Action::None));
}

#[test]
fn a_failed_load_can_be_tried_again_and_a_failed_run_run_again() {
    let (player, _) = Player::default().on(Event::Run(Pace::Timed));
    let (player, _) = player.on(Event::Failed);
    assert_eq!(player.status, Status::Error);
    let (player, action) = player.on(Event::Run(Pace::Timed));
    assert_eq!((player.status, action), (Status::Loading, Action::Load));
    let (player, _) = player.on(Event::Loaded);
    let (player, _) = player.on(Event::Failed);
    let (player, action) = player.on(Event::Run(Pace::Timed));
    assert_eq!((player.status, action), (Status::Running, Action::Open));
}

#[test]
fn losing_the_engine_loses_no_token() {
    let (player, _) = Player::default().on(Event::Run(Pace::Timed));
    let (player, _) = player.on(Event::Loaded);
    let (player, _) = player.on(Event::Opened);
    let (player, _) = player.on(Event::Stepped { finished: false });
    let (player, action) = player.on(Event::Tick(1.0));
    assert_eq!(action, Action::RequestStep);
    let (player, action) = player.on(Event::Moved);
    assert_eq!((action, player.recorded), (Action::Open, 1));
    let (player, action) = player.on(Event::Opened);
    assert_eq!(action, Action::RequestStep);
    let (player, _) = player.on(Event::Stepped { finished: true });
    assert_eq!(player.recorded, 2);
}

#[test]
fn an_engine_lost_between_steps_is_replaced_when_the_next_is_wanted() {
    let mut bench = Bench::new(3);
    bench.send(Event::Step);
    bench.settle();
    let (player, action) = bench.player.on(Event::Moved);
    assert_eq!(action, Action::None);
    bench.player = player;
    let (_, action) = bench.player.on(Event::Step);
    assert_eq!(action, Action::Open);
}

#[test]
fn any_sequence_of_presses_leaves_the_moment_inside_the_record() {
    // A small linear congruential generator picks the presses.
    let mut state = 12345u32;
    for _ in 0..300 {
        let mut bench = Bench::new(4);
        for _ in 0..60 {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            bench.send(match (state >> 24) % 10 {
                0 => Event::Run(Pace::Timed),
                1 => Event::Run(Pace::Max),
                2 => Event::Play,
                3 => Event::Pause,
                4 => Event::Step,
                5 => Event::Back,
                6 => Event::Seek(Some((state >> 16) as usize % 6)),
                7 => Event::Reset,
                8 if state & 0x8000 == 0 => Event::SetPace(Pace::Max),
                8 => Event::Moved,
                _ => Event::Tick(0.37),
            });
            let player = &bench.player;
            assert!(player.moment.step < player.recorded.max(1), "{player:?}");
            assert!((0.0..=1.0).contains(&player.moment.progress), "{player:?}");
            assert!(player.recorded <= 4, "{player:?}");
            assert_eq!(player.status == Status::Running, player.is_playing(), "{player:?}");
        }
        bench.send(Event::Run(Pace::Timed));
        bench.settle();
        assert_eq!((bench.player.status, bench.player.recorded), (Status::Done, 4));
    }
}

#[test]
fn an_adopted_record_is_shown_at_its_end_and_can_be_gone_on_with() {
    let mut bench = Bench::new(5);
    bench.send(Event::Run(Pace::Max));
    bench.settle();
    let (adopted, action) = bench.player.on(Event::Adopted { recorded: 2, finished: false, open: true });
    assert_eq!((adopted.status, adopted.moment, action), (Status::Paused, Moment::end_of(1), Action::None));
    let (playing, action) = adopted.on(Event::Play);
    assert_eq!((playing.status, action), (Status::Running, Action::RequestStep));
    let (_, action) = adopted.on(Event::Adopted { recorded: 2, finished: false, open: false }).0.on(Event::Play);
    assert_eq!(action, Action::Open, "without a session it is opened again");
    let (ended, _) = adopted.on(Event::Adopted { recorded: 4, finished: true, open: true });
    assert_eq!((ended.status, ended.moment), (Status::Done, Moment::end_of(3)));
    // A step that was under way when this record was left is recorded when it comes, and nothing moves.
    let (owing, _) = playing.on(Event::Adopted { recorded: 2, finished: false, open: true });
    let (late, action) = owing.on(Event::Stepped { finished: false });
    assert_eq!((late.recorded, late.moment, late.status, action), (3, owing.moment, Status::Paused, Action::None));
}

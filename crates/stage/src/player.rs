//! The *player* decides what the reader sees next and when the engine is asked for another step. It is a pure
//! transition `(state, event) → (state, action)`; it knows no clock (time arrives as `Tick`), no engine and no DOM.

use crate::Moment;

/// The element's `state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing is loaded.
    Idle,
    Loading,
    /// An engine is ready and no run is on screen.
    Ready,
    Running,
    Paused,
    /// The run has ended and its end is on screen.
    Done,
    Error,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Steps are shown beat by beat.
    Timed,
    /// Steps are shown as fast as they come.
    Max,
}

/// What the player is doing about steps to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drive {
    Still,
    /// On to the end.
    Play,
    /// Up to the end of the next step.
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// An engine is wanted, without a run.
    Load,
    /// An engine has the model and is warm.
    Loaded,
    /// A new run.
    Run(Pace),
    /// From now on.
    SetPace(Pace),
    /// The engine has opened the session.
    Opened,
    /// The run's engine was lost and another takes over.
    Moved,
    /// The engine ran a step; `finished` when it was the run's last.
    Stepped {
        finished: bool,
    },
    Failed,
    /// Time passed: the share of the current step's picture that fits into it.
    Tick(f32),
    Play,
    Pause,
    Step,
    Back,
    /// To the end of a recorded step, or to the start (None).
    Seek(Option<usize>),
    Reset,
    /// Another record is on screen, at its end; `open` if its session is.
    Adopted {
        recorded: usize,
        finished: bool,
        open: bool,
    },
    /// Another model was chosen and is to be loaded; what ran is gone.
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    None,
    /// Load an engine and the model.
    Load,
    /// Open a session; on the way, drop the one before.
    Open,
    /// Ask the engine for one step.
    RequestStep,
    /// Drop the session and the trace.
    Clear,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Player {
    pub status: Status,
    pub moment: Moment,
    /// Steps in the trace.
    pub recorded: usize,
    /// The trace holds its last step.
    pub finished: bool,
    pub pace: Pace,
    drive: Drive,
    /// A session is open or being opened.
    open: bool,
    /// An answer of the engine is under way.
    awaiting: bool,
    /// What to do once the engine is there.
    after_load: Option<Drive>,
    loaded: bool,
}

impl Default for Player {
    fn default() -> Self {
        Self {
            status: Status::Idle,
            moment: Moment::START,
            recorded: 0,
            finished: false,
            pace: Pace::Timed,
            drive: Drive::Still,
            open: false,
            awaiting: false,
            after_load: None,
            loaded: false,
        }
    }
}

impl Player {
    /// The state after `event`, and what to do about it.
    #[must_use]
    pub fn on(mut self, event: Event) -> (Self, Action) {
        let action = self.handle(event);
        (self, action)
    }

    /// The reader sees the newest thing recorded.
    pub fn at_end(&self) -> bool {
        self.recorded > 0 && self.moment == Moment::end_of(self.recorded - 1)
    }

    pub fn is_playing(&self) -> bool {
        self.drive == Drive::Play
    }

    /// Time should pass: something on screen is on its way.
    pub fn is_moving(&self) -> bool {
        self.drive != Drive::Still && self.recorded > 0 && !(self.at_end() && self.awaiting)
    }

    fn handle(&mut self, event: Event) -> Action {
        match event {
            Event::Load => match self.status {
                Status::Idle => self.load(None),
                Status::Error if !self.loaded => self.load(None),
                _ => Action::None,
            },
            Event::Loaded => self.on_loaded(),
            Event::Run(pace) => {
                self.pace = pace;
                if self.loaded { self.start(Drive::Play) } else { self.load(Some(Drive::Play)) }
            }
            Event::SetPace(pace) => {
                self.pace = pace;
                Action::None
            }
            Event::Opened => {
                if self.open && self.awaiting {
                    Action::RequestStep
                } else {
                    Action::None
                }
            }
            Event::Moved => {
                // A step that was asked for is asked for again; otherwise the session waits to be opened until then.
                self.open = self.awaiting;
                if self.awaiting { Action::Open } else { Action::None }
            }
            Event::Stepped { finished } => self.on_stepped(finished),
            Event::Failed => {
                let loading = self.status == Status::Loading;
                *self = Self { status: Status::Error, drive: Drive::Still, awaiting: false, open: false, ..*self };
                self.after_load = None;
                self.loaded &= !loading;
                Action::None
            }
            Event::Tick(share) => self.on_tick(share),
            Event::Play => self.on_play(Drive::Play),
            Event::Step => self.on_play(Drive::Single),
            Event::Pause => {
                if self.status == Status::Running {
                    self.rest();
                }
                Action::None
            }
            Event::Back => {
                let shown = self.moment.steps_shown();
                self.seek(shown.checked_sub(2))
            }
            Event::Seek(step) => self.seek(step),
            Event::Reset => {
                let status = match self.status {
                    Status::Loading if !self.loaded => Status::Loading,
                    _ if self.loaded => Status::Ready,
                    _ => Status::Idle,
                };
                *self = Self { status, loaded: self.loaded, pace: self.pace, ..Self::default() };
                Action::Clear
            }
            Event::Adopted { recorded, finished, open } => {
                *self = Self { recorded, finished, open, awaiting: false, ..*self };
                self.seek(recorded.checked_sub(1))
            }
            Event::Changed => {
                *self = Self { pace: self.pace, after_load: self.after_load, ..Self::default() };
                self.load(None)
            }
        }
    }

    fn load(&mut self, after: Option<Drive>) -> Action {
        let first = self.status != Status::Loading;
        self.status = Status::Loading;
        self.after_load = after.or(self.after_load);
        if first { Action::Load } else { Action::None }
    }

    fn on_loaded(&mut self) -> Action {
        self.loaded = true;
        if self.status != Status::Loading {
            return Action::None;
        }
        self.status = Status::Ready;
        match self.after_load.take() {
            Some(drive) => self.start(drive),
            None => Action::None,
        }
    }

    fn start(&mut self, drive: Drive) -> Action {
        let status = if drive == Drive::Play { Status::Running } else { Status::Paused };
        *self = Self { status, drive, open: true, awaiting: true, loaded: true, pace: self.pace, ..Self::default() };
        Action::Open
    }

    fn on_stepped(&mut self, finished: bool) -> Action {
        if !self.open {
            return Action::None;
        }
        let was_at_end = self.recorded == 0 || self.at_end();
        // A step that was under way when this record was left, and that comes when it is on screen again, was not asked for
        // by what is shown now: it is recorded, and nothing moves.
        let asked = std::mem::replace(&mut self.awaiting, false);
        self.recorded += 1;
        self.finished = finished;
        if !asked || !was_at_end || self.drive == Drive::Still {
            return Action::None;
        }
        match self.pace {
            Pace::Timed => {
                self.moment = Moment { step: self.recorded - 1, progress: 0.0 };
                Action::None
            }
            Pace::Max => {
                self.moment = Moment::end_of(self.recorded - 1);
                self.arrive()
            }
        }
    }

    fn on_tick(&mut self, share: f32) -> Action {
        if self.drive == Drive::Still || self.recorded == 0 {
            return Action::None;
        }
        if self.moment.progress < 1.0 {
            let jump = self.pace == Pace::Max || !share.is_finite();
            self.moment.progress = if jump { 1.0 } else { (self.moment.progress + share.max(0.0)).min(1.0) };
        }
        if self.moment.progress >= 1.0 { self.arrive() } else { Action::None }
    }

    /// The current step is complete on screen: what now?
    fn arrive(&mut self) -> Action {
        let more = !self.at_end();
        if self.drive == Drive::Single || (!more && self.finished) {
            self.rest();
            return Action::None;
        }
        if more {
            self.moment = Moment { step: self.moment.step + 1, progress: 0.0 };
            return Action::None;
        }
        self.request()
    }

    fn request(&mut self) -> Action {
        if self.awaiting {
            return Action::None;
        }
        self.awaiting = true;
        let action = if self.open { Action::RequestStep } else { Action::Open };
        self.open = true;
        action
    }

    fn rest(&mut self) {
        self.drive = Drive::Still;
        self.status = if self.finished && self.at_end() { Status::Done } else { Status::Paused };
    }

    fn on_play(&mut self, drive: Drive) -> Action {
        match self.status {
            Status::Idle | Status::Loading => return self.load(Some(drive)),
            Status::Error if !self.loaded => return self.load(Some(drive)),
            Status::Ready | Status::Error => return self.start(drive),
            // The end is on screen: playing starts over from the record, a single step has nowhere to go.
            Status::Done if drive == Drive::Single => return Action::None,
            Status::Done => self.moment = Moment::START,
            Status::Running | Status::Paused => {}
        }
        self.status = if drive == Drive::Play { Status::Running } else { Status::Paused };
        let on_its_way = self.drive != Drive::Still && self.moment.progress < 1.0 && self.recorded > 0;
        if drive == Drive::Single && on_its_way {
            // Pressed again while a step is on its way: that step is complete at once. If it was a single step too, the
            // next begins, so that presses count; if all was playing, it stops there.
            self.moment.progress = 1.0;
            if self.drive == Drive::Play || (self.at_end() && self.finished) {
                self.drive = drive;
                return self.arrive();
            }
        }
        self.drive = drive;
        if self.recorded == 0 {
            return self.request();
        }
        if self.moment.progress >= 1.0 {
            if !self.at_end() {
                self.moment = Moment { step: self.moment.step + 1, progress: 0.0 };
                return Action::None;
            }
            return if self.finished { self.arrive() } else { self.request() };
        }
        Action::None
    }

    fn seek(&mut self, step: Option<usize>) -> Action {
        if self.recorded == 0 {
            return Action::None;
        }
        self.moment = match step {
            None => Moment::START,
            Some(step) => Moment::end_of(step.min(self.recorded - 1)),
        };
        self.rest();
        Action::None
    }
}

#[cfg(test)]
#[path = "player_tests.rs"]
mod tests;

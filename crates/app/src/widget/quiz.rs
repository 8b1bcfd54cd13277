//! Guess first, then see: where the questions come between the reader's press and the run.

use inferscope_stage::{Ask, Event, Plan, Reveal, Status};

use crate::signal::RwSignal;

use super::Widget;

/// What is asked and what was guessed.
#[derive(Clone, Copy)]
pub struct Quiz {
    /// The reader wants to be asked.
    pub on: RwSignal<bool>,
    /// Asked before a run that waits for the answer.
    asked: RwSignal<Option<Ask>>,
    guess: RwSignal<Option<(Ask, u64)>>,
}

impl Quiz {
    pub fn new() -> Self {
        Self { on: RwSignal::new(false), asked: RwSignal::new(None), guess: RwSignal::new(None) }
    }
}

impl Quiz {
    /// A run has begun some other way: there is nothing to wait for.
    pub fn withdraw(&self) {
        self.asked.set(None);
    }
}

impl Widget {
    /// Asks before a run, if the reader wants that and the prompt is known. True if the run has to wait.
    pub(super) fn ask_first(self) -> bool {
        self.quiz.guess.set(None);
        let ready = self.quiz.on.get_untracked() && self.prompt_tokens.with_untracked(Option::is_some);
        let cached = self.settings.with_untracked(|settings| settings.cache);
        self.quiz.asked.set(ready.then(|| Ask::first(cached)));
        ready
    }

    /// What is to be asked now.
    pub fn question(self) -> Option<Ask> {
        if let Some(ask) = self.quiz.asked.get() {
            return Some(ask);
        }
        let (steps, status) = self.player.with(|player| (player.moment.steps_complete(), player.status));
        let (guessed, _) = self.quiz.guess.get()?;
        let cached = self.trace.with(|trace| trace.as_ref().is_some_and(|trace| trace.settings.cache));
        let next = Ask::after(steps, cached)?;
        (self.quiz.on.get() && status == Status::Paused && guessed != next).then_some(next)
    }

    /// What the run has made of the last guess.
    pub fn reveal(self) -> Option<Reveal> {
        let (ask, guess) = self.quiz.guess.get()?;
        let steps = self.player.with(|player| player.moment.steps_complete());
        self.trace.with(|trace| ask.reveal(guess, trace.as_ref()?, steps))
    }

    /// The run that the controls say, as far as it can be known before.
    pub fn plan(self) -> Plan {
        let context = self.loaded.with(|loaded| loaded.as_ref().map_or(1, |loaded| loaded.model.context));
        let prompt = self.prompt_tokens.with(|tokens| tokens.as_ref().map_or(1, Vec::len)).min(context);
        Plan { prompt, max_new_tokens: self.settings.with(|settings| settings.max_new_tokens), context }
    }

    /// The reader guessed: the run goes as far as the answer.
    pub fn guess(self, ask: Ask, guess: u64) {
        self.quiz.asked.set(None);
        if ask != Ask::Decode {
            self.dispatch(Event::Reset);
        }
        self.quiz.guess.set(Some((ask, guess)));
        match ask {
            Ask::Prefill | Ask::Decode => self.dispatch(Event::Step),
            Ask::Uncached => self.start_run(),
        }
    }

    /// No guess: the run just goes on.
    pub fn skip_question(self) {
        let before_the_run = self.quiz.asked.get_untracked().is_some();
        self.quiz.asked.set(None);
        self.quiz.guess.set(None);
        if before_the_run { self.start_run() } else { self.dispatch(Event::Play) }
    }
}

//! What the reader does: types a prompt, moves a slider, presses a button.

use inferscope_stage::{Event, Pace, Request, Status, scenes::Source};
use inferscope_trace::Command;

use super::{DRAFT, Widget};
use crate::dom;

impl Widget {
    pub fn set_prompt(self, text: String) {
        if self.prompt.with_untracked(|old| *old == text) {
            return;
        }
        self.prompt.set(text);
        self.tokenize();
    }

    pub(super) fn tokenize(self) {
        let inner = self.inner();
        let model = self.model.get_untracked();
        let Some(kind) = inner.hub.any_ready(&model) else {
            self.prompt_tokens.set(None);
            return;
        };
        let request = inner.hub.fresh_id();
        inner.tokenize_request.set(request);
        inner.hub.send(kind, &Command::Tokenize { request, model, text: self.prompt.get_untracked() });
    }

    /// The rule's value, or the nearest one in its range.
    pub fn set_rule(self, id: &str, value: f64) {
        let loaded = self.loaded.get_untracked().filter(|_| !self.inner().shape_due.get());
        let vocab_size = loaded.map_or(usize::MAX, |loaded| loaded.model.vocab_size);
        if let Some(rule) = inferscope_sampler::rule(id) {
            let value = rule.clamp(value, vocab_size);
            self.settings.update(|settings| {
                settings.sampling.0.insert(id.to_string(), value);
            });
        }
    }

    /// Tells the reader about a setting that was not taken.
    pub fn note(self, sentence: String) {
        self.notice.set(Some(sentence));
    }

    /// Asks for an engine; one that failed gets another try.
    pub fn set_request(self, request: Request) {
        self.request.set(request);
        self.forgive();
        self.reconsider();
    }

    /// Gives what failed another try.
    pub(super) fn forgive(self) {
        let hub = &self.inner().hub;
        hub.forgive(&self.model.get_untracked());
        if self.scene.source == Source::Pair {
            hub.forgive(DRAFT);
        }
    }

    /// One button: run, pause, go on, run again.
    pub fn press_main(self) {
        match self.status() {
            Status::Running => self.dispatch(Event::Pause),
            Status::Paused => self.dispatch(Event::Play),
            _ if self.ask_first() => {}
            _ => {
                self.start_run();
                self.bring_into_sight();
            }
        }
    }

    /// Puts the keyboard's focus on the main button, without scrolling there.
    pub fn focus_main(self) {
        let root = self.inner().host.shadow_root();
        if let Some(button) = root.and_then(|root| root.query_selector(".primary").ok().flatten()) {
            let _ = dom::focus_without_scrolling(&button);
        }
    }

    /// On a small screen what a run shows may lie below the button that starts it.
    fn bring_into_sight(self) {
        let root = self.inner().host.shadow_root();
        let panels = root.and_then(|root| root.query_selector(".panels").ok().flatten());
        if let Some(panels) = panels {
            let below = panels.get_bounding_client_rect().top() > dom::window_height() * 0.75;
            if below {
                dom::scroll_to(&panels, !dom::prefers_reduced_motion());
            }
        }
    }

    /// The same run both ways: without the cache at once, and then with it, at the reader's pace.
    pub fn run_both(self) {
        self.settings.update(|settings| settings.cache = false);
        self.abort("Another run began.");
        let pace = self.player.with_untracked(|player| player.pace);
        self.inner().then_cached.set(Some(pace));
        self.dispatch(Event::Run(Pace::Max));
    }

    /// The first half of running both ways is done.
    pub(super) fn go_on_with_the_cache(self) {
        if let Some(pace) = self.inner().then_cached.take()
            && self.status() == Status::Done
        {
            self.settings.update(|settings| settings.cache = true);
            self.dispatch(Event::Run(pace));
        }
    }

    pub(super) fn start_run(self) {
        self.abort("Another run began.");
        self.dispatch(Event::Run(self.player.with_untracked(|player| player.pace)));
    }
}

//! Time for the player: it runs while something on screen is on its way, a tick a frame.

use inferscope_stage::{Event, Player, duration_ms, scenes::Source};
use leptos::prelude::*;

use super::Widget;
use crate::dom;

/// How long a round of proposals takes at speed 1, and a step of many requests.
const ROUND_MS: f32 = 2600.0;
const SERVE_MS: f32 = 700.0;

/// All beats of a step are over a little before the step is.
const AT_REST: f32 = 0.99;

impl Widget {
    pub(super) fn keep_ticking(self) {
        let inner = self.inner();
        if self.player.with_untracked(Player::is_moving) {
            if !inner.ticking.replace(true) {
                inner.last_frame.set(dom::now());
                dom::before_paint(move |now| self.on_frame(now));
            }
        } else {
            inner.saved.set(0.0);
        }
    }

    pub(super) fn on_frame(self, now: f64) {
        // The widget may have left the page since this frame was asked for.
        let Some(inner) = self.inner.try_get_value() else { return };
        inner.ticking.set(false);
        let player = self.player.get_untracked();
        if !player.is_moving() {
            return;
        }
        // A page in the background gets no frames; what passed meanwhile does not count.
        let elapsed = (now - inner.last_frame.get()).clamp(0.0, 100.0) as f32;
        let step = match self.scene.source {
            Source::Session => self.trace.with_untracked(|trace| {
                trace.as_ref().and_then(|trace| trace.steps.get(player.moment.step)).map(|step| duration_ms(step))
            }),
            Source::Pair => Some(ROUND_MS),
            Source::Server => Some(SERVE_MS),
        };
        let share = elapsed * self.speed.get_untracked() / step.unwrap_or(1000.0);
        if dom::prefers_reduced_motion() {
            // The step's picture as it is at rest, at once; then the time that its movement would have taken to look at it.
            let to_rest = AT_REST - player.moment.progress;
            if to_rest > 0.0 {
                self.dispatch(Event::Tick(to_rest));
            }
            let saved = inner.saved.get() + share;
            inner.saved.set(if saved >= 1.0 { 0.0 } else { saved });
            if saved < 1.0 {
                return self.keep_ticking_from(now);
            }
            self.dispatch(Event::Tick(1.0));
        } else {
            self.dispatch(Event::Tick(share));
        }
        inner.last_frame.set(now);
    }

    pub(super) fn keep_ticking_from(self, now: f64) {
        self.keep_ticking();
        self.inner().last_frame.set(now);
    }
}

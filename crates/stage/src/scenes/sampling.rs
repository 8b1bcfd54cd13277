//! *Sampling*: one real step's scores on their way to a token, rule by rule, and the draw at their end.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "sampling",
    title: "Sampling",
    source: Source::Session,
    panels: &[Panel::Text, Panel::Stages, Panel::Draw, Panel::Search, Panel::Contrast],
    pace: Pace::Max,
    arrive: Arrive::MostOpenStep,
};

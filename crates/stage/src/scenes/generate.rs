//! *Generate*: a prompt goes in, prefill fills its columns at once, and decode adds one column a step.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "generate",
    title: "Generate",
    source: Source::Session,
    panels: &[
        Panel::Text,
        Panel::Branches,
        Panel::Cache,
        Panel::Candidates,
        Panel::Timeline,
        Panel::Growth,
        Panel::Counters,
        Panel::Roofline,
    ],
    pace: Pace::Timed,
    arrive: Arrive::AtEnd,
};

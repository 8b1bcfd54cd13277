//! *Batching*: a queue of requests on few places, static or continuous, and what a step costs at several batch sizes.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "batching",
    title: "Batching",
    source: Source::Server,
    panels: &[Panel::Schedule, Panel::Requests, Panel::BatchCost],
    pace: Pace::Timed,
    arrive: Arrive::AtEnd,
};

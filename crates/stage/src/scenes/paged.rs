//! *Paged cache*: several requests in one memory, in blocks or in reservations.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "paged",
    title: "Paged cache",
    source: Source::Server,
    panels: &[Panel::Blocks, Panel::Requests],
    pace: Pace::Timed,
    arrive: Arrive::AtEnd,
};

//! *Memory*: what the cache costs in real models, and what sharing KV heads saves.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "memory",
    title: "Memory",
    source: Source::Session,
    panels: &[Panel::Text, Panel::Groups, Panel::Memory],
    pace: Pace::Max,
    arrive: Arrive::AtEnd,
};

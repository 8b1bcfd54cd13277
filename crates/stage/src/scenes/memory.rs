//! *Memory*: what the cache costs in real models, and what sharing KV heads saves.

use super::{Arrive, Panel, Scene};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "memory",
    title: "Memory",
    panels: &[Panel::Memory, Panel::Text, Panel::Counters],
    pace: Pace::Max,
    arrive: Arrive::AtEnd,
};

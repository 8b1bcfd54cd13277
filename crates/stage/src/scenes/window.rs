//! *Window*: a cache that stays as large as it is, by dropping or rounding what it holds.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "window",
    title: "Windows and rounding",
    source: Source::Session,
    panels: &[Panel::Layout, Panel::Text, Panel::Cache, Panel::Scores],
    pace: Pace::Timed,
    arrive: Arrive::AtEnd,
};

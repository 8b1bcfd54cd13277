//! *Speculative decoding*: a small model proposes, the large one judges several tokens in one pass.

use super::{Arrive, Panel, Scene, Source};
use crate::Pace;

pub const SCENE: Scene = Scene {
    id: "speculative",
    title: "Speculative decoding",
    source: Source::Pair,
    panels: &[Panel::Rounds, Panel::Yield],
    pace: Pace::Timed,
    arrive: Arrive::AtEnd,
};

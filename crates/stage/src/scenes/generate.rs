//! *Generate*: a prompt goes in, prefill fills its columns at once, and decode adds one column a step.

use super::{Panel, Scene};

pub const SCENE: Scene = Scene {
    id: "generate",
    title: "Generate",
    panels: &[Panel::Text, Panel::Cache, Panel::Candidates, Panel::Timeline, Panel::Growth, Panel::Counters],
};

//! A *scene* is one lesson: a name, and the panels that teach it. A new scene is a file here and a line in [`SCENES`];
//! playing, scrubbing, the keyboard and the embed attribute come with it.

use crate::Pace;

mod batching;
mod generate;
mod memory;
mod paged;
mod sampling;
mod speculative;
mod window;

/// One picture or set of controls within a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The text so far.
    Text,
    /// The runs that came from this one by another token.
    Branches,
    /// The KV cache grid with attention arrows.
    Cache,
    /// The next token's distribution, with the sampler's controls.
    Candidates,
    /// Phases against measured time.
    Timeline,
    /// Numbers of the run.
    Counters,
    /// Positions processed with and without the cache.
    Growth,
    /// What limits prefill and decode on an accelerator.
    Roofline,
    /// A step's candidates after each rule of the sampler.
    Stages,
    /// The line that the draw is a point on, and many draws.
    Draw,
    /// One prefix written on with every preset.
    Contrast,
    /// Any token of the vocabulary.
    Search,
    /// How many requests of published models fit into an accelerator.
    Memory,
    /// Models that differ in their KV heads, side by side.
    Groups,
    /// A round of proposals and verdicts.
    Rounds,
    /// What the rounds come to, beside the formula.
    Yield,
    /// The memory of many requests, slot by slot.
    Blocks,
    /// The requests, to be set and to be watched.
    Requests,
    /// Who runs where in the batch, step by step.
    Schedule,
    /// What a step costs against the size of the batch.
    BatchCost,
    /// How the cache keeps its columns.
    Layout,
    /// What that does to how well the model foresees a text.
    Scores,
}

/// What a run of a scene is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// One text by one model.
    Session,
    /// One text by a draft and a target.
    Pair,
    /// Many texts at once.
    Server,
}

#[derive(Debug)]
pub struct Scene {
    /// The value of the element's `scene` attribute.
    pub id: &'static str,
    pub title: &'static str,
    pub source: Source,
    pub panels: &'static [Panel],
    /// How fast runs are shown until the reader says otherwise.
    pub pace: Pace,
    pub arrive: Arrive,
}

/// What is on screen when a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrive {
    /// Its end.
    AtEnd,
    /// The step with the most to choose from.
    MostOpenStep,
}

/// Every scene, in the order of teaching.
pub const SCENES: &[&Scene] = &[
    &generate::SCENE,
    &sampling::SCENE,
    &memory::SCENE,
    &paged::SCENE,
    &batching::SCENE,
    &speculative::SCENE,
    &window::SCENE,
];

/// The scene of that id.
pub fn scene(id: &str) -> Option<&'static Scene> {
    SCENES.iter().copied().find(|scene| scene.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenes_have_their_own_ids_and_something_to_show() {
        for (index, each) in SCENES.iter().enumerate() {
            assert!(SCENES[..index].iter().all(|other| other.id != each.id), "{} stands twice", each.id);
            assert!(!each.panels.is_empty() && scene(each.id).is_some());
        }
        assert!(scene("no such scene").is_none());
    }
}

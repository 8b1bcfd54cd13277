//! A *scene* is one lesson: a name, and the panels that teach it. A new scene is a file here and a line in [`SCENES`];
//! playing, scrubbing, the keyboard and the embed attribute come with it.

mod generate;

/// One picture or set of controls within a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panel {
    /// The text so far.
    Text,
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
}

#[derive(Debug)]
pub struct Scene {
    /// The value of the element's `scene` attribute.
    pub id: &'static str,
    pub title: &'static str,
    pub panels: &'static [Panel],
}

/// Every scene, in the order of teaching.
pub const SCENES: &[&Scene] = &[&generate::SCENE];

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

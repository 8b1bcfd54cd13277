//! The *library* is all text that stories are told from, read and ready.

use std::path::Path;

use include_dir::{Dir, include_dir};

use super::list::{self, Lists};
use super::random::Random;
use super::script::{self, Plot, Slot};
use super::story::Story;
use super::{CorpusError, story};

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/corpus");

pub struct Library {
    pub(super) lists: Lists,
    /// By name.
    pub(super) plots: Vec<Plot>,
    pub(super) frame: Frame,
    pub(super) fillers: Vec<Slot>,
}

/// What stands around every plot.
pub(super) struct Frame {
    pub opening: Vec<Slot>,
    pub about: Vec<Slot>,
    pub friend: Vec<Slot>,
    pub closing: Vec<Slot>,
}

/// How many of some things the texts have.
pub struct Count {
    /// Kinds of filler sentence.
    pub fillers: usize,
    pub objects: usize,
}

impl Library {
    /// The texts as they were when the program was built.
    ///
    /// # Panics
    /// When they are not in order, which a test rules out.
    pub fn built_in() -> Self {
        let mut files = Vec::new();
        collect(&FILES, &mut files);
        Self::from_files(files).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The texts in a folder, for those who are writing them.
    pub fn from_folder(folder: &Path) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for sub in ["", "lists", "plots"] {
            for entry in std::fs::read_dir(folder.join(sub))? {
                let path = entry?.path();
                if path.extension().is_some_and(|extension| extension == "txt") {
                    let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                    files.push((name, std::fs::read_to_string(&path)?));
                }
            }
        }
        Ok(Self::from_files(files)?)
    }

    fn from_files(mut files: Vec<(String, String)>) -> Result<Self, CorpusError> {
        files.sort();
        let mut lists = Lists::new();
        let mut plots = Vec::new();
        let mut sections = Vec::new();
        for (name, text) in &files {
            if name.starts_with("lists/") {
                list::parse(name, text, &mut lists)?;
            } else if let Some(plot) = name.strip_prefix("plots/").and_then(|name| name.strip_suffix(".txt")) {
                plots.push(Plot::parse(name, plot, text)?);
            } else {
                sections.extend(script::sections(name, text)?);
            }
        }
        let mut section = |name: &str| {
            let found = sections.iter().position(|(other, _)| other == name);
            let missing = || CorpusError::told(format!("there is no section {name}")).at("the corpus");
            found.map(|index| sections.swap_remove(index).1).ok_or_else(missing)
        };
        let frame = Frame {
            opening: section("opening")?,
            about: section("about")?,
            friend: section("friend")?,
            closing: section("closing")?,
        };
        Ok(Self { lists, plots, frame, fillers: section("filler")? })
    }

    /// Story number `index` of a seed.
    pub fn story(&self, seed: u64, index: u64) -> Story {
        let mut random = Random::new(seed, index);
        let plot = &self.plots[random.below(self.plots.len() as u32) as usize];
        story::tell(self, plot, random).unwrap_or_else(|error| panic!("story {index} of seed {seed}: {error}"))
    }

    /// A story with a plot of one's choice.
    pub fn story_of(&self, plot: &str, seed: u64, index: u64) -> Result<Story, CorpusError> {
        let plot = self.plots.iter().find(|other| other.name == plot);
        let plot = plot.ok_or_else(|| CorpusError::told(format!("there is no plot {plot:?}")).at("the corpus"))?;
        story::tell(self, plot, Random::new(seed, index))
    }

    pub fn count(&self) -> Count {
        let lines = |slot: &Slot| if let Slot::OneOf(lines) = slot { lines.len() } else { 0 };
        Count { fillers: self.fillers.iter().map(lines).sum(), objects: self.lists.get("object").map_or(0, Vec::len) }
    }

    pub fn plot_names(&self) -> impl Iterator<Item = &str> {
        self.plots.iter().map(|plot| plot.name.as_str())
    }
}

fn collect(folder: &Dir, files: &mut Vec<(String, String)>) {
    for file in folder.files() {
        if let Some(text) = file.contents_utf8()
            && file.path().extension().is_some_and(|extension| extension == "txt")
        {
            files.push((file.path().to_string_lossy().into_owned(), text.to_string()));
        }
    }
    folder.dirs().for_each(|folder| collect(folder, files));
}

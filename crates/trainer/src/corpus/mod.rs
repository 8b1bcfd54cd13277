//! The *corpus* is an endless stream of children's stories, each a function of a seed and its number. Its words are in the
//! text files of `corpus/`; the rules for writing them are in `corpus/FORMAT.md`.
//!
//! It knows no tokens and no model.

mod agreement;
mod cast;
mod check;
mod choices;
mod english;
mod library;
mod list;
pub(crate) mod random;
mod script;
mod speech;
mod story;
mod template;

pub use check::{PlotReport, Report, report};
pub use library::Library;
pub use story::Story;

/// What is wrong with the text files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct CorpusError {
    place: String,
    message: String,
}

impl CorpusError {
    fn new(file: &str, line: usize, message: String) -> Self {
        Self { place: format!("{file}, line {line}"), message }
    }

    /// Found while a story was told, at a place that the teller adds.
    fn told(message: String) -> Self {
        Self { place: String::new(), message }
    }

    fn at(self, place: &str) -> Self {
        if self.place.is_empty() { Self { place: place.to_string(), ..self } } else { self }
    }
}

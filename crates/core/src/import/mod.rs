//! An *import* turns files that a reader gives into a model that can run: a checkpoint and its tokenizer, in any order
//! and of any of the formats that are known here. Which file is which shows in its content and not in its name.
//!
//! It knows no browser and no file system, only names and bytes.

mod error;
mod recognise;

pub use error::{Foreign, ImportError};
pub use inferscope_trace::NamedFile;

use crate::{Checkpoint, Tokenizer};
use recognise::Content;

/// The most that all files of an import may have together, in bytes.
pub const MAX_IMPORT_BYTES: usize = 20_000_000;

/// A model with its tokenizer, which has exactly as many tokens as the model.
#[derive(Clone, Debug)]
pub struct Imported {
    pub checkpoint: Checkpoint,
    pub tokenizer: Tokenizer,
}

/// Finds the one checkpoint and the one tokenizer among `files` and reads them.
///
/// # Errors
/// When something is missing, given twice, unknown, too large or damaged, or when the two do not belong together.
pub fn import(files: &[NamedFile]) -> Result<Imported, ImportError> {
    let found = Found::among(files)?;
    let (name, checkpoint) = found.checkpoint()?;
    let tokenizer = found.tokenizer(name, checkpoint.shape.vocab_size)?;
    Ok(Imported { checkpoint, tokenizer })
}

/// The files that were recognised, each kind at most once.
#[derive(Default)]
struct Found<'a> {
    checkpoint: Option<(&'a NamedFile, Content)>,
    tokenizer: Option<(&'a NamedFile, Content)>,
}

impl<'a> Found<'a> {
    fn among(files: &'a [NamedFile]) -> Result<Self, ImportError> {
        let bytes = files.iter().map(|file| file.bytes.len()).sum();
        if bytes > MAX_IMPORT_BYTES {
            return Err(ImportError::TooLarge { bytes });
        }
        let mut found = Self::default();
        for file in files {
            let content = recognise::content(file)?;
            let place = match content {
                Content::Inferscope | Content::Llama2cCheckpoint => &mut found.checkpoint,
                Content::Llama2cTokenizer => &mut found.tokenizer,
            };
            if let Some((first, _)) = place.replace((file, content)) {
                let (what, first, second) = (content.title(), first.name.clone(), file.name.clone());
                return Err(ImportError::Twice { what, first, second });
            }
        }
        Ok(found)
    }

    fn checkpoint(&self) -> Result<(&'a str, Checkpoint), ImportError> {
        let Some((file, content)) = self.checkpoint else {
            return Err(match self.tokenizer {
                Some((file, _)) => ImportError::NoCheckpoint { beside: file.name.clone() },
                None => ImportError::Nothing,
            });
        };
        let name = || file.name.clone();
        let checkpoint = match content {
            Content::Inferscope => Checkpoint::from_inferscope(&file.bytes)
                .map_err(|cause| ImportError::Inferscope { name: name(), cause })?,
            _ => Checkpoint::parse(&file.bytes).map_err(|cause| ImportError::Llama2c { name: name(), cause })?,
        };
        Ok((&file.name, checkpoint))
    }

    fn tokenizer(&self, checkpoint: &str, vocab_size: usize) -> Result<Tokenizer, ImportError> {
        let Some((file, _)) = self.tokenizer else {
            return Err(ImportError::NoTokenizer { checkpoint: checkpoint.to_string() });
        };
        let name = || file.name.clone();
        match Tokenizer::count(&file.bytes) {
            Some(tokens) if tokens != vocab_size => Err(ImportError::Vocabulary {
                checkpoint: checkpoint.to_string(),
                vocab_size,
                tokenizer: name(),
                tokens,
            }),
            _ => Tokenizer::parse(&file.bytes, vocab_size)
                .map_err(|cause| ImportError::Tokenizer { name: name(), cause }),
        }
    }
}

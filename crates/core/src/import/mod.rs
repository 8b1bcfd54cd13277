//! An *import* turns files that a reader gives into a model that can run: a checkpoint, its configuration where it is
//! of a format that has one, and its tokenizer, in any order. Which file is which shows in its content and not in its
//! name.
//!
//! It knows no browser and no file system, only names and bytes.

mod error;
mod recognise;

pub use error::{Foreign, ImportError};
pub use inferscope_trace::{MAX_IMPORT_BYTES, NamedFile};

use crate::format::hugging_face::Config;
use crate::{Checkpoint, SpecialTokens, Tokenizer};
use recognise::Content;

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
    let checkpoint = found.checkpoint.ok_or_else(|| found.without_checkpoint())?;
    let config = found.config(checkpoint)?;
    let tokenizer = found.tokenizer.ok_or_else(|| {
        let checkpoint = checkpoint.name.clone();
        match config {
            Some(_) => ImportError::NoTokenizerJson { checkpoint },
            None => ImportError::NoTokenizer { checkpoint },
        }
    })?;
    let weights = read_checkpoint(checkpoint, config.as_ref())?;
    let special = config.map(|config| config.special).unwrap_or_default();
    Ok(Imported { tokenizer: read_tokenizer(tokenizer, checkpoint, &weights, &special)?, checkpoint: weights })
}

/// A file and what it was recognised as.
#[derive(Clone, Copy)]
struct Recognised<'a> {
    name: &'a String,
    bytes: &'a [u8],
    content: Content,
}

/// The files that were recognised, each kind at most once.
#[derive(Default)]
struct Found<'a> {
    checkpoint: Option<Recognised<'a>>,
    config: Option<Recognised<'a>>,
    tokenizer: Option<Recognised<'a>>,
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
                Content::Inferscope | Content::Llama2c | Content::Safetensors => &mut found.checkpoint,
                Content::Config => &mut found.config,
                Content::TokenizerBin | Content::TokenizerJson => &mut found.tokenizer,
                Content::Companion => continue,
            };
            let recognised = Recognised { name: &file.name, bytes: &file.bytes, content };
            if let Some(first) = place.replace(recognised) {
                let (first, second) = (first.name.clone(), file.name.clone());
                return Err(ImportError::Twice { what: content.title(), first, second });
            }
        }
        Ok(found)
    }

    fn without_checkpoint(&self) -> ImportError {
        match self.tokenizer.or(self.config) {
            Some(file) => ImportError::NoCheckpoint { beside: file.name.clone() },
            None => ImportError::Nothing,
        }
    }

    /// The configuration, if the checkpoint is one that has its shape there; others have theirs in themselves.
    fn config(&self, checkpoint: Recognised) -> Result<Option<Config>, ImportError> {
        if checkpoint.content != Content::Safetensors {
            return Ok(None);
        }
        let file = self.config.ok_or_else(|| ImportError::NoConfig { checkpoint: checkpoint.name.clone() })?;
        let config = Config::parse(file.bytes);
        config.map(Some).map_err(|cause| ImportError::HuggingFace { name: file.name.clone(), cause })
    }
}

fn read_checkpoint(file: Recognised, config: Option<&Config>) -> Result<Checkpoint, ImportError> {
    let name = || file.name.clone();
    match (file.content, config) {
        (_, Some(config)) => Checkpoint::of_hugging_face(file.bytes, config)
            .map_err(|cause| ImportError::HuggingFace { name: name(), cause }),
        (Content::Inferscope, _) => {
            Checkpoint::from_inferscope(file.bytes).map_err(|cause| ImportError::Inferscope { name: name(), cause })
        }
        _ => Checkpoint::parse(file.bytes).map_err(|cause| ImportError::Llama2c { name: name(), cause }),
    }
}

fn read_tokenizer(
    file: Recognised,
    checkpoint: Recognised,
    weights: &Checkpoint,
    special: &SpecialTokens,
) -> Result<Tokenizer, ImportError> {
    let name = || file.name.clone();
    let vocab_size = weights.shape.vocab_size;
    let other_vocabulary = |tokens| {
        let checkpoint = checkpoint.name.clone();
        Err(ImportError::Vocabulary { checkpoint, vocab_size, tokenizer: name(), tokens })
    };
    if file.content == Content::TokenizerJson {
        let tokenizer = Tokenizer::from_tokenizer_json(file.bytes, special)
            .map_err(|cause| ImportError::TokenizerJson { name: name(), cause })?;
        let tokens = tokenizer.vocabulary().pieces.len();
        return if tokens == vocab_size { Ok(tokenizer) } else { other_vocabulary(tokens) };
    }
    match Tokenizer::count(file.bytes) {
        Some(tokens) if tokens != vocab_size => other_vocabulary(tokens),
        // One that is damaged may end anywhere; reading it finds out where.
        _ => Tokenizer::parse(file.bytes, vocab_size).map_err(|cause| ImportError::Tokenizer { name: name(), cause }),
    }
}

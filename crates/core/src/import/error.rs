//! What can be wrong with files that a reader gives, each as a sentence that says what to do about it.

use super::MAX_IMPORT_BYTES;
use crate::format::{CheckpointError, FormatError, HuggingFaceError};
use crate::tokenizer::{TokenizerError, TokenizerJsonError};

/// Why files do not make a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("no file was given: a model is a checkpoint and its tokenizer")]
    Nothing,
    #[error(
        "the files have {} MB together, and {} MB is the limit for a model that is to run here",
        megabytes(*bytes),
        megabytes(MAX_IMPORT_BYTES)
    )]
    TooLarge { bytes: usize },
    #[error("the file {name} is empty")]
    Empty { name: String },
    #[error("the file {name} is {}, which can not be read here: {}", kind.title(), kind.advice())]
    Foreign { name: String, kind: Foreign },
    #[error("the file {name} looks like JSON and is not: {cause}")]
    Json { name: String, cause: String },
    #[error(
        "the file {name} is neither a checkpoint nor a tokenizer that is known here: drop an Inferscope or llama2.c checkpoint with its tokenizer, or model.safetensors with config.json and tokenizer.json"
    )]
    Unknown { name: String },
    #[error("there are two of the same kind, {first} and {second}: drop one {what} at a time")]
    Twice { what: &'static str, first: String, second: String },
    #[error("the file {beside} needs its checkpoint: drop both together")]
    NoCheckpoint { beside: String },
    #[error("the checkpoint {checkpoint} also needs its tokenizer: drop tokenizer.bin or tokenizer.json with it")]
    NoTokenizer { checkpoint: String },
    #[error("the checkpoint {checkpoint} also needs its tokenizer: drop tokenizer.json with it and config.json")]
    NoTokenizerJson { checkpoint: String },
    #[error("the checkpoint {checkpoint} also needs its configuration: drop config.json with it")]
    NoConfig { checkpoint: String },
    #[error(
        "the checkpoint {checkpoint} knows {vocab_size} tokens and the tokenizer {tokenizer} has {tokens}, so the two do not belong together"
    )]
    Vocabulary { checkpoint: String, vocab_size: usize, tokenizer: String, tokens: usize },
    #[error("the file {name} can not be used: {cause}")]
    Inferscope { name: String, cause: FormatError },
    #[error("the file {name} can not be used: {cause}")]
    Llama2c { name: String, cause: CheckpointError },
    #[error("the file {name} can not be used: {cause}")]
    HuggingFace { name: String, cause: HuggingFaceError },
    #[error("the file {name} can not be used: {cause}")]
    Tokenizer { name: String, cause: TokenizerError },
    #[error("the file {name} can not be used: {cause}")]
    TokenizerJson { name: String, cause: TokenizerJsonError },
}

/// A format that is recognised, so that the reader hears what to convert, but not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    PyTorch,
    Gguf,
    Onnx,
    SentencePiece,
    /// A later version of llama2.c's layout.
    LaterLlama2c,
    /// A text that stands for a file kept elsewhere.
    GitLfsPointer,
    /// The list of the several files that a large model is divided into.
    ShardedIndex,
}

impl Foreign {
    fn title(self) -> &'static str {
        match self {
            Self::PyTorch => "a PyTorch file",
            Self::Gguf => "a GGUF file",
            Self::Onnx => "an ONNX file",
            Self::SentencePiece => "a SentencePiece tokenizer",
            Self::LaterLlama2c => "a llama2.c checkpoint of a later version than 0",
            Self::ShardedIndex => "the index of a model in several files",
            Self::GitLfsPointer => "only a pointer to a file in Git LFS",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Self::PyTorch => {
                "save the model as safetensors (in Python, model.save_pretrained writes model.safetensors and config.json), or export it with llama2.c's export.py, version 0"
            }
            Self::Gguf | Self::Onnx => {
                "take the model's original files instead, model.safetensors with config.json and tokenizer.json"
            }
            Self::SentencePiece => {
                "take tokenizer.json instead, or convert it to tokenizer.bin with llama2.c's tokenizer.py"
            }
            Self::LaterLlama2c => "export it again as version 0, with 32-bit weights",
            Self::ShardedIndex => "save the model in a single model.safetensors",
            Self::GitLfsPointer => "download the file itself",
        }
    }
}

/// With one digit behind the point.
fn megabytes(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

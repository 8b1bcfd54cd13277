//! Recognises a file by its content. Layouts without a mark of their own are known by an exact size, or, when they are
//! damaged, by numbers such as only they have, so that the reader hears what is wrong instead of "unknown".

use serde_json::Value;

use super::{Foreign, ImportError, NamedFile};
use crate::Tokenizer;
use crate::format::{inferscope, llama2c};

/// What a file that can be read holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Inferscope,
    Llama2c,
    Safetensors,
    Config,
    TokenizerBin,
    TokenizerJson,
    /// What lies beside a model's files and says nothing that is needed here.
    Companion,
}

impl Content {
    pub fn title(self) -> &'static str {
        match self {
            Self::Inferscope | Self::Llama2c | Self::Safetensors => "checkpoint",
            Self::Config => "configuration",
            Self::TokenizerBin | Self::TokenizerJson => "tokenizer",
            Self::Companion => "file",
        }
    }
}

pub(super) fn content(file: &NamedFile) -> Result<Content, ImportError> {
    let bytes = file.bytes.as_slice();
    let name = || file.name.clone();
    if bytes.is_empty() {
        return Err(ImportError::Empty { name: name() });
    }
    if bytes.starts_with(&inferscope::MAGIC) {
        return Ok(Content::Inferscope);
    }
    if llama2c::declared_shape(bytes).is_ok_and(|shape| llama2c::file_bytes(&shape) == bytes.len() as u128) {
        return Ok(Content::Llama2c);
    }
    if Tokenizer::count(bytes).is_some() {
        return Ok(Content::TokenizerBin);
    }
    if let Some(kind) = foreign(bytes) {
        return Err(ImportError::Foreign { name: name(), kind });
    }
    // The length of a header in JSON, and the header.
    if matches!(bytes, [_, _, _, _, 0, 0, 0, 0, b'{', ..]) {
        return Ok(Content::Safetensors);
    }
    if bytes.trim_ascii_start().starts_with(b"{") && !bytes.contains(&0) {
        return json(file);
    }
    if begins_like_a_checkpoint(bytes) {
        return Ok(Content::Llama2c);
    }
    if Tokenizer::begins_like_llama2c(bytes) {
        return Ok(Content::TokenizerBin);
    }
    Err(match foreign_by_name(&file.name) {
        Some(kind) => ImportError::Foreign { name: name(), kind },
        None => ImportError::Unknown { name: name() },
    })
}

/// Which of the JSON files that belong to a model it is.
fn json(file: &NamedFile) -> Result<Content, ImportError> {
    let name = file.name.clone();
    let value: Value = match serde_json::from_slice(&file.bytes) {
        Ok(value) => value,
        Err(error) => return Err(ImportError::Json { name, cause: error.to_string() }),
    };
    let has = |field: &str| value.get(field).is_some();
    let companion = ["tokenizer_class", "bos_token", "eos_token", "transformers_version", "eos_token_id"];
    match () {
        () if value["model"].is_object() => Ok(Content::TokenizerJson),
        () if has("weight_map") => Err(ImportError::Foreign { name, kind: Foreign::ShardedIndex }),
        () if has("model_type") || has("hidden_size") => Ok(Content::Config),
        () if companion.into_iter().any(has) => Ok(Content::Companion),
        () => Err(ImportError::Unknown { name }),
    }
}

/// The formats that others write and that are not read here, by how their files begin.
fn foreign(bytes: &[u8]) -> Option<Foreign> {
    let beginning = &bytes[..bytes.len().min(1 << 10)];
    let zipped = |name: &[u8]| beginning.starts_with(b"PK") && beginning.windows(name.len()).any(|part| part == name);
    match bytes {
        // A zip archive whose first file is a pickle, or, from older versions, a pickle, which begins with its protocol.
        _ if zipped(b"data.pkl") => Some(Foreign::PyTorch),
        [0x80, 2..=5, 1..=255, ..] => Some(Foreign::PyTorch),
        [b'G', b'G', b'U', b'F', ..] => Some(Foreign::Gguf),
        // The version of the format and then the producer's name, as every exporter writes them.
        [0x08, 3..=20, 0x12, ..] => Some(Foreign::Onnx),
        // The first piece, by its length, and in it the name of the first token.
        [0x0A, _, 0x0A, 5, b'<', b'u', b'n', b'k', b'>', ..] => Some(Foreign::SentencePiece),
        [b'2', b'4', b'k', b'a', ..] => Some(Foreign::LaterLlama2c),
        _ if bytes.starts_with(b"version https://git-lfs") => Some(Foreign::GitLfsPointer),
        _ => None,
    }
}

/// The same by their names, for those whose content says nothing.
fn foreign_by_name(name: &str) -> Option<Foreign> {
    let name = name.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    match () {
        () if ends(&[".pt", ".pth", ".ckpt"]) => Some(Foreign::PyTorch),
        () if ends(&[".gguf", ".ggml"]) => Some(Foreign::Gguf),
        () if ends(&[".onnx"]) => Some(Foreign::Onnx),
        () if ends(&[".model"]) => Some(Foreign::SentencePiece),
        () => None,
    }
}

/// Seven numbers of a small model's size. Of other files' first bytes few have so many zeros in these places.
fn begins_like_a_checkpoint(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<28>() else { return false };
    let fields: Vec<i32> = header.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
    let small = fields.iter().all(|field| field.unsigned_abs() <= 1 << 20);
    small && fields.iter().filter(|&&field| field > 0).count() >= 5
}

//! Recognises a file by its content. Layouts without a mark of their own are known by an exact size, or, when they are
//! damaged, by numbers such as only they have, so that the reader hears what is wrong instead of "unknown".

use super::{Foreign, ImportError, NamedFile};
use crate::Tokenizer;
use crate::format::{inferscope, llama2c};

/// What a file that can be read holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Inferscope,
    Llama2cCheckpoint,
    Llama2cTokenizer,
}

impl Content {
    pub fn title(self) -> &'static str {
        match self {
            Self::Inferscope | Self::Llama2cCheckpoint => "checkpoint",
            Self::Llama2cTokenizer => "tokenizer",
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
    if let Some(kind) = foreign(file) {
        return Err(ImportError::Foreign { name: name(), kind });
    }
    if llama2c::declared_shape(bytes).is_ok_and(|shape| llama2c::file_bytes(&shape) == bytes.len() as u128) {
        return Ok(Content::Llama2cCheckpoint);
    }
    if Tokenizer::count(bytes).is_some() {
        return Ok(Content::Llama2cTokenizer);
    }
    if begins_like_a_checkpoint(bytes) {
        return Ok(Content::Llama2cCheckpoint);
    }
    if begins_like_a_tokenizer(bytes) {
        return Ok(Content::Llama2cTokenizer);
    }
    Err(ImportError::Unknown { name: name() })
}

/// The formats that others write and that are not read here.
fn foreign(file: &NamedFile) -> Option<Foreign> {
    let bytes = file.bytes.as_slice();
    let ends = |ending: &str| file.name.to_ascii_lowercase().ends_with(ending);
    let zip = bytes.starts_with(b"PK\x03\x04");
    // A pickle begins with its protocol.
    let pickle = matches!(bytes, [0x80, 2..=5, ..]);
    // The versions of the format and then the producer's name, as every exporter writes them.
    let onnx = matches!(bytes, [0x08, 3..=20, 0x12, ..]);
    match bytes {
        _ if zip || pickle => Some(Foreign::PyTorch),
        [b'G', b'G', b'U', b'F', ..] => Some(Foreign::Gguf),
        _ if onnx || ends(".onnx") => Some(Foreign::Onnx),
        _ if ends(".model") => Some(Foreign::SentencePiece),
        [b'2', b'4', b'k', b'a', ..] => Some(Foreign::LaterLlama2c),
        _ if bytes.starts_with(b"version https://git-lfs") => Some(Foreign::GitLfsPointer),
        _ => None,
    }
}

/// Seven numbers of a small model's size. Of other files' first bytes few have so many zeros in these places.
fn begins_like_a_checkpoint(bytes: &[u8]) -> bool {
    let Some(header) = bytes.first_chunk::<28>() else { return false };
    let fields: Vec<i32> = header.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
    let small = fields.iter().all(|field| field.unsigned_abs() <= 1 << 20);
    small && fields.iter().filter(|&&field| field > 0).count() >= 5
}

/// A longest piece of some length, then control tokens with scores and names that are no longer.
fn begins_like_a_tokenizer(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| {
        let (word, behind) = rest.split_first_chunk::<4>()?;
        *rest = behind;
        Some(*word)
    };
    let mut check = || {
        let longest =
            usize::try_from(i32::from_le_bytes(word(&mut rest)?)).ok().filter(|longest| *longest <= 1 << 12)?;
        for _ in 0..3 {
            f32::from_le_bytes(word(&mut rest)?).is_finite().then_some(())?;
            let length =
                usize::try_from(i32::from_le_bytes(word(&mut rest)?)).ok().filter(|length| *length <= longest)?;
            rest = rest.get(length..)?;
        }
        Some(())
    };
    check().is_some()
}

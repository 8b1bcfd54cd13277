//! `tokenizer.json` of Hugging Face's tokenizers, of the two kinds that Llama models have: byte-pair encoding of
//! characters, with `▁` for the space and `<0xNN>` for bytes, and byte-level encoding, where every byte is written as
//! some printable character. Joins are listed as *merges*, the most urgent first.

mod read;
mod write;

use inferscope_trace::TokenId;

/// How the first kind writes a space.
const SPACE: &str = "▁";

/// What `config.json` says about a model's special tokens; a tokenizer file need not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins every text.
    pub bos: Option<TokenId>,
    /// When the model writes one of these, its text has ended.
    pub eos: Vec<TokenId>,
}

/// Why a `tokenizer.json` can not be used, or a tokenizer can not be written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerJsonError {
    #[error("the tokenizer is not JSON ({cause})")]
    Json { cause: String },
    #[error("the tokenizer's field {field} is missing or not of the right type")]
    Field { field: &'static str },
    #[error("the tokenizer is of the kind {found}, and only byte-pair encoding (BPE) can be read here")]
    Kind { found: String },
    #[error("the tokenizer's {field} is {found}, which is not supported here: only those of Llama's two kinds are")]
    Unsupported { field: &'static str, found: String },
    #[error("the tokenizer's ids do not count from 0: {found} tokens have other ids than 0 to {last}")]
    Ids { found: usize, last: usize },
    #[error("the tokenizer gives two tokens the id {id}")]
    SameId { id: TokenId },
    #[error("the tokenizer's token {id} has a character that stands for no byte")]
    NotByteLevel { id: TokenId },
    #[error("merge {index} of the tokenizer names a token that its vocabulary lacks")]
    Merge { index: usize },
    #[error(
        "the tokenizer names no token that begins a text: it has no template for that, and config.json gives no bos_token_id"
    )]
    NoBos,
    #[error("the tokenizer can not be written as tokenizer.json: {reason}")]
    NotExpressible { reason: &'static str },
}

/// The character that byte-level encoding writes for a byte: itself where that is printable, and one from U+0100 on for
/// the others, in their order (GPT-2's table).
fn character_of_byte(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    if printable(byte) {
        return char::from(byte);
    }
    let place = (0..byte).filter(|&before| !printable(before)).count();
    char::from_u32(0x100 + place as u32).expect("a character of the Latin blocks")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        let characters: HashSet<char> = (0..=255).map(character_of_byte).collect();
        assert_eq!(characters.len(), 256);
        assert_eq!(character_of_byte(b' '), 'Ġ');
        assert_eq!(character_of_byte(b'\n'), 'Ċ');
        assert_eq!(character_of_byte(b'a'), 'a');
        assert_eq!(character_of_byte(0xAD), 'Ń');
        assert_eq!(character_of_byte(0), 'Ā');
    }
}

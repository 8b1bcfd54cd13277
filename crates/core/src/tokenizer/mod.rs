//! A *tokenizer* splits text into tokens of a fixed vocabulary: characters first, or single bytes for what the
//! vocabulary does not know, then joined as long as neighbours make a known piece.
//!
//! Its files are read and written by two modules here: `tokenizer.bin` of llama2.c, and Hugging Face's `tokenizer.json`.

mod hugging_face;
mod joins;
mod llama2c;
mod words;

use std::collections::HashMap;

use inferscope_trace::{Piece, TokenId, Vocabulary};

pub use hugging_face::{SpecialTokens, TokenizerJsonError};
pub use llama2c::TokenizerError;

use joins::{Joined, join_all};
use words::Words;

#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    /// By id.
    kinds: Vec<Kind>,
    joins: Joins,
    /// The tokens that text can be made of, by their bytes. Control and byte tokens are not among them: a reader who
    /// types their names means the letters.
    ids: HashMap<Vec<u8>, TokenId>,
    /// The token `<0xNN>` of each byte, where there is one.
    bytes: Box<[Option<TokenId>; 256]>,
    rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Writes nothing; its bytes are its name.
    Control,
    /// Written `<0xNN>` in the file; it stands for that byte and joins with nothing.
    Byte,
    /// Its bytes as they are, even if it is only one.
    Text,
}

/// Which neighbours join.
#[derive(Clone, Debug)]
enum Joins {
    /// Any two that together are a piece of text, by that piece's score. By id.
    Scores(Vec<f32>),
    /// Those that are listed.
    Pairs(HashMap<(TokenId, TokenId), Joined>),
}

/// In what tokenizers differ beside their vocabularies and joins.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rules {
    leading_space: LeadingSpace,
    words: Words,
    start: Start,
    unknown: Unknown,
    /// The tokens that, when the model writes one, end its text, beside the one that begins every text.
    ends: Vec<TokenId>,
}

/// Whether a text is split as if a space came before it, so that its first word is the word that it is within a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeadingSpace {
    Never,
    Always,
    UnlessThereIsOne,
}

/// What text is before anything joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Characters, and bytes of those that the vocabulary lacks.
    Characters,
    Bytes,
}

/// What becomes of characters that the vocabulary can not express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// This token stands for each byte that has no token.
    Byte(TokenId),
    /// This token stands for the character, or, if `fused`, for all such characters in a row.
    Character { token: TokenId, fused: bool },
    /// They are left out.
    Dropped,
}

impl Tokenizer {
    /// A tokenizer without tokens yet.
    fn empty(joins: Joins, rules: Rules, bos: TokenId) -> Self {
        Self {
            vocabulary: Vocabulary { pieces: Vec::new(), bos },
            kinds: Vec::new(),
            joins,
            ids: HashMap::new(),
            bytes: Box::new([None; 256]),
            rules,
        }
    }

    /// Adds the next token. Of several with the same bytes and kind, the first is the one that text becomes.
    fn add(&mut self, kind: Kind, bytes: Vec<u8>) {
        let id = self.kinds.len() as TokenId;
        match kind {
            Kind::Control => {}
            Kind::Byte => {
                self.bytes[usize::from(bytes[0])].get_or_insert(id);
            }
            Kind::Text => {
                self.ids.entry(bytes.clone()).or_insert(id);
            }
        }
        self.vocabulary.pieces.push(Piece { bytes, control: kind == Kind::Control });
        self.kinds.push(kind);
    }

    /// What every token stands for. Byte tokens stand for their byte; control tokens carry their names.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Whether a token that the model wrote ends its text.
    pub fn is_end(&self, token: TokenId) -> bool {
        token == self.vocabulary.bos || self.rules.ends.contains(&token)
    }

    /// The tokens of a text, BOS first. With most tokenizers a text that is not empty is split as if a space came before
    /// it.
    ///
    /// Every code point becomes its token, or the tokens of its bytes, or the unknown token; then, as long as any two
    /// neighbours join, those with the best score do, the leftmost of equals.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        self.encode_bytes(text.as_bytes())
    }

    /// The tokens of any bytes, as of a text where they are UTF-8; the others become their byte tokens.
    pub fn encode_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let mut encoded = vec![self.vocabulary.bos];
        let space = match self.rules.leading_space {
            LeadingSpace::Never => false,
            LeadingSpace::Always => !bytes.is_empty(),
            LeadingSpace::UnlessThereIsOne => !bytes.is_empty() && bytes[0] != b' ',
        };
        let spaced: Vec<u8> = space.then_some(b' ').into_iter().chain(bytes.iter().copied()).collect();

        let mut row = Vec::with_capacity(spaced.len());
        for chunk in spaced.utf8_chunks() {
            for (place, word) in self.rules.words.split(chunk.valid()).into_iter().enumerate() {
                if place > 0 {
                    encoded.extend(join_all(std::mem::take(&mut row), |a, b| self.joined(a, b)));
                }
                word.chars().for_each(|character| self.encode_character(character, &mut row));
            }
            chunk.invalid().iter().for_each(|&byte| self.encode_by_bytes(&[byte], &mut row));
        }
        encoded.extend(join_all(row, |a, b| self.joined(a, b)));
        encoded
    }

    /// The text of tokens. A piece's leading space is dropped after BOS, control tokens write nothing, and bytes that
    /// are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        self.vocabulary.text(None, tokens)
    }

    /// The bytes of tokens, by the same rules; they need not be UTF-8.
    pub fn decode_bytes(&self, tokens: &[TokenId]) -> Vec<u8> {
        self.vocabulary.bytes(None, tokens)
    }

    fn encode_character(&self, character: char, row: &mut Vec<TokenId>) {
        let mut buffer = [0; 4];
        let bytes = character.encode_utf8(&mut buffer).as_bytes();
        match self.ids.get(bytes) {
            Some(&id) if self.rules.start == Start::Characters => row.push(id),
            _ => self.encode_by_bytes(bytes, row),
        }
    }

    /// Appends the tokens of one character's bytes, or what stands for them.
    fn encode_by_bytes(&self, bytes: &[u8], row: &mut Vec<TokenId>) {
        let tokens = bytes.iter().map(|&byte| self.byte_token(byte));
        match self.rules.unknown {
            Unknown::Byte(unknown) => row.extend(tokens.map(|token| token.unwrap_or(unknown))),
            _ if tokens.clone().all(|token| token.is_some()) => row.extend(tokens.flatten()),
            Unknown::Character { token, fused } if !fused || row.last() != Some(&token) => row.push(token),
            Unknown::Character { .. } | Unknown::Dropped => {}
        }
    }

    /// A byte's token, whether its file writes it `<0x41>` or `A`.
    fn byte_token(&self, byte: u8) -> Option<TokenId> {
        self.bytes[usize::from(byte)].or_else(|| self.ids.get(&[byte][..]).copied())
    }

    /// What two neighbours become, if they join.
    fn joined(&self, left: TokenId, right: TokenId) -> Option<Joined> {
        match &self.joins {
            Joins::Pairs(pairs) => pairs.get(&(left, right)).copied(),
            Joins::Scores(scores) => {
                let bytes = [self.text_bytes(left)?, self.text_bytes(right)?].concat();
                let token = *self.ids.get(&bytes)?;
                Some(Joined { score: scores[token as usize], token })
            }
        }
    }

    /// The bytes with which a token takes part in joins. Control and byte tokens join with nothing.
    fn text_bytes(&self, id: TokenId) -> Option<&[u8]> {
        (self.kinds[id as usize] == Kind::Text).then(|| self.vocabulary.pieces[id as usize].bytes.as_slice())
    }
}

/// The byte of a piece named like `<0x41>`.
fn byte_of_name(piece: &[u8]) -> Option<u8> {
    let digits = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let plain = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    plain.then(|| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

/// What the file calls a byte's token.
fn name_of_byte(byte: u8) -> String {
    format!("<0x{byte:02X}>")
}

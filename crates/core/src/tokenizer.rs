//! A *tokenizer* splits text into tokens of a fixed vocabulary by byte-pair encoding (Sennrich et al. 2016, "Neural
//! Machine Translation of Rare Words with Subword Units"), with single bytes for what the vocabulary does not know.
//!
//! Its file is of the llama2.c layout: an i32 with the length of the longest piece, then for each token an f32 score, an
//! i32 length and that many bytes, all little-endian. The first three tokens are control tokens.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use inferscope_trace::{Piece, TokenId, Vocabulary};

/// Stands for text that the vocabulary can not express.
const UNKNOWN: TokenId = 0;
/// Begins every text.
const BOS: TokenId = 1;
/// What the control tokens are called, by id.
const CONTROL_NAMES: [&str; 3] = ["<unk>", "<s>", "</s>"];

/// Why a file is not a tokenizer for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    #[error("a vocabulary of {vocab_size} tokens is too small: the first three are control tokens")]
    TooSmall { vocab_size: usize },
    #[error("the tokenizer file is cut off: it ends within token {token} of {vocab_size}")]
    Truncated { token: usize, vocab_size: usize },
    #[error("the tokenizer file is too long: {bytes} bytes follow the last of its {vocab_size} tokens")]
    Oversized { bytes: usize, vocab_size: usize },
    #[error(
        "the tokenizer file is damaged: the length of token {token} is {length}, and the longest may have {longest} bytes"
    )]
    Length { token: usize, length: i32, longest: i32 },
    #[error("the tokenizer file is damaged: the score of token {token} is not a number")]
    Score { token: usize },
}

#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    /// By id; of two neighbours that can join, those with the better score join first.
    scores: Vec<f32>,
    /// The tokens that text can be made of, by their bytes. Control and byte tokens are not among them: a reader who
    /// types their names means the letters.
    ids: HashMap<Vec<u8>, TokenId>,
    /// The token `<0xNN>` of each byte, where there is one.
    bytes: Box<[Option<TokenId>; 256]>,
}

impl Tokenizer {
    /// Reads a whole file, which must have exactly `vocab_size` tokens.
    ///
    /// # Errors
    /// When the file has fewer or more, or a length or score that can not be.
    pub fn parse(bytes: &[u8], vocab_size: usize) -> Result<Self, TokenizerError> {
        if vocab_size < CONTROL_NAMES.len() {
            return Err(TokenizerError::TooSmall { vocab_size });
        }
        let mut reader = Reader { rest: bytes };
        let cut = |token| TokenizerError::Truncated { token, vocab_size };
        let longest = i32::from_le_bytes(reader.word().ok_or(cut(0))?);
        let mut tokenizer = Self {
            vocabulary: Vocabulary { pieces: Vec::new(), bos: BOS },
            scores: Vec::new(),
            ids: HashMap::new(),
            bytes: Box::new([None; 256]),
        };
        for token in 0..vocab_size {
            let score = f32::from_le_bytes(reader.word().ok_or(cut(token))?);
            let length = i32::from_le_bytes(reader.word().ok_or(cut(token))?);
            if !score.is_finite() {
                return Err(TokenizerError::Score { token });
            }
            let damaged = TokenizerError::Length { token, length, longest };
            let length = usize::try_from(length).ok().filter(|_| length <= longest).ok_or(damaged)?;
            tokenizer.add(reader.take(length).ok_or(cut(token))?, score);
        }
        match reader.rest.len() {
            0 => Ok(tokenizer),
            bytes => Err(TokenizerError::Oversized { bytes, vocab_size }),
        }
    }

    /// How many tokens a file of this layout holds, if it is one: if the last ends exactly where the file does.
    pub(crate) fn count(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader { rest: bytes };
        let longest = i32::from_le_bytes(reader.word()?);
        let mut tokens = 0;
        while !reader.rest.is_empty() {
            reader.word()?;
            let length = i32::from_le_bytes(reader.word()?);
            reader.take(usize::try_from(length).ok().filter(|_| length <= longest)?)?;
            tokens += 1;
        }
        (tokens >= CONTROL_NAMES.len()).then_some(tokens)
    }

    fn add(&mut self, bytes: &[u8], score: f32) {
        let id = self.scores.len() as TokenId;
        let control = CONTROL_NAMES.get(id as usize);
        let byte = byte_of_name(bytes);
        let bytes = match (control, byte) {
            (Some(name), _) => name.as_bytes().to_vec(),
            (None, Some(byte)) => {
                self.bytes[usize::from(byte)].get_or_insert(id);
                vec![byte]
            }
            (None, None) => {
                self.ids.entry(bytes.to_vec()).or_insert(id);
                bytes.to_vec()
            }
        };
        self.vocabulary.pieces.push(Piece { bytes, control: control.is_some() });
        // Adding 0 makes the two zeros one, so that equal scores compare as equal.
        self.scores.push(score + 0.0);
    }

    /// What every token stands for. Byte tokens stand for their byte; control tokens carry their names.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The tokens of a text, BOS first. A text that is not empty is split as if a space came before it, so that its
    /// first word is the word that it is within a text.
    ///
    /// Every code point becomes its token, or the tokens of its bytes, or the unknown token; then, as long as any two
    /// neighbours join to a known piece, those with the best score do, the leftmost of equals.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(text.len() + 2);
        if !text.is_empty() {
            self.encode_character(' ', &mut tokens);
            text.chars().for_each(|character| self.encode_character(character, &mut tokens));
        }
        let mut encoded = vec![BOS];
        encoded.extend(self.merge(tokens));
        encoded
    }

    /// The text of tokens. A piece's leading space is dropped after BOS, control tokens write nothing, and bytes that
    /// are not UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[TokenId]) -> String {
        self.vocabulary.text(None, tokens)
    }

    fn encode_character(&self, character: char, tokens: &mut Vec<TokenId>) {
        let mut buffer = [0; 4];
        let bytes = character.encode_utf8(&mut buffer).as_bytes();
        match self.ids.get(bytes) {
            Some(&id) => tokens.push(id),
            None => tokens.extend(bytes.iter().map(|&byte| self.bytes[usize::from(byte)].unwrap_or(UNKNOWN))),
        }
    }

    /// Joins neighbours. The possible joins wait in a queue with the best first, so that a text of n tokens takes about
    /// n · log n steps instead of looking at all neighbours again after every join.
    fn merge(&self, tokens: Vec<TokenId>) -> Vec<TokenId> {
        let mut row = Row::new(tokens);
        let mut queue = BinaryHeap::new();
        let mut joined = Vec::new();
        let mut consider = |row: &Row, left: usize, queue: &mut BinaryHeap<Join>| {
            let Some((a, b)) = row.pair(left) else { return };
            let (Some(first), Some(second)) = (self.text_bytes(a), self.text_bytes(b)) else { return };
            joined.clear();
            joined.extend_from_slice(first);
            joined.extend_from_slice(second);
            if let Some(&token) = self.ids.get(&joined) {
                queue.push(Join { score: self.scores[token as usize], left, pair: (a, b), token });
            }
        };
        (0..row.tokens.len()).for_each(|left| consider(&row, left, &mut queue));
        while let Some(join) = queue.pop() {
            // Either neighbour may have joined another since.
            if row.pair(join.left) == Some(join.pair) {
                row.join(join.left, join.token);
                if let Some(before) = row.before(join.left) {
                    consider(&row, before, &mut queue);
                }
                consider(&row, join.left, &mut queue);
            }
        }
        row.into_tokens().collect()
    }

    /// The bytes with which a token takes part in joins. Control and byte tokens join with nothing.
    fn text_bytes(&self, id: TokenId) -> Option<&[u8]> {
        let piece = &self.vocabulary.pieces[id as usize];
        let is_byte = matches!(piece.bytes[..], [byte] if self.bytes[usize::from(byte)] == Some(id));
        (!piece.control && !is_byte).then_some(&piece.bytes)
    }
}

/// The byte of a piece named like `<0x41>`.
fn byte_of_name(piece: &[u8]) -> Option<u8> {
    let digits = piece.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let plain = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    plain.then(|| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()).flatten()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<[u8; 4]> {
        self.take(4)?.try_into().ok()
    }
}

/// A join that was possible when it was found.
struct Join {
    score: f32,
    left: usize,
    pair: (TokenId, TokenId),
    token: TokenId,
}

impl Ord for Join {
    /// The greatest is the next to do: the best score, then the leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Join {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Join {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Join {}

/// Tokens in a row from which some have been joined away. Places keep their order, so the leftmost is the lowest.
struct Row {
    /// By place; `None` where a token was joined to the one before it.
    tokens: Vec<Option<TokenId>>,
    next: Vec<usize>,
    before: Vec<Option<usize>>,
}

impl Row {
    fn new(tokens: Vec<TokenId>) -> Self {
        let n = tokens.len();
        Self {
            tokens: tokens.into_iter().map(Some).collect(),
            next: (1..=n).collect(),
            before: (0..n).map(|place| place.checked_sub(1)).collect(),
        }
    }

    /// The token at a place and its neighbour to the right.
    fn pair(&self, left: usize) -> Option<(TokenId, TokenId)> {
        let right = self.tokens.get(self.next[left]).copied().flatten();
        self.tokens[left].zip(right)
    }

    fn before(&self, place: usize) -> Option<usize> {
        self.before[place]
    }

    /// Puts `token` in place of the pair that begins at `left`.
    fn join(&mut self, left: usize, token: TokenId) {
        let right = self.next[left];
        self.tokens[left] = Some(token);
        self.tokens[right] = None;
        self.next[left] = self.next[right];
        if let Some(before) = self.before.get_mut(self.next[left]) {
            *before = Some(left);
        }
    }

    fn into_tokens(self) -> impl Iterator<Item = TokenId> {
        self.tokens.into_iter().flatten()
    }
}

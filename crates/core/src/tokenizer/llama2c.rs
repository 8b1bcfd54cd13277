//! `tokenizer.bin` of llama2.c: an i32 with the length of the longest piece, then for each token an f32 score, an i32
//! length and that many bytes, all little-endian. The first three tokens are control tokens.

use inferscope_trace::TokenId;

use super::words::Words;
use super::{Joins, Kind, LeadingSpace, Rules, Start, Tokenizer, Unknown, byte_of_name, name_of_byte};

/// Stands for text that the vocabulary can not express.
const UNKNOWN: TokenId = 0;
/// Begins every text.
const BOS: TokenId = 1;
/// What the control tokens are called, by id.
const CONTROL_NAMES: [&str; 3] = ["<unk>", "<s>", "</s>"];

/// Why a file is not a tokenizer for the model, or a tokenizer can not be such a file.
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
    #[error("llama2.c's tokenizer.bin can not express this tokenizer: {reason}")]
    NotExpressible { reason: &'static str },
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
        let mut tokenizer = Self::empty(Joins::Scores(Vec::new()), rules(), BOS);
        let mut scores = Vec::new();
        for token in 0..vocab_size {
            let score = f32::from_le_bytes(reader.word().ok_or(cut(token))?);
            let length = i32::from_le_bytes(reader.word().ok_or(cut(token))?);
            if !score.is_finite() {
                return Err(TokenizerError::Score { token });
            }
            let damaged = TokenizerError::Length { token, length, longest };
            let length = usize::try_from(length).ok().filter(|_| length <= longest).ok_or(damaged)?;
            let piece = reader.take(length).ok_or(cut(token))?;
            match (CONTROL_NAMES.get(token), byte_of_name(piece)) {
                (Some(name), _) => tokenizer.add(Kind::Control, name.as_bytes().to_vec()),
                (None, Some(byte)) => tokenizer.add(Kind::Byte, vec![byte]),
                (None, None) => tokenizer.add(Kind::Text, piece.to_vec()),
            }
            // Adding 0 makes the two zeros one, so that equal scores compare as equal.
            scores.push(score + 0.0);
        }
        tokenizer.joins = Joins::Scores(scores);
        match reader.rest.len() {
            0 => Ok(tokenizer),
            bytes => Err(TokenizerError::Oversized { bytes, vocab_size }),
        }
    }

    /// How many tokens a file of this layout holds, if it is one: if the last ends exactly where the file does.
    pub(crate) fn count(bytes: &[u8]) -> Option<usize> {
        let mut reader = Reader { rest: bytes };
        let longest = reader.control_tokens()?;
        let mut tokens = CONTROL_NAMES.len();
        while !reader.rest.is_empty() {
            reader.piece(0, longest)?;
            tokens += 1;
        }
        Some(tokens)
    }

    /// Whether a file begins like one of this layout.
    pub(crate) fn begins_like_llama2c(bytes: &[u8]) -> bool {
        Reader { rest: bytes }.control_tokens().is_some_and(|longest| longest <= 1 << 12)
    }

    /// The tokenizer as a file of this layout. What a `tokenizer.json` says more finely is lost: a join that it lists for
    /// two tokens is then one for any two that make the same piece, and a text that begins with a space gets another.
    ///
    /// # Errors
    /// When the layout has no way to say what this tokenizer does: other control tokens, words, or no leading space.
    pub fn to_llama2c(&self) -> Result<Vec<u8>, TokenizerError> {
        let is_control = |id: usize| self.kinds.get(id) == Some(&Kind::Control);
        let control_first = (0..self.kinds.len().max(3)).all(|id| is_control(id) == (id < 3));
        let rules = &self.rules;
        let reasons = [
            (!control_first, "the layout's only control tokens are its first three"),
            (self.vocabulary.bos != BOS, "the layout's token 1 begins every text"),
            (rules.leading_space == LeadingSpace::Never, "the layout puts a space before every text"),
            (rules.words != Words::None || rules.start != Start::Characters, "the layout joins across words"),
        ];
        if let Some((_, reason)) = reasons.into_iter().find(|(applies, _)| *applies) {
            return Err(TokenizerError::NotExpressible { reason });
        }
        let pieces = self.kinds.iter().zip(&self.vocabulary.pieces).map(|(kind, piece)| match kind {
            Kind::Byte => name_of_byte(piece.bytes[0]).into_bytes(),
            Kind::Control | Kind::Text => piece.bytes.clone(),
        });
        let pieces: Vec<Vec<u8>> = pieces.collect();
        let longest = pieces.iter().map(Vec::len).max().unwrap_or(0);
        let mut file = (longest as i32).to_le_bytes().to_vec();
        for (score, piece) in self.scores().into_iter().zip(pieces) {
            file.extend(score.to_le_bytes());
            file.extend((piece.len() as i32).to_le_bytes());
            file.extend(piece);
        }
        Ok(file)
    }

    /// Each token's score, by id; where joins are listed by pairs, that of the first pair that makes it.
    fn scores(&self) -> Vec<f32> {
        match &self.joins {
            Joins::Scores(scores) => scores.clone(),
            Joins::Pairs(pairs) => {
                let mut scores = vec![None; self.kinds.len()];
                for joined in pairs.values() {
                    let score: &mut Option<f32> = &mut scores[joined.token as usize];
                    *score = Some(score.map_or(joined.score, |best| best.max(joined.score)));
                }
                scores.into_iter().map(|score| score.unwrap_or(0.0)).collect()
            }
        }
    }
}

fn rules() -> Rules {
    Rules {
        leading_space: LeadingSpace::Always,
        words: Words::None,
        start: Start::Characters,
        unknown: Unknown::Byte(UNKNOWN),
        ends: Vec::new(),
    }
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

    /// Goes past a token with a score and a length that can be.
    fn piece(&mut self, shortest: i32, longest: i32) -> Option<()> {
        f32::from_le_bytes(self.word()?).is_finite().then_some(())?;
        let length = i32::from_le_bytes(self.word()?);
        self.take(usize::try_from(length).ok().filter(|_| (shortest..=longest).contains(&length))?)?;
        Some(())
    }

    /// Goes past the beginning of a file, whose control tokens have names, and returns the length of the longest piece.
    fn control_tokens(&mut self) -> Option<i32> {
        let longest = i32::from_le_bytes(self.word()?);
        CONTROL_NAMES.iter().try_for_each(|_| self.piece(1, longest))?;
        Some(longest)
    }
}

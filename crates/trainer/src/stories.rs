//! *Tokenized stories* are what models are trained and measured on: story number n of a seed, as tokens of the project's
//! own tokenizer, which is itself learned from the first stories.

use std::collections::HashMap;
use std::sync::RwLock;

use inferscope_core::Tokenizer;
use inferscope_trace::TokenId;

use crate::bpe::{self, WordCounts};
use crate::corpus::Library;
use crate::train;

/// Tokens in the vocabulary of every model here.
pub const VOCAB_SIZE: usize = 1024;
/// Positions of every model here, and tokens of a training sequence.
pub const CONTEXT: usize = 256;
/// Seeds of disjoint streams: what models are trained on, and what they are measured on.
pub const TRAINING_SEED: u64 = 1;
pub const HELD_OUT_SEED: u64 = 2;
/// How many stories of the training stream the tokenizer is learned from.
const TOKENIZER_STORIES: u64 = 8_000;

/// The tokenizer file, learned from the corpus. Takes some seconds.
pub fn tokenizer_file(library: &Library) -> Vec<u8> {
    let mut counts = WordCounts::default();
    for index in 0..TOKENIZER_STORIES {
        counts.add(&format!(" {}", library.story(TRAINING_SEED, index).text));
    }
    bpe::train(&counts, VOCAB_SIZE)
}

/// Splits texts of the corpus. No piece holds parts of two words, so words can be split one by one, and most were seen
/// before.
pub struct Encoder {
    tokenizer: Tokenizer,
    known: RwLock<HashMap<String, Vec<TokenId>>>,
}

impl Encoder {
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { tokenizer, known: RwLock::default() }
    }

    /// What the tokenizer makes of a text, without BOS.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        let text = format!(" {text}");
        let mut tokens = Vec::with_capacity(text.len() / 3);
        for word in bpe::words(&text) {
            let known = self.known.read().expect("nobody panics with it").get(word).cloned();
            let word_tokens = known.unwrap_or_else(|| {
                let split = self.split(word);
                self.known.write().expect("nobody panics with it").insert(word.to_string(), split.clone());
                split
            });
            tokens.extend(word_tokens);
        }
        tokens
    }

    /// The tokenizer puts BOS and a space before a text. A line break after that space joins with nothing, so what comes
    /// after it is the word as it is.
    fn split(&self, word: &str) -> Vec<TokenId> {
        self.tokenizer.encode(&format!("\n{word}"))[3..].to_vec()
    }
}

/// Stories of one seed, as tokens.
pub struct Stories {
    library: Library,
    encoder: Encoder,
    seed: u64,
}

impl Stories {
    pub fn new(library: Library, tokenizer: Tokenizer, seed: u64) -> Self {
        Self { library, encoder: Encoder::new(tokenizer), seed }
    }
}

impl train::Stories for Stories {
    fn tokens(&self, index: u64) -> Vec<TokenId> {
        self.encoder.encode(&self.library.story(self.seed, index).text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Stories as _;

    /// The shortcut by words must be the tokenizer's own answer.
    #[test]
    fn stories_are_encoded_as_the_tokenizer_would() {
        let mut counts = WordCounts::default();
        let library = Library::built_in();
        (0..50).for_each(|index| counts.add(&format!(" {}", library.story(TRAINING_SEED, index).text)));
        let tokenizer = Tokenizer::parse(&bpe::train(&counts, 512), 512).unwrap();
        let stories = Stories::new(library, tokenizer.clone(), HELD_OUT_SEED);
        for index in 0..100 {
            let text = stories.library.story(HELD_OUT_SEED, index).text;
            assert_eq!(stories.tokens(index), tokenizer.encode(&text)[1..], "{text}");
        }
    }
}

//! *Batches* are what a training step sees: rows of a fixed number of tokens, cut from an endless supply of stories.
//!
//! Every row begins at the beginning of a story and goes on with the stories after it, each begun by BOS, until it is
//! full. Which stories a row holds depends on nothing but its number, so any step can be made again.

use inferscope_trace::TokenId;

/// Begins every story.
pub const BOS: TokenId = 1;

/// Stories are numbered so that no two rows share one: a row cannot hold more than this, since each takes a token.
const STORIES_PER_ROW: u64 = 1 << 10;

/// An endless supply of tokenized stories.
pub trait Stories: Sync {
    /// The tokens of one story, without BOS. The same number is always the same story.
    fn tokens(&self, index: u64) -> Vec<TokenId>;
}

/// Row number `row`: `len` tokens.
pub fn row(stories: &impl Stories, row: u64, len: usize) -> Vec<TokenId> {
    assert!(len as u64 <= STORIES_PER_ROW, "a row has fewer tokens than it may have stories");
    let mut tokens = Vec::with_capacity(len);
    let mut story = row * STORIES_PER_ROW;
    while tokens.len() < len {
        tokens.push(BOS);
        tokens.extend(stories.tokens(story));
        story += 1;
    }
    tokens.truncate(len);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Numbered;

    impl Stories for Numbered {
        fn tokens(&self, index: u64) -> Vec<TokenId> {
            vec![index as TokenId; 3]
        }
    }

    #[test]
    fn a_row_begins_with_a_story_and_is_filled_with_the_next_ones() {
        assert_eq!(row(&Numbered, 0, 9), [1, 0, 0, 0, 1, 1, 1, 1, 1]);
        assert_eq!(row(&Numbered, 2, 6), [1, 2048, 2048, 2048, 1, 2049]);
    }
}

//! A *word* is a stretch of text whose tokens never join those of another. How a text falls into words is a
//! tokenizer's own rule; many have none.

/// Where words begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// The whole text is one.
    None,
    /// At every space.
    Spaces,
    /// GPT-2's rule (Radford et al. 2019): a contraction's ending; a space or none, then letters, or digits, or other
    /// signs; or white space, the last of which is left to the word after it if that is a space.
    Gpt2,
}

impl Words {
    pub fn split(self, text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let length = match self {
                Self::None => rest.len(),
                Self::Spaces => rest.match_indices(' ').map(|(at, _)| at).find(|&at| at > 0).unwrap_or(rest.len()),
                Self::Gpt2 => gpt2_word(rest),
            };
            let (word, behind) = rest.split_at(length);
            words.push(word);
            rest = behind;
        }
        words
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    White,
    Letter,
    Digit,
    Other,
}

/// Rust's letters include marks that belong to them in some scripts, which the rule counts as other signs.
fn class(character: char) -> Class {
    if character.is_whitespace() {
        Class::White
    } else if character.is_numeric() {
        Class::Digit
    } else if character.is_alphabetic() {
        Class::Letter
    } else {
        Class::Other
    }
}

/// Length of the first word of a text that is not empty.
fn gpt2_word(text: &str) -> usize {
    const ENDINGS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    if let Some(ending) = ENDINGS.iter().find(|ending| text.starts_with(**ending)) {
        return ending.len();
    }
    let after_space = text.strip_prefix(' ').unwrap_or(text);
    let space = text.len() - after_space.len();
    let run = |text: &str, of: Class| text.find(|next| class(next) != of).unwrap_or(text.len());
    match after_space.chars().next().map(class) {
        Some(Class::White) | None => {
            let length = run(text, Class::White);
            let last = text[..length].chars().next_back().map_or(0, char::len_utf8);
            if length == text.len() || length == last { length } else { length - last }
        }
        Some(of) => space + run(after_space, of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_where_the_rule_says() {
        for (text, words) in [
            ("", vec![]),
            ("Once upon", vec!["Once", " upon"]),
            ("it's we'll 'tis", vec!["it", "'s", " we", "'ll", " '", "tis"]),
            ("12 apples, 3rd!", vec!["12", " apples", ",", " 3", "rd", "!"]),
            ("a   b", vec!["a", "  ", " b"]),
            ("a \n b\n\nc", vec!["a", " \n", " b", "\n", "\n", "c"]),
            ("end  ", vec!["end", "  "]),
            ("end ", vec!["end", " "]),
            ("\tb\u{a0}c", vec!["\t", "b", "\u{a0}", "c"]),
            ("Grüße 漢字!?", vec!["Grüße", " 漢字", "!?"]),
        ] {
            assert_eq!(Words::Gpt2.split(text), words, "{text:?}");
        }
        assert_eq!(Words::Spaces.split(" a bc  d"), [" a", " bc", " ", " d"]);
        assert_eq!(Words::Spaces.split("éa b"), ["éa", " b"]);
        assert_eq!(Words::None.split(" a b"), [" a b"]);
    }
}

//! Small rules of *English*: articles, plurals, capitals. They know letters, not stories.

/// Whether a word is said with a vowel first, so that it takes *an*. By letter, with the exceptions the corpus needs.
fn begins_with_vowel(word: &str) -> bool {
    const CONSONANT: [&str; 6] = ["one", "once", "uni", "use", "usual", "eu"];
    const VOWEL: [&str; 2] = ["hour", "honest"];
    let word = word.to_ascii_lowercase();
    if VOWEL.iter().any(|start| word.starts_with(start)) {
        return true;
    }
    word.starts_with(['a', 'e', 'i', 'o', 'u']) && !CONSONANT.iter().any(|start| word.starts_with(start))
}

/// `a ball`, `an apple`.
pub fn with_article(word: &str) -> String {
    format!("{} {word}", if begins_with_vowel(word) { "an" } else { "a" })
}

/// The regular plural of the last word.
pub fn plural(word: &str) -> String {
    let ends = |endings: &[&str]| endings.iter().any(|ending| word.ends_with(ending));
    let before_y = word.chars().rev().nth(1);
    if word.ends_with('y') && !before_y.is_some_and(|letter| "aeiou".contains(letter)) {
        format!("{}ies", &word[..word.len() - 1])
    } else if ends(&["s", "x", "ch", "sh"]) {
        format!("{word}es")
    } else {
        format!("{word}s")
    }
}

pub fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Puts a told line in order: single spaces, none before a full stop; *an* before vowels; a capital for the first letter
/// of the line, of a sentence, and of a quotation.
pub fn tidy(line: &str) -> String {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    for i in 0..words.len().saturating_sub(1) {
        let article = words[i].trim_start_matches('"').to_string();
        let next = words[i + 1].trim_start_matches('"');
        if article.eq_ignore_ascii_case("a") && begins_with_vowel(next) {
            words[i].push('n');
        } else if article.eq_ignore_ascii_case("an") && !begins_with_vowel(next) {
            words[i].pop();
        }
    }
    let text = words.join(" ").replace(" .", ".").replace(" ,", ",").replace(" !", "!").replace(" ?", "?");
    let mut tidied = String::with_capacity(text.len());
    let mut capital = true;
    let mut quoted = false;
    let mut last = ' ';
    for letter in text.chars() {
        if letter == '"' {
            quoted = !quoted;
            // A quotation's own first letter; after its end, the writer decides.
            capital = quoted;
        } else if letter.is_alphanumeric() {
            if capital {
                tidied.extend(letter.to_uppercase());
            } else {
                tidied.push(letter);
            }
            capital = false;
            last = letter;
            continue;
        } else if letter == ' ' && matches!(last, '.' | '!' | '?') {
            capital = true;
        }
        last = letter;
        tidied.push(letter);
    }
    tidied
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn articles_follow_the_sound() {
        assert_eq!(tidy("a apple and an pear, a old hat, an one"), "An apple and a pear, an old hat, a one");
        assert_eq!(with_article("umbrella"), "an umbrella");
        assert_eq!(with_article("useful rope"), "a useful rope");
    }

    #[test]
    fn capitals_begin_lines_sentences_and_quotations() {
        let told = "tom said, \"look!  it is here .\" he ran. then \"yes,\" said ann. \"come!\" she sang.";
        let tidied = "Tom said, \"Look! It is here.\" he ran. Then \"Yes,\" said ann. \"Come!\" she sang.";
        assert_eq!(tidy(told), tidied);
    }

    #[test]
    fn plurals() {
        let plurals = ["box", "berry", "key", "ball", "brush", "bus"].map(plural);
        assert_eq!(plurals, ["boxes", "berries", "keys", "balls", "brushes", "buses"]);
    }
}

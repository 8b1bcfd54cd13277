//! The *copy rate* says how well a model keeps to a name that was made up for one story, when it writes on by itself.

use std::collections::BTreeSet;
use std::rc::Rc;

use anyhow::Result;
use inferscope_core::{Model, Tokenizer};
use inferscope_trace::Sampling;

use super::writing::write;

/// The beginning of a story that introduces a name.
pub struct Introduction {
    pub prompt: String,
    pub name: String,
}

/// Of the names in continuations that no story of the corpus has as a word, the part that is the introduced name, letter
/// by letter, or nothing if there were none. Also how many there were.
pub fn copy_rate(
    model: &Rc<Model>,
    tokenizer: &Tokenizer,
    introductions: &[Introduction],
    words: &BTreeSet<String>,
    temperature: f64,
) -> Result<(Option<f64>, usize)> {
    let (mut copied, mut all) = (0, 0);
    for (seed, Introduction { prompt, name }) in introductions.iter().enumerate() {
        let sampling = Sampling::default().with("temperature", temperature);
        let mut text = write(model, tokenizer, prompt, 160, sampling, seed as u32)?;
        // The last word may be cut off in the middle.
        text.truncate(text.rfind(|c: char| !c.is_alphabetic()).unwrap_or(0));
        for found in made_up(&text, words) {
            all += 1;
            copied += usize::from(found == name);
        }
    }
    Ok(((all > 0).then(|| copied as f64 / all as f64), all))
}

/// Words with a capital that the corpus does not have.
fn made_up<'a>(text: &'a str, words: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let word = |part: &'a str| part.split('\'').next().unwrap_or(part);
    text.split(|c: char| !c.is_alphabetic() && c != '\'')
        .map(word)
        .filter(|word| word.starts_with(|c: char| c.is_uppercase()) && !words.contains(&word.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_capitalized_words_are_made_up() {
        let words = ["the", "dog", "tom"].map(String::from).into();
        let found: Vec<&str> = made_up("The dog saw Zumo's hat. \"Zumoo!\" Tom said. zork", &words).collect();
        assert_eq!(found, ["Zumo", "Zumoo"]);
    }
}

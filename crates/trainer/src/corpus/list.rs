//! A *list* holds the things of one kind that stories can be about, each an *entry*: its words, tags, and attributes with
//! alternatives. It knows nothing of stories.

use std::collections::BTreeMap;

use super::CorpusError;
use super::template::{self, Template};

#[derive(Clone, Debug)]
pub struct Entry {
    pub word: String,
    pub tags: Vec<String>,
    pub attributes: BTreeMap<String, Vec<Template>>,
}

impl Entry {
    pub fn has(&self, tag: &str) -> bool {
        self.tags.iter().any(|own| own == tag)
    }
}

/// By name; each with its entries in the order of the file.
pub type Lists = BTreeMap<String, Vec<Entry>>;

/// Adds the lists of a file.
pub fn parse(file: &str, text: &str, lists: &mut Lists) -> Result<(), CorpusError> {
    let mut current: Option<&mut Vec<Entry>> = None;
    for (index, line) in text.lines().enumerate() {
        let fail = |message: String| CorpusError::new(file, index + 1, message);
        let line = line.trim();
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            if lists.contains_key(name) {
                return Err(fail(format!("there are two lists called {name}")));
            }
            current = Some(lists.entry(name.to_string()).or_default());
            continue;
        }
        let list = current.as_mut().ok_or_else(|| fail("an entry stands before the first list's name".into()))?;
        match line.split_once('|') {
            None => list.extend(alternatives(line).map(plain)),
            Some((word, fields)) => list.push(with_fields(word.trim(), fields).map_err(fail)?),
        }
    }
    Ok(())
}

fn plain(word: &str) -> Entry {
    Entry { word: word.to_string(), tags: Vec::new(), attributes: BTreeMap::new() }
}

fn with_fields(word: &str, fields: &str) -> Result<Entry, String> {
    let mut entry = plain(word);
    for field in fields.split('|') {
        match field.split_once(':') {
            None => entry.tags.extend(field.split_whitespace().map(str::to_string)),
            Some((name, values)) => {
                let values: Result<Vec<Template>, String> = alternatives(values).map(template::parse).collect();
                entry.attributes.insert(name.trim().to_string(), values?);
            }
        }
    }
    Ok(entry)
}

fn alternatives(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// How often the entry at `index` is picked, relative to others. As in real language few words are frequent and many are
/// rare: what is picked falls with the power 2.5 of the place in the list, so the first is picked nearly six times as often
/// as the fifth. (A square root is the same on all machines; other powers of a fraction need not be.)
pub fn weight(index: usize) -> u32 {
    let rank = (index + 4) as f64;
    (4e7 / (rank * rank * rank.sqrt())) as u32
}

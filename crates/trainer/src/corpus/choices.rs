//! *Choices* are all that is random in a story. Every choice goes through here, so that their sum is known: how many nats
//! of choice a story has is what a perfect model of the corpus would still not know.

use super::CorpusError;
use super::list::{self, Entry, Lists};
use super::random::Random;
use super::template::{Node, Template};

pub struct Choices {
    random: Random,
    /// −ln of the probability of everything chosen so far.
    nats: f64,
}

impl Choices {
    pub fn new(random: Random) -> Self {
        Self { random, nats: 0.0 }
    }

    pub fn nats(&self) -> f64 {
        self.nats
    }

    /// One of `n`, evenly.
    pub fn below(&mut self, n: u32) -> u32 {
        self.nats += f64::from(n).ln();
        self.random.below(n)
    }

    /// The index of one weight, in proportion.
    ///
    /// # Panics
    /// When the weights are all 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let sum: u32 = weights.iter().sum();
        let mut drawn = self.random.below(sum);
        let chosen = weights
            .iter()
            .position(|&weight| match drawn.checked_sub(weight) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            })
            .expect("what is drawn is less than the sum");
        self.nats += (f64::from(sum) / f64::from(weights[chosen])).ln();
        chosen
    }

    /// True in `n` of 100 cases.
    pub fn percent(&mut self, n: u32) -> bool {
        self.weighted(&[n, 100 - n]) == 0
    }

    /// An entry of a list, with a tag, and none of those whose words are in `but`.
    pub fn entry<'a>(
        &mut self,
        lists: &'a Lists,
        name: &str,
        tag: Option<&str>,
        but: &[&str],
    ) -> Result<&'a Entry, CorpusError> {
        let list = lists.get(name).ok_or_else(|| CorpusError::told(format!("there is no list {name}")))?;
        let weights: Vec<u32> = list
            .iter()
            .enumerate()
            .map(|(index, entry)| {
                let fits = tag.is_none_or(|tag| entry.has(tag)) && !but.contains(&entry.word.as_str());
                if fits { list::weight(index) } else { 0 }
            })
            .collect();
        if weights.iter().all(|&weight| weight == 0) {
            let tag = tag.map(|tag| format!(" with the tag {tag}")).unwrap_or_default();
            return Err(CorpusError::told(format!("the list {name} has no (other) entry{tag}")));
        }
        Ok(&list[self.weighted(&weights)])
    }

    /// One alternative of an entry's attribute that is plain text.
    pub fn attribute(&mut self, entry: &Entry, name: &str) -> Result<String, CorpusError> {
        match &self.attribute_template(entry, name)?[..] {
            [Node::Text(text)] => Ok(text.clone()),
            _ => Err(CorpusError::told(format!("the attribute {name} of {} must be plain text", entry.word))),
        }
    }

    pub fn attribute_template<'a>(&mut self, entry: &'a Entry, name: &str) -> Result<&'a Template, CorpusError> {
        let values = entry
            .attributes
            .get(name)
            .filter(|values| !values.is_empty())
            .ok_or_else(|| CorpusError::told(format!("{:?} has no attribute {name}", entry.word)))?;
        Ok(&values[self.below(values.len() as u32) as usize])
    }
}

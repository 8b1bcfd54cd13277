//! A *report* says what a corpus is like, counted over many of its stories.

use std::collections::{BTreeMap, BTreeSet};

use super::{CorpusError, Library, Story};

pub struct PlotReport {
    pub plot: String,
    /// Means over the stories told.
    pub words: f64,
    pub tokens: f64,
    /// Of choice, for each token.
    pub nats_per_token: f64,
    /// Part of the stories with more tokens than fit behind BOS in the context.
    pub too_long: f64,
    /// Words that no other plot has.
    pub own_words: usize,
}

pub struct Report {
    pub plots: Vec<PlotReport>,
    /// Different words in all, without regard to capitals, names that were made up left out.
    pub word_types: usize,
    /// Part of the stories in which a made-up name occurs.
    pub invented: f64,
}

/// Tells `stories` stories of each plot and counts. `tokens` says how many tokens a text has, and `context` how many the
/// models see, BOS among them.
///
/// # Errors
/// The first thing that can not be told.
pub fn report(
    library: &Library,
    stories: u64,
    seed: u64,
    tokens: impl Fn(&str) -> usize,
    context: usize,
) -> Result<Report, CorpusError> {
    let mut words_of: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut plots = Vec::new();
    let mut invented = 0u64;
    for plot in library.plot_names() {
        let (mut n_words, mut n_tokens, mut too_long, mut nats) = (0, 0, 0, 0.0);
        for index in 0..stories {
            let story = library.story_of(plot, seed, index)?;
            invented += u64::from(story.invented_name.is_some());
            let words = words(&story);
            n_words += words.len();
            let length = tokens(&story.text);
            n_tokens += length;
            too_long += u64::from(length >= context);
            nats += story.nats;
            words_of.entry(plot).or_default().extend(words);
        }
        let mean = |sum: f64| sum / stories as f64;
        plots.push(PlotReport {
            plot: plot.to_string(),
            words: mean(n_words as f64),
            tokens: mean(n_tokens as f64),
            nats_per_token: nats / n_tokens as f64,
            too_long: mean(too_long as f64),
            own_words: 0,
        });
    }
    for report in &mut plots {
        let others: BTreeSet<&String> =
            words_of.iter().filter(|(plot, _)| **plot != report.plot).flat_map(|(_, words)| words).collect();
        report.own_words = words_of[report.plot.as_str()].iter().filter(|word| !others.contains(word)).count();
    }
    let all: BTreeSet<&String> = words_of.values().flatten().collect();
    Ok(Report { word_types: all.len(), invented: invented as f64 / (stories * plots.len() as u64) as f64, plots })
}

/// In lower case, without punctuation and without the made-up name.
fn words(story: &Story) -> Vec<String> {
    let word = |part: &str| {
        let part = part.trim_matches(|c: char| !c.is_alphanumeric());
        part.strip_suffix("'s").unwrap_or(part).to_ascii_lowercase()
    };
    let invented = story.invented_name.as_deref().map(word);
    story.text.split_whitespace().map(word).filter(|word| !word.is_empty() && Some(word) != invented.as_ref()).collect()
}

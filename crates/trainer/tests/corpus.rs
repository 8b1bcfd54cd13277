//! What every corpus of these texts must be like, and the very bytes that this one begins with.

use std::collections::BTreeSet;

use inferscope_trainer::corpus::{self, Library, Story};
use inferscope_trainer::stories::{self, TRAINING_SEED};
use sha2::{Digest, Sha256};

fn stories(count: u64) -> impl Iterator<Item = Story> {
    let library = Library::built_in();
    (0..count).map(move |index| library.story(TRAINING_SEED, index))
}

/// Weights that ship were trained on these stories and no others. A change of the texts or the program that changes a byte
/// of them asks for new weights, and then for a new hash here.
#[test]
fn the_first_two_megabytes_are_pinned() {
    let mut bytes = Vec::new();
    for story in stories(u64::MAX) {
        bytes.extend(story.text.as_bytes());
        bytes.extend(b"\n\n");
        if bytes.len() >= 2_000_000 {
            break;
        }
    }
    let hash: String = Sha256::digest(&bytes[..2_000_000]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, include_str!("corpus.sha256").trim());
}

#[test]
fn the_tokenizer_that_ships_is_learned_again_byte_for_byte() {
    let shipped = include_bytes!("../../../static/model/story.tokenizer.bin");
    assert!(stories::tokenizer_file(&Library::built_in()) == shipped, "the tokenizer has changed");
}

#[test]
fn the_corpus_is_as_rich_as_it_says() {
    let library = Library::built_in();
    let report = corpus::report(&library, 400, 7, |text| text.len(), stories::CONTEXT).unwrap();
    assert!(report.plots.len() >= 30, "{} plots", report.plots.len());
    assert!((2_000..=2_400).contains(&report.word_types), "{} different words", report.word_types);
    let with_name = stories(4_000).filter(|story| story.invented_name.is_some()).count() as f64 / 4_000.0;
    assert!((0.20..=0.25).contains(&with_name), "{with_name} of the stories have a made-up name");
    let count = library.count();
    assert!(count.fillers >= 80, "{} kinds of filler sentence", count.fillers);
    assert!(count.objects >= 60, "{} objects", count.objects);
}

#[test]
fn stories_are_clean_english_as_far_as_letters_tell() {
    let vowel = |word: &str| word.starts_with(['a', 'e', 'i', 'o']);
    for story in stories(3_000) {
        let text = &story.text;
        let fault = |what: &str| panic!("{what} in a story of {}:\n{text}", story.plot);
        if text.contains(['<', '>', '[', ']', '{', '}', '|', '#', '*']) {
            fault("a sign of the rules");
        }
        if ["  ", " .", " ,", "..", ",,", ",.", "!.", "?.", ".!", "!!", "??"].iter().any(|signs| text.contains(signs)) {
            fault("wrong punctuation");
        }
        for paragraph in text.lines() {
            if paragraph.matches('"').count() % 2 == 1 {
                fault("a quotation without an end");
            }
            if !paragraph.ends_with(['.', '!', '?', '"']) {
                fault("a paragraph without an end");
            }
            if !paragraph.starts_with(|first: char| first.is_uppercase() || first == '"') {
                fault("a paragraph that begins small");
            }
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        for pair in words.windows(2) {
            let bare = pair[1].trim_start_matches('"').to_lowercase();
            match pair[0].trim_start_matches('"').to_lowercase().as_str() {
                "a" if vowel(&bare) && !bare.starts_with("one") => fault("\"a\" before a vowel"),
                "an" if !vowel(&bare)
                    && !bare.starts_with('u')
                    && !bare.starts_with("hour")
                    && !bare.starts_with("honest") =>
                {
                    fault("\"an\" before a consonant")
                }
                first if first == bare && first.chars().all(char::is_alphabetic) => fault("a word twice"),
                _ => {}
            }
        }
    }
}

#[test]
fn no_story_is_told_twice() {
    let texts: BTreeSet<String> = stories(3_000).map(|story| story.text).collect();
    assert_eq!(texts.len(), 3_000);
}

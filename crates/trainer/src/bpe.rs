//! *Byte-pair encoding* (Sennrich et al. 2016) learns a vocabulary: it begins with single bytes and joins the pair of
//! neighbours that is most frequent in the corpus, again and again. A word takes the space before it along, and joins stay
//! within a word, so a piece never holds parts of two.
//!
//! It yields a tokenizer file; splitting text with it is core's work.

use std::collections::BTreeMap;

/// Control tokens, then one token a byte.
const CONTROL: [&str; 3] = ["<unk>", "<s>", "</s>"];
const FIRST_JOINED: usize = CONTROL.len() + 256;

/// Counts words of any number of texts.
#[derive(Default)]
pub struct WordCounts {
    counts: BTreeMap<Vec<u8>, u64>,
}

impl WordCounts {
    pub fn add(&mut self, text: &str) {
        for word in words(text) {
            match self.counts.get_mut(word.as_bytes()) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(word.as_bytes().to_vec(), 1);
                }
            }
        }
    }
}

/// The words of a text, each with one space before it where there is one: letters, a possessive ending, a digit, a line
/// break, or signs in a row. Together they are the text.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (word, after) = rest.split_at(word_length(rest)?);
        rest = after;
        Some(word)
    })
}

fn word_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let space = usize::from(bytes.first()? == &b' ');
    let run = |accepts: fn(u8) -> bool| bytes[space..].iter().take_while(|&&byte| accepts(byte)).count();
    let length = match bytes.get(space) {
        None => 0,
        Some(b'\n') if space == 0 => 1,
        Some(b'\n' | b' ') => 0,
        Some(b'\'') if space == 0 && bytes.get(1) == Some(&b's') => 2,
        Some(byte) if byte.is_ascii_alphabetic() => run(|byte| byte.is_ascii_alphabetic()),
        Some(byte) if byte.is_ascii_digit() => 1,
        Some(byte) if byte.is_ascii() => run(|byte| byte.is_ascii_punctuation()).max(1),
        Some(_) => run(|byte| !byte.is_ascii()),
    };
    Some(space + length)
}

/// Learns pieces until there are `vocab_size` tokens, and writes the tokenizer file in the layout of llama2.c: the length
/// of the longest piece, then for each token its score, length and bytes. The token of a byte is its character where it has
/// one, and its name (`<0x0A>`) where not; pieces that were joined earlier have better scores.
///
/// Of pairs that are equally frequent, the first in the order of their bytes is joined.
///
/// # Panics
/// When `vocab_size` has no room for the bytes, or the words have fewer pairs than it asks for.
pub fn train(counts: &WordCounts, vocab_size: usize) -> Vec<u8> {
    assert!(vocab_size >= FIRST_JOINED, "the vocabulary needs {FIRST_JOINED} tokens for single bytes alone");
    let mut pieces: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let mut words: Vec<(Vec<usize>, u64)> = counts
        .counts
        .iter()
        .map(|(word, &count)| (word.iter().map(|&byte| usize::from(byte)).collect(), count))
        .collect();
    let mut pairs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (word, count) in &words {
        word.windows(2).for_each(|pair| *pairs.entry((pair[0], pair[1])).or_default() += count);
    }
    while CONTROL.len() + pieces.len() < vocab_size {
        let order = |pair: &(usize, usize)| (pieces[pair.0].clone(), pieces[pair.1].clone());
        let most = pairs.values().copied().max().expect("there are pairs left to join");
        let best = pairs.iter().filter(|(_, count)| **count == most).map(|(pair, _)| *pair).min_by_key(order);
        let best = best.expect("found above");
        let joined = [pieces[best.0].as_slice(), &pieces[best.1]].concat();
        assert!(most > 0, "there are pairs left to join");
        // Two pairs may make the same piece. It becomes one token, and both pairs join to it.
        let token = pieces.iter().position(|piece| *piece == joined).unwrap_or(pieces.len());
        if token == pieces.len() {
            pieces.push(joined);
        }
        for (word, count) in &mut words {
            if word.windows(2).any(|pair| (pair[0], pair[1]) == best) {
                word.windows(2).for_each(|pair| *pairs.get_mut(&(pair[0], pair[1])).expect("counted") -= *count);
                join(word, best, token);
                word.windows(2).for_each(|pair| *pairs.entry((pair[0], pair[1])).or_default() += *count);
            }
        }
    }
    write(&pieces)
}

fn join(word: &mut Vec<usize>, pair: (usize, usize), token: usize) {
    let mut joined = Vec::with_capacity(word.len());
    let mut at = 0;
    while at < word.len() {
        if at + 1 < word.len() && (word[at], word[at + 1]) == pair {
            joined.push(token);
            at += 2;
        } else {
            joined.push(word[at]);
            at += 1;
        }
    }
    *word = joined;
}

fn write(pieces: &[Vec<u8>]) -> Vec<u8> {
    let control = CONTROL.iter().map(|name| (0.0, name.as_bytes().to_vec()));
    let bytes = (0..=255u8).map(|byte| match byte {
        b' '..=b'~' | b'\n' => (0.0, vec![byte]),
        _ => (0.0, format!("<0x{byte:02X}>").into_bytes()),
    });
    let joined = pieces[256..].iter().enumerate().map(|(rank, piece)| (0.0 - rank as f32, piece.clone()));
    let tokens: Vec<(f32, Vec<u8>)> = control.chain(bytes).chain(joined).collect();
    let longest = tokens.iter().map(|(_, piece)| piece.len()).max().unwrap_or(0);
    let mut file = (longest as i32).to_le_bytes().to_vec();
    for (score, piece) in tokens {
        file.extend(score.to_le_bytes());
        file.extend((piece.len() as i32).to_le_bytes());
        file.extend(piece);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use inferscope_core::Tokenizer;

    #[test]
    fn words_are_the_whole_text() {
        let text = "Tom's dog said, \"Woof!\"\nThen 12 é  ran .  ";
        assert_eq!(words(text).collect::<String>(), text);
        let expected =
            ["Tom", "'s", " dog", " said", ",", " \"", "Woof", "!\"", "\n", "Then", " 1", "2", " é", " ", " ran"];
        assert_eq!(words(text).take(expected.len()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn frequent_words_become_one_token() {
        let mut counts = WordCounts::default();
        (0..20).for_each(|_| counts.add(" the cat sat on the mat"));
        let file = train(&counts, FIRST_JOINED + 6);
        let tokenizer = Tokenizer::parse(&file, FIRST_JOINED + 6).unwrap();
        let labels: Vec<String> =
            tokenizer.encode("the cat").iter().map(|&id| tokenizer.vocabulary().label(id)).collect();
        assert_eq!(labels[1], " the");
        assert!(labels.len() < 7, "{labels:?}");
    }

    /// Every character and every byte has its place, whatever the corpus was.
    #[test]
    fn any_text_survives() {
        let mut counts = WordCounts::default();
        counts.add("a few words, and a few more");
        let size = FIRST_JOINED + 4;
        let tokenizer = Tokenizer::parse(&train(&counts, size), size).unwrap();
        for text in ["Größe 東京 🦊", "tab\tand\r\nbreaks", "  two  spaces ", "<0x41> <s> </s>", "\u{0}\u{7f}", "a few"]
        {
            assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
        }
    }
}

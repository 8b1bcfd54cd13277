//! *Speech* gets its quotation marks here, and the words that say who speaks and how.

use super::CorpusError;
use super::story::Teller;

/// In how many of 100 attributions it is also said how.
const MANNER: u32 = 40;
/// In how many of 100 cases somebody who was just named is called by a pronoun.
const PRONOUN: u32 = 60;

/// `Look!` as A's words: `"Look!" cried Tom.`, `Tom cried, "Look!"` and so on.
pub(super) fn attribute(teller: &mut Teller, speaker: &str, words: &str) -> Result<String, CorpusError> {
    let words = words.trim();
    if words.is_empty() {
        return Err(CorpusError::told(format!("{speaker} says nothing")));
    }
    let ended = if words.ends_with(['.', '!', '?']) { words.to_string() } else { format!("{words}.") };
    let (name, pronoun) = teller.speaker(speaker)?;
    teller.name_speaker(speaker);
    // In a dialogue of two, whose turn it is goes without saying, now and then.
    let turns = teller.speakers.as_slice();
    let in_turn = matches!(turns, [.., before, last] if before == speaker && last != speaker);
    let first_end = ended.find(['.', '!', '?']).filter(|end| end + 1 < ended.len() && &ended[end + 1..=end + 1] == " ");
    let weights = [4, 1, 3, if first_end.is_some() { 3 } else { 0 }, if in_turn { 3 } else { 0 }];
    let form = teller.choices.weighted(&weights);
    if form == 4 {
        return Ok(format!("\"{ended}\""));
    }
    let meant = teller.last_named.as_deref() == Some(speaker);
    let by_pronoun = meant && teller.choices.percent(PRONOUN);
    let who = if by_pronoun { pronoun } else { name.as_str() };
    // Only the part before the attribution decides on the verb.
    let (first, rest) = match (form, first_end) {
        (3, Some(end)) => (&ended[..=end], Some(ended[end + 1..].trim_start())),
        _ => (ended.as_str(), None),
    };
    let verb = verb(teller, first);
    let shouted = first.ends_with('!');
    let manner =
        if !shouted && teller.choices.percent(MANNER) { format!(" {}", teller.manner()?.word) } else { String::new() };
    let before = match first.strip_suffix('.') {
        Some(open) => format!("{open},"),
        None => first.to_string(),
    };
    let attributed = match (form, by_pronoun) {
        (2, _) => return Ok(format!("{who} {verb}{manner}, \"{ended}\"")),
        (1, _) | (_, true) => format!("\"{before}\" {who} {verb}{manner}."),
        _ => format!("\"{before}\" {verb} {who}{manner}."),
    };
    Ok(match rest {
        Some(rest) => format!("{attributed} \"{rest}\""),
        None => attributed,
    })
}

fn verb(teller: &mut Teller, words: &str) -> &'static str {
    let answers = !teller.speakers.is_empty();
    let verbs: &[(&str, u32)] = match words.chars().last() {
        Some('?') => &[("asked", 6), ("wondered", 3), ("said", 2), ("whispered", 2), ("called", 1)],
        Some('!') => &[("cried", 3), ("said", 3), ("shouted", 3), ("called", 3), ("yelled", 1), ("answered", 1)],
        _ if answers => &[("said", 4), ("answered", 3), ("replied", 3), ("whispered", 2), ("added", 2), ("mumbled", 1)],
        _ => &[("said", 4), ("whispered", 2), ("murmured", 2), ("explained", 2), ("began", 1), ("declared", 1)],
    };
    let weights: Vec<u32> = verbs.iter().map(|(_, weight)| *weight).collect();
    verbs[teller.choices.weighted(&weights)].0
}

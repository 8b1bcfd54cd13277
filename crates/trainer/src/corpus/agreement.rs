//! *Agreement*: the words that follow from who or what something is: pronouns, verb forms, articles, plurals.

use super::cast::{Gender, Person};
use super::english;
use super::list::Entry;

/// What `<A.attribute>` says of a person; nothing if there is no such attribute.
pub(super) fn of_person(person: &Person, attribute: Option<&str>) -> Option<String> {
    let Some(attribute) = attribute else { return Some(person.name.clone()) };
    Some(match attribute {
        "kind" | "word" => person.kind.clone(),
        "trait" => person.r#trait.clone(),
        "call" => person.call.clone(),
        "new" => format!("{} named {}", english::with_article(&person.kind), person.name),
        _ => pronoun(person.gender, attribute)?,
    })
}

fn pronoun(gender: Gender, attribute: &str) -> Option<String> {
    let lower = attribute.to_ascii_lowercase();
    let pronoun = gender.pronoun(&lower)?;
    Some(if lower == attribute { pronoun.to_string() } else { english::capitalized(pronoun) })
}

/// Words that follow from an entry's tags alone; nothing if the attribute is not one of them.
pub(super) fn of_entry(entry: &Entry, attribute: &str) -> Option<String> {
    let many = entry.has("many");
    let by_number = |one: &str, more: &str| Some(if many { more.to_string() } else { one.to_string() });
    match attribute {
        "is" => by_number("is", "are"),
        "was" => by_number("was", "were"),
        "has" => by_number("has", "have"),
        "it" => by_number("it", "they"),
        "them" => by_number("it", "them"),
        "this" => by_number("this", "these"),
        "s" => by_number("s", ""),
        "word" => Some(entry.word.clone()),
        "a" if many || entry.has("some") => Some(entry.word.clone()),
        "a" => Some(english::with_article(&entry.word)),
        "plural" if many => Some(entry.word.clone()),
        "plural" if !entry.attributes.contains_key("plural") => Some(english::plural(&entry.word)),
        _ => pronoun(Gender::of(entry), attribute),
    }
}

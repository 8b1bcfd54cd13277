//! The *cast* of a story: who is in it, what they are called, and which pronouns they take.

use super::CorpusError;
use super::choices::Choices;
use super::english::capitalized;
use super::list::{Entry, Lists};

/// Somebody with a name or, as a grown-up or a stranger, with words that stand for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// As it is written wherever it is named: `Tom`, `her grandma`.
    pub name: String,
    /// `girl`, `fox`, `grandma`
    pub kind: String,
    pub r#trait: String,
    /// How others call this one.
    pub call: String,
    pub gender: Gender,
    pub animal: bool,
    /// The name was made up for this story.
    pub invented: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gender {
    Female,
    Male,
    /// Of things and of animals met by the way.
    Neuter,
}

impl Gender {
    pub fn of(entry: &Entry) -> Self {
        match () {
            () if entry.has("f") => Self::Female,
            () if entry.has("m") => Self::Male,
            () => Self::Neuter,
        }
    }

    /// The pronoun asked for by its masculine form.
    pub fn pronoun(self, asked: &str) -> Option<&'static str> {
        let [he, him, his] = match self {
            Self::Female => ["she", "her", "her"],
            Self::Male => ["he", "him", "his"],
            Self::Neuter => ["it", "it", "its"],
        };
        match asked {
            "he" => Some(he),
            "him" => Some(him),
            "his" => Some(his),
            _ => None,
        }
    }
}

/// In how many of 100 stories a name is made up for the hero, and in how many others for the friend.
const INVENTED_HERO: u32 = 18;
const INVENTED_FRIEND: u32 = 4;

/// The hero, the friend, somebody else, and a grown-up of the hero's family.
pub struct Cast {
    pub hero: Person,
    pub friend: Person,
    pub other: Person,
    pub grown_up: Person,
}

impl Cast {
    pub fn choose(lists: &Lists, choices: &mut Choices) -> Result<Self, CorpusError> {
        let invented = choices.below(100);
        let hero = person(lists, choices, invented < INVENTED_HERO, &[])?;
        let friend_invented = (INVENTED_HERO..INVENTED_HERO + INVENTED_FRIEND).contains(&invented);
        let friend = person(lists, choices, friend_invented, &[&hero])?;
        let other = person(lists, choices, false, &[&hero, &friend])?;
        let adult = choices.entry(lists, "adult", None, &[])?;
        let gender = Gender::of(adult);
        let grown_up = Person {
            name: format!("{} {}", hero.gender.pronoun("his").unwrap_or("its"), adult.word),
            kind: adult.word.clone(),
            r#trait: String::new(),
            call: capitalized(&adult.word),
            gender,
            animal: false,
            invented: false,
        };
        Ok(Self { hero, friend, other, grown_up })
    }
}

fn person(lists: &Lists, choices: &mut Choices, invent: bool, others: &[&Person]) -> Result<Person, CorpusError> {
    let r#trait = choices.entry(lists, "trait", None, &[])?.word.clone();
    let (kind, gender, animal) = match choices.below(100) {
        0..45 => ("girl".to_string(), Gender::Female, false),
        45..90 => ("boy".to_string(), Gender::Male, false),
        _ => {
            let kind = choices.entry(lists, "kind", None, &[])?;
            let gender = if choices.below(2) == 0 { Gender::Female } else { Gender::Male };
            (kind.word.clone(), gender, true)
        }
    };
    let name = loop {
        let name = if invent {
            invented_name(lists, choices)
        } else if animal {
            let kinds = &lists["kind"];
            let entry = kinds.iter().find(|entry| entry.word == kind).expect("chosen from this list");
            choices.attribute(entry, "name")?
        } else {
            choices.entry(lists, &kind, None, &[])?.word.clone()
        };
        if others.iter().all(|other| other.name != name) {
            break name;
        }
    };
    Ok(Person { call: name.clone(), name, kind, r#trait, gender, animal, invented: invent })
}

const ONSETS: [&str; 12] = ["b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "t", "z"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
const ENDINGS: [&str; 8] = ["a", "o", "i", "u", "a", "o", "an", "il"];

/// A name that nobody has: two syllables, so that it takes a model two or three tokens.
fn invented_name(lists: &Lists, choices: &mut Choices) -> String {
    loop {
        let mut name = String::new();
        for vowels in [&VOWELS[..], &ENDINGS[..]] {
            name.push_str(ONSETS[choices.below(ONSETS.len() as u32) as usize]);
            name.push_str(vowels[choices.below(vowels.len() as u32) as usize]);
        }
        let unfit = lists.get("not_a_name").is_some_and(|list| list.iter().any(|entry| name.contains(&entry.word)));
        if !unfit {
            return capitalized(&name);
        }
    }
}

//! A *story* is what the teller makes of the frame, one plot, and a random stream. The teller keeps what has been said of
//! whom, so that later sentences agree with earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use super::CorpusError;
use super::agreement;
use super::cast::{Cast, Gender, Person};
use super::choices::Choices;
use super::english;
use super::library::Library;
use super::list::Entry;
use super::random::Random;
use super::script::{Condition, Content, Line, Plot, Slot};
use super::speech;
use super::template::{Node, Template};

#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Paragraphs, with a line break between two.
    pub text: String,
    pub plot: String,
    /// The name that was made up for this story, if it occurs in it.
    pub invented_name: Option<String>,
    /// How much was chosen: −ln of the probability of all choices, in nats. Two rows of choices can lead to one text, so
    /// the text itself is at least this likely.
    pub nats: f64,
}

/// Something that the story remembers under a name.
#[derive(Clone)]
enum Thing<'a> {
    Person(Person),
    Entry { list: &'a str, entry: &'a Entry },
    Words(String),
}

const MAX_FILLERS: usize = 5;
/// Before how many of 100 sentences of a plot a filler comes.
const FILLER: u32 = 95;
/// In how many of 100 stories more is said of the hero before the plot, and something after it. A story should fit into
/// the context of the models, and the plot is what must not be cut off.
const ABOUT: u32 = 15;
const CLOSING: u32 = 20;
/// In how many of 100 places where a paragraph may end it does.
const PARAGRAPH: u32 = 65;
/// In how many of 100 places a pronoun stands for the one named last.
const PRONOUN: u32 = 65;

pub(super) struct Teller<'a> {
    library: &'a Library,
    pub(super) choices: Choices,
    things: BTreeMap<String, Thing<'a>>,
    flags: BTreeSet<String>,
    /// By their names here, like `A`: who was named at all, and who last, which a pronoun would mean.
    named: BTreeSet<String>,
    pub(super) last_named: Option<String>,
    /// Who spoke in the last slots, up to the last that was no speech.
    pub(super) speakers: Vec<String>,
    told_fillers: BTreeSet<usize>,
    paragraphs: Vec<Vec<String>>,
}

/// Tells one story.
pub(super) fn tell(library: &Library, plot: &Plot, random: Random) -> Result<Story, CorpusError> {
    let mut choices = Choices::new(random);
    let cast = Cast::choose(&library.lists, &mut choices).map_err(|error| error.at("the cast"))?;
    let invented = [&cast.hero, &cast.friend].into_iter().find(|person| person.invented).map(|one| one.name.clone());
    let mut teller = Teller::new(library, choices, cast);
    let place = format!("plots/{}.txt", plot.name);
    teller.bind_head(plot).map_err(|error| error.at(&place))?;
    teller.frame_slots(&library.frame.opening)?;
    if teller.choices.percent(ABOUT) {
        teller.frame_slots(&library.frame.about)?;
    }
    if plot.friend {
        teller.frame_slots(&library.frame.friend)?;
    }
    teller.paragraphs.push(Vec::new());
    teller.last_named = None;
    for slot in &plot.slots {
        teller.slot(slot, true).map_err(|error| error.at(&place))?;
    }
    if teller.choices.percent(CLOSING) {
        teller.frame_slots(&library.frame.closing)?;
    }
    let text = teller.text();
    let invented_name = invented.filter(|name| text.contains(name.as_str()));
    Ok(Story { text, plot: plot.name.clone(), invented_name, nats: teller.choices.nats() })
}

impl<'a> Teller<'a> {
    fn new(library: &'a Library, choices: Choices, cast: Cast) -> Self {
        let people = [("A", cast.hero), ("B", cast.friend), ("C", cast.other), ("M", cast.grown_up)];
        Self {
            library,
            choices,
            things: people.map(|(name, person)| (name.to_string(), Thing::Person(person))).into(),
            flags: BTreeSet::new(),
            named: BTreeSet::new(),
            last_named: None,
            speakers: Vec::new(),
            told_fillers: BTreeSet::new(),
            paragraphs: vec![Vec::new()],
        }
    }

    /// What a plot's head binds, and then what every story has.
    fn bind_head(&mut self, plot: &'a Plot) -> Result<(), CorpusError> {
        for (name, list, tag) in &plot.lets {
            self.bind_entry(name, list, tag.as_deref(), "")?;
        }
        for (name, list) in [("p", "place"), ("o", "object"), ("col", "color"), ("f", "food"), ("w", "weather")] {
            if !self.things.contains_key(name) {
                self.bind_entry(name, list, None, "")?;
            }
        }
        Ok(())
    }

    /// `told` is the text so far, whose last word is not repeated.
    fn bind_entry(
        &mut self,
        name: &str,
        list: &'a str,
        tag: Option<&str>,
        told: &str,
    ) -> Result<&'a Entry, CorpusError> {
        let entry = self.pick(list, tag, told)?;
        self.things.insert(name.to_string(), Thing::Entry { list, entry });
        Ok(entry)
    }

    /// An entry that the story does not have yet, and none that begins with the word just told.
    fn pick(&mut self, list: &str, tag: Option<&str>, told: &str) -> Result<&'a Entry, CorpusError> {
        let mut taken: Vec<&str> = self
            .things
            .values()
            .filter_map(|thing| match thing {
                Thing::Entry { list: own, entry } if *own == list => Some(entry.word.as_str()),
                _ => None,
            })
            .collect();
        if let (Some(last), Some(entries)) = (told.split_whitespace().last(), self.library.lists.get(list)) {
            let words = entries.iter().map(|entry| entry.word.as_str());
            taken.extend(words.filter(|word| word.split(' ').next() == Some(last)));
        }
        self.choices.entry(&self.library.lists, list, tag, &taken)
    }

    fn frame_slots(&mut self, slots: &'a [Slot]) -> Result<(), CorpusError> {
        slots.iter().try_for_each(|slot| self.slot(slot, false)).map_err(|error| error.at("frame.txt"))
    }

    /// Tells one line of a slot, in a plot perhaps with a filler before it; but not before speech, which answers what was
    /// said.
    fn slot(&mut self, slot: &'a Slot, with_fillers: bool) -> Result<(), CorpusError> {
        match slot {
            // Where a paragraph may end, it does in most stories.
            Slot::Paragraph if !self.choices.percent(PARAGRAPH) => Ok(()),
            Slot::Paragraph => {
                self.paragraphs.push(Vec::new());
                self.last_named = None;
                self.speakers.clear();
                Ok(())
            }
            Slot::OneOf(lines) => {
                let weights: Vec<u32> =
                    lines.iter().map(|line| if self.holds(&line.condition) { line.weight } else { 0 }).collect();
                if weights.iter().all(|&weight| weight == 0) {
                    return Ok(());
                }
                let chosen = &lines[self.choices.weighted(&weights)];
                let may_wait =
                    with_fillers && matches!(&chosen.content, Content::Sentence(words) if begins_anew(words));
                if may_wait && self.told_fillers.len() < MAX_FILLERS && self.choices.percent(FILLER) {
                    self.filler()?;
                }
                self.line(chosen)
            }
        }
    }

    fn line(&mut self, line: &'a Line) -> Result<(), CorpusError> {
        match &line.content {
            Content::Nothing => Ok(()),
            Content::Filler => self.filler(),
            Content::Sentence(template) => {
                let mut sentence = String::new();
                self.expand(template, &mut sentence)?;
                self.speakers.clear();
                self.add(&sentence);
                Ok(())
            }
            Content::Speech { speaker, words } => {
                // The words stand within quotation marks, where naming somebody does not make a pronoun mean them.
                let mut quoted = String::from("\"");
                self.expand(words, &mut quoted)?;
                let told = speech::attribute(self, speaker, &quoted[1..])?;
                self.add(&told);
                self.last_named = Some(speaker.clone());
                self.speakers.push(speaker.clone());
                Ok(())
            }
        }
    }

    fn add(&mut self, line: &str) {
        let line = english::tidy(line);
        if !line.is_empty() {
            self.paragraphs.last_mut().expect("there is always one").push(line);
        }
    }

    /// One sentence that changes nothing, and not one that was told before.
    fn filler(&mut self) -> Result<(), CorpusError> {
        let library = self.library;
        let lines = library.fillers.iter().flat_map(|slot| match slot {
            Slot::OneOf(lines) => lines.as_slice(),
            Slot::Paragraph => &[],
        });
        let lines: Vec<&Line> = lines.collect();
        let about = if self.named.contains("B") && self.choices.below(2) == 0 { "B" } else { "A" };
        let subject = self.things[about].clone();
        self.things.insert("X".into(), subject);
        let weight = |(index, line): (usize, &&Line)| match self.told_fillers.contains(&index) {
            false if self.holds(&line.condition) => line.weight,
            _ => 0,
        };
        let weights: Vec<u32> = lines.iter().enumerate().map(weight).collect();
        let chosen = self.choices.weighted(&weights);
        self.told_fillers.insert(chosen);
        self.line(lines[chosen]).map_err(|error| error.at("fillers.txt"))?;
        // A filler is about whoever it likes, so after it nobody is meant by a pronoun.
        self.last_named = None;
        self.speakers.clear();
        Ok(())
    }

    fn holds(&self, condition: &Option<Condition>) -> bool {
        let Some(Condition { negated, name, tag }) = condition else { return true };
        let holds = match tag {
            None => self.flags.contains(name),
            Some(tag) => match self.things.get(name) {
                Some(Thing::Person(person)) => match tag.as_str() {
                    "animal" => person.animal,
                    "child" => !person.animal,
                    "f" => person.gender == Gender::Female,
                    "m" => person.gender == Gender::Male,
                    kind => person.kind == kind,
                },
                Some(Thing::Entry { entry, .. }) => entry.has(tag),
                _ => false,
            },
        };
        holds != *negated
    }

    pub(super) fn expand(&mut self, template: &'a Template, out: &mut String) -> Result<(), CorpusError> {
        for node in template {
            match node {
                Node::Text(text) => out.push_str(text),
                Node::Choice(alternatives) => {
                    let weights: Vec<u32> = alternatives.iter().map(|(weight, _)| *weight).collect();
                    let chosen = self.choices.weighted(&weights);
                    self.expand(&alternatives[chosen].1, out)?;
                }
                Node::SetFlag(flag) => {
                    self.flags.insert(flag.clone());
                }
                Node::Pick { list, tag, attribute, bind } => {
                    let entry = match bind {
                        Some(name) => self.bind_entry(name, list, tag.as_deref(), out)?,
                        None => self.pick(list, tag.as_deref(), out)?,
                    };
                    match attribute {
                        Some(attribute) => {
                            let told = self.entry_attribute(entry, attribute)?;
                            out.push_str(&told);
                        }
                        None => out.push_str(&entry.word),
                    }
                }
                Node::Reference { name, attribute, bind } => {
                    let quoted = is_quoted(out);
                    let told = self.reference(name, attribute.as_deref(), quoted)?;
                    if let Some(bind) = bind {
                        self.things.insert(bind.clone(), Thing::Words(told.clone()));
                    }
                    out.push_str(&told);
                }
                Node::NameOrPronoun { name, possessive } => {
                    let told = self.name_or_pronoun(name, *possessive, is_quoted(out))?;
                    out.push_str(&told);
                }
            }
        }
        Ok(())
    }

    fn reference(&mut self, name: &str, attribute: Option<&str>, quoted: bool) -> Result<String, CorpusError> {
        let thing = self.thing(name)?.clone();
        match (thing, attribute) {
            (Thing::Person(person), attribute) => {
                if matches!(attribute, None | Some("new")) {
                    self.named.insert(name.to_string());
                    if !quoted {
                        self.last_named = Some(name.to_string());
                    }
                }
                agreement::of_person(&person, attribute)
                    .ok_or_else(|| CorpusError::told(format!("<{name}.{}> means nothing", attribute.unwrap_or(""))))
            }
            (Thing::Entry { list, entry }, None) => {
                if list == "role" && !quoted {
                    self.last_named = Some(name.to_string());
                }
                Ok(entry.word.clone())
            }
            (Thing::Entry { entry, .. }, Some(attribute)) => self.entry_attribute(entry, attribute),
            (Thing::Words(words), None) => Ok(words),
            (Thing::Words(words), Some("plural")) => Ok(english::plural(&words)),
            (Thing::Words(words), Some("a")) => Ok(english::with_article(&words)),
            (Thing::Words(_), Some(attribute)) => {
                Err(CorpusError::told(format!("<{name}> is words and has no {attribute}")))
            }
        }
    }

    fn name_or_pronoun(&mut self, name: &str, possessive: bool, quoted: bool) -> Result<String, CorpusError> {
        let (full, gender) = match self.thing(name)? {
            Thing::Person(person) => (person.name.clone(), person.gender),
            Thing::Entry { entry, .. } => (format!("the {}", entry.word), Gender::of(entry)),
            Thing::Words(_) => return Err(CorpusError::told(format!("<{name}~> is nobody"))),
        };
        let meant = self.last_named.as_deref() == Some(name) && !quoted;
        let pronoun = meant && self.choices.percent(PRONOUN);
        if !quoted {
            self.named.insert(name.to_string());
            self.last_named = Some(name.to_string());
        }
        Ok(match (pronoun, possessive) {
            (true, false) => gender.pronoun("he").expect("a known form").to_string(),
            (true, true) => gender.pronoun("his").expect("a known form").to_string(),
            (false, false) => full,
            (false, true) => format!("{full}'s"),
        })
    }

    fn entry_attribute(&mut self, entry: &'a Entry, attribute: &str) -> Result<String, CorpusError> {
        if let Some(told) = agreement::of_entry(entry, attribute) {
            return Ok(told);
        }
        let template = self.choices.attribute_template(entry, attribute)?;
        let mut told = String::new();
        self.expand(template, &mut told)?;
        Ok(told)
    }

    fn thing(&self, name: &str) -> Result<&Thing<'a>, CorpusError> {
        self.things.get(name).ok_or_else(|| CorpusError::told(format!("<{name}> is not bound to anything")))
    }

    /// How the program itself names a speaker, and the pronoun.
    pub(super) fn speaker(&self, name: &str) -> Result<(String, &'static str), CorpusError> {
        let (full, gender) = match self.thing(name)? {
            Thing::Person(person) => (person.name.clone(), person.gender),
            Thing::Entry { entry, .. } => (format!("the {}", entry.word), Gender::of(entry)),
            Thing::Words(words) => (words.clone(), Gender::Neuter),
        };
        Ok((full, gender.pronoun("he").expect("a known form")))
    }

    pub(super) fn name_speaker(&mut self, name: &str) {
        self.named.insert(name.to_string());
    }

    pub(super) fn manner(&mut self) -> Result<&'a Entry, CorpusError> {
        self.pick("manner", None, "")
    }

    fn text(&self) -> String {
        let paragraphs = self.paragraphs.iter().filter(|lines| !lines.is_empty());
        paragraphs.map(|lines| lines.join(" ")).collect::<Vec<_>>().join("\n")
    }
}

/// Whether a sentence makes sense after any other: it does not begin with a word that points back.
fn begins_anew(sentence: &Template) -> bool {
    match sentence.first() {
        Some(Node::Text(text)) => {
            !["It ", "It,", "They ", "Then ", "So ", "But ", "That ", "This "].iter().any(|word| text.starts_with(word))
        }
        _ => true,
    }
}

/// Whether what comes next stands within quotation marks.
fn is_quoted(told: &str) -> bool {
    told.matches('"').count() % 2 == 1
}

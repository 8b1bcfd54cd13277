//! A *script* is a row of slots that are told one after the other; a *plot* is a script with a head. A slot is one sentence
//! or two in several versions. This module reads them; telling is another's work.

use super::CorpusError;
use super::template::{self, Template};

#[derive(Clone, Debug)]
pub struct Line {
    pub weight: u32,
    pub condition: Option<Condition>,
    pub content: Content,
}

#[derive(Clone, Debug)]
pub enum Content {
    /// `-`
    Nothing,
    /// `+`
    Filler,
    Sentence(Template),
    /// `A: …`
    Speech {
        speaker: String,
        words: Template,
    },
}

/// `(flag)`, `(!flag)`, `(x#tag)`, `(!x#tag)`
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub negated: bool,
    pub name: String,
    /// With a tag, `name` is a thing; without, a flag.
    pub tag: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Slot {
    Paragraph,
    OneOf(Vec<Line>),
}

#[derive(Clone, Debug)]
pub struct Plot {
    pub name: String,
    /// Things to bind before the story begins: name, list, tag.
    pub lets: Vec<(String, String, Option<String>)>,
    /// Whether the opening introduces the friend.
    pub friend: bool,
    pub slots: Vec<Slot>,
}

impl Plot {
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self, CorpusError> {
        let mut plot = Self { name: name.to_string(), lets: Vec::new(), friend: false, slots: Vec::new() };
        let head = text.lines().take_while(|line| !line.trim().is_empty()).count();
        for (index, line) in text.lines().take(head).enumerate() {
            plot.head_line(line.trim()).map_err(|message| CorpusError::new(file, index + 1, message))?;
        }
        plot.slots = slots(file, text.lines().enumerate().skip(head))?;
        Ok(plot)
    }

    fn head_line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["about:", ..] => {}
            ["friend"] => self.friend = true,
            ["let", name, "=", list] => {
                let (list, tag) = list.split_once('#').map_or((list, None), |(list, tag)| (list, Some(tag)));
                self.lets.push((name.into(), list.into(), tag.map(str::to_string)));
            }
            _ => return Err(format!("the head of a plot can not have the line {line:?}")),
        }
        Ok(())
    }
}

/// A file of several scripts, each after a `[name]`.
pub fn sections(file: &str, text: &str) -> Result<Vec<(String, Vec<Slot>)>, CorpusError> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
    let heading = |line: &str| Some(line.trim().strip_prefix('[')?.strip_suffix(']')?.to_string());
    let starts: Vec<usize> = lines.iter().filter(|(_, line)| is_heading(line)).map(|(index, _)| *index).collect();
    let mut sections = Vec::new();
    for (i, &start) in starts.iter().enumerate() {
        let end = starts.get(i + 1).copied().unwrap_or(lines.len());
        let name = heading(lines[start].1).expect("found as a heading");
        sections.push((name, slots(file, lines[start + 1..end].iter().copied())?));
    }
    Ok(sections)
}

/// A line that is one word in square brackets, and so no sentence.
fn is_heading(line: &str) -> bool {
    let inner = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']'));
    inner.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()))
}

fn slots<'a>(file: &str, lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<Slot>, CorpusError> {
    let mut slots = Vec::new();
    let mut current = Vec::new();
    for (index, line) in lines {
        let line = line.trim();
        if line.starts_with("# ") {
            continue;
        }
        if line.is_empty() {
            close(&mut current, &mut slots);
        } else if line == "%" {
            close(&mut current, &mut slots);
            slots.push(Slot::Paragraph);
        } else {
            current.push(parse_line(line).map_err(|message| CorpusError::new(file, index + 1, message))?);
        }
    }
    close(&mut current, &mut slots);
    Ok(slots)
}

fn close(lines: &mut Vec<Line>, slots: &mut Vec<Slot>) {
    if !lines.is_empty() {
        slots.push(Slot::OneOf(std::mem::take(lines)));
    }
}

fn parse_line(text: &str) -> Result<Line, String> {
    let (mut weight, text) = template::weight(text)?;
    let (condition, text) = match text.strip_prefix('(').and_then(|text| text.split_once(')')) {
        Some((inner, rest)) => (Some(parse_condition(inner)?), rest.trim_start()),
        None => (None, text),
    };
    let (second, text) = template::weight(text)?;
    weight *= second;
    let content = match text {
        "-" => Content::Nothing,
        "+" => Content::Filler,
        _ => {
            let (flags, rest) = leading_flags(text);
            match speaker(rest) {
                Some((speaker, words)) => {
                    let words = template::parse(&format!("{flags}{words}"))?;
                    Content::Speech { speaker: speaker.into(), words }
                }
                None => Content::Sentence(template::parse(text)?),
            }
        }
    };
    Ok(Line { weight, condition, content })
}

/// Flags that are set before a speaker's name.
fn leading_flags(text: &str) -> (&str, &str) {
    let mut rest = text;
    while let Some((_, after)) = rest.strip_prefix("<+").and_then(|flag| flag.split_once('>')) {
        rest = after.trim_start();
    }
    text.split_at(text.len() - rest.len())
}

/// `A: words`; a speaker's name is one capital letter, with a digit at most.
fn speaker(text: &str) -> Option<(&str, &str)> {
    let (name, words) = text.split_once(": ")?;
    let mut letters = name.chars();
    let is_name = letters.next()?.is_ascii_uppercase() && letters.all(|c| c.is_ascii_digit());
    is_name.then_some((name, words))
}

fn parse_condition(inner: &str) -> Result<Condition, String> {
    let (negated, inner) = inner.strip_prefix('!').map_or((false, inner), |rest| (true, rest));
    let (name, tag) = inner.split_once('#').map_or((inner, None), |(name, tag)| (name, Some(tag)));
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_word(name) && tag.is_none_or(is_word) {
        true => Ok(Condition { negated, name: name.into(), tag: tag.map(str::to_string) }),
        false => Err(format!("({inner}) is no condition")),
    }
}

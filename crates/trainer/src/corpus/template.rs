//! A *template* is a line of story text with choices, picks from lists and references in it, as `corpus/FORMAT.md`
//! describes them. This module reads templates; it does not know what they say.

/// A piece of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Text(String),
    /// `{a|b}`: one of these, by weight.
    Choice(Vec<(u32, Template)>),
    /// `[list#tag.attribute:name]`
    Pick {
        list: String,
        tag: Option<String>,
        attribute: Option<String>,
        bind: Option<String>,
    },
    /// `<name.attribute:other>`
    Reference {
        name: String,
        attribute: Option<String>,
        bind: Option<String>,
    },
    /// `<name~>`: the name or its pronoun; `<name~'s>` with its owner's form.
    NameOrPronoun {
        name: String,
        possessive: bool,
    },
    /// `<+flag>`
    SetFlag(String),
}

pub type Template = Vec<Node>;

/// Reads a template. The error is a sentence.
pub fn parse(text: &str) -> Result<Template, String> {
    let mut parser = Parser { rest: text };
    let template = parser.template(false)?;
    match parser.rest.chars().next() {
        None => Ok(template),
        Some(found) => Err(format!("there is a {found:?} too many in {text:?}")),
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// Up to the end, or within a choice up to the `|` or `}` that ends the alternative.
    fn template(&mut self, in_choice: bool) -> Result<Template, String> {
        let mut nodes = Vec::new();
        loop {
            let special = |c: char| matches!(c, '{' | '}' | '[' | ']' | '<' | '>') || (in_choice && c == '|');
            let end = self.rest.find(special).unwrap_or(self.rest.len());
            if end > 0 {
                nodes.push(Node::Text(self.take(end).to_string()));
            }
            match self.rest.chars().next() {
                Some('{') => nodes.push(self.choice()?),
                Some('[') => nodes.push(pick(self.enclosed(']')?)?),
                Some('<') => nodes.push(reference(self.enclosed('>')?)?),
                _ => return Ok(nodes),
            }
        }
    }

    fn choice(&mut self) -> Result<Node, String> {
        self.take(1);
        let mut alternatives = Vec::new();
        loop {
            let (weight, rest) = weight(self.rest)?;
            self.rest = rest;
            alternatives.push((weight, self.template(true)?));
            match self.rest.chars().next() {
                Some('|') => self.take(1),
                Some('}') => {
                    self.take(1);
                    return Ok(Node::Choice(alternatives));
                }
                Some(found) => return Err(format!("there is a {found:?} too many within a choice")),
                None => return Err("a choice that begins with { does not end".into()),
            };
        }
    }

    /// What stands between the bracket here and the one that closes it.
    fn enclosed(&mut self, close: char) -> Result<&'a str, String> {
        let end = self.rest.find(close).ok_or_else(|| format!("a {close:?} is missing in {:?}", self.rest))?;
        let inner = &self.rest[1..end];
        self.take(end + 1);
        Ok(inner)
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}

/// Splits `3* text` into 3 and `text`; without a number the weight is 1.
pub fn weight(text: &str) -> Result<(u32, &str), String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match text[digits..].strip_prefix('*') {
        Some(rest) if digits > 0 => {
            let weight = text[..digits].parse().map_err(|_| format!("{} is no weight", &text[..digits]))?;
            Ok((weight, rest.strip_prefix(' ').unwrap_or(rest)))
        }
        _ => Ok((1, text)),
    }
}

fn pick(inner: &str) -> Result<Node, String> {
    let (inner, bind) = split(inner, ':');
    let (inner, attribute) = split(inner, '.');
    let (list, tag) = split(inner, '#');
    all_named(&[Some(list), tag, attribute, bind], inner)?;
    let owned = |part: Option<&str>| part.map(str::to_string);
    Ok(Node::Pick { list: list.to_string(), tag: owned(tag), attribute: owned(attribute), bind: owned(bind) })
}

fn reference(inner: &str) -> Result<Node, String> {
    if let Some(flag) = inner.strip_prefix('+') {
        all_named(&[Some(flag)], inner)?;
        return Ok(Node::SetFlag(flag.to_string()));
    }
    if let Some(name) = inner.strip_suffix("~'s").or_else(|| inner.strip_suffix('~')) {
        all_named(&[Some(name)], inner)?;
        return Ok(Node::NameOrPronoun { name: name.to_string(), possessive: inner.ends_with("'s") });
    }
    let (inner, bind) = split(inner, ':');
    let (name, attribute) = split(inner, '.');
    all_named(&[Some(name), attribute, bind], inner)?;
    let owned = |part: Option<&str>| part.map(str::to_string);
    Ok(Node::Reference { name: name.to_string(), attribute: owned(attribute), bind: owned(bind) })
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn all_named(names: &[Option<&str>], whole: &str) -> Result<(), String> {
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match names.iter().flatten().find(|name| !is_name(name)) {
        Some(name) => Err(format!("{name:?} in {whole:?} is no name")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let text = "a {3*b|{c|}} [object#toy:x] [object.looks] <A> <A.he> <A~> <A~'s> <o.where:spot><+gone>";
        let nodes: Template = parse(text).unwrap().into_iter().filter(|node| *node != Node::Text(" ".into())).collect();
        let some = |text: &str| Some(text.to_string());
        let text = |text: &str| Node::Text(text.into());
        let inner = Node::Choice(vec![(1, vec![text("c")]), (1, vec![])]);
        let reference = |name: &str, attribute, bind| Node::Reference { name: name.into(), attribute, bind };
        let expected = [
            text("a "),
            Node::Choice(vec![(3, vec![text("b")]), (1, vec![inner])]),
            Node::Pick { list: "object".into(), tag: some("toy"), attribute: None, bind: some("x") },
            Node::Pick { list: "object".into(), tag: None, attribute: some("looks"), bind: None },
            reference("A", None, None),
            reference("A", some("he"), None),
            Node::NameOrPronoun { name: "A".into(), possessive: false },
            Node::NameOrPronoun { name: "A".into(), possessive: true },
            reference("o", some("where"), some("spot")),
            Node::SetFlag("gone".into()),
        ];
        assert_eq!(nodes, expected);
    }

    #[test]
    fn broken_templates_are_refused() {
        for text in ["{a|b", "a}", "[list", "<A", "<A.>", "[#x]", "a]", "<A b>"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

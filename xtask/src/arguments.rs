//! An *argument* is a word or a `--name value` pair behind the task's name.

use anyhow::{Result, bail};

pub struct Arguments(Vec<String>);

impl Arguments {
    pub fn from_environment() -> Self {
        Self(std::env::args().skip(1).collect())
    }

    /// Takes the first word that is left.
    pub fn next_word(&mut self) -> Option<String> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Takes `--name`, and says whether it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let found = self.0.iter().position(|word| word == name);
        found.map(|at| self.0.remove(at)).is_some()
    }

    /// Takes `--name value` or `--name=value`.
    ///
    /// # Errors
    /// The name is there without a value.
    pub fn option(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == name || word.starts_with(&format!("{name}="))) else {
            return Ok(None);
        };
        let word = self.0.remove(at);
        if let Some((_, value)) = word.split_once('=') {
            return Ok(Some(value.to_string()));
        }
        if at == self.0.len() {
            bail!("{name} needs a value");
        }
        Ok(Some(self.0.remove(at)))
    }

    /// # Errors
    /// Something is left that no one asked for.
    pub fn finish(self) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some(word) => bail!("{word:?} is not understood here; `cargo xtask help` lists what is"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments(line.split(' ').map(String::from).collect())
    }

    #[test]
    fn words_flags_and_options_are_taken_in_any_order() {
        let mut given = arguments("cpu --port 81 --release --only=a,b");
        assert_eq!(given.next_word().as_deref(), Some("cpu"));
        assert_eq!(given.option("--only").unwrap().as_deref(), Some("a,b"));
        assert_eq!(given.option("--port").unwrap().as_deref(), Some("81"));
        assert!(given.flag("--release"));
        assert!(!given.flag("--release"));
        given.finish().unwrap();
    }

    #[test]
    fn a_missing_value_and_a_stray_word_are_errors() {
        assert!(arguments("--port").option("--port").is_err());
        assert!(arguments("--prot 81").finish().is_err());
    }
}

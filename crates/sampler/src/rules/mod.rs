//! A *rule* reshapes the candidates or cuts some of them. A new one is a file here and a line in [`RULES`].

mod min_p;
mod temperature;
mod top_k;
mod top_p;

use inferscope_trace::Sampling;

use crate::{Candidates, Control};

/// One stage of the sampler. Rules hold no state; their value comes from the settings.
pub trait Rule: Sync {
    /// The rule's name in settings and traces, in snake case.
    fn id(&self) -> &'static str;
    /// The rule's name for the reader.
    fn label(&self) -> &'static str;
    /// What it does, in a sentence.
    fn explain(&self) -> &'static str;
    /// The values it takes for a vocabulary of this size.
    fn control(&self, vocab_size: usize) -> Control;
    /// Applies the rule; `value` is within the control's range.
    fn apply(&self, value: f64, candidates: &mut Candidates);

    /// The nearest value in range; the neutral one for NaN.
    fn clamp(&self, value: f64, vocab_size: usize) -> f64 {
        self.control(vocab_size).clamp(value)
    }
}

/// Every rule, in the order of application.
pub const RULES: &[&dyn Rule] = &[&temperature::Temperature, &top_k::TopK, &top_p::TopP, &min_p::MinP];

/// The rule of that id.
pub fn rule(id: &str) -> Option<&'static dyn Rule> {
    RULES.iter().copied().find(|rule| rule.id() == id)
}

/// The same settings for a vocabulary of another size: a value that changed nothing changes nothing there either, and
/// the others move into range.
#[must_use]
pub fn carry_over(sampling: &Sampling, from_vocab: usize, to_vocab: usize) -> Sampling {
    sampling.0.iter().fold(Sampling::default(), |carried, (id, &value)| {
        let value = rule(id).map_or(value, |rule| match rule.clamp(value, from_vocab) {
            value if value == rule.control(from_vocab).neutral => rule.control(to_vocab).neutral,
            value => rule.clamp(value, to_vocab),
        });
        carried.with(id, value)
    })
}

/// Every rule at its default.
pub fn default_sampling() -> Sampling {
    let default = |sampling: Sampling, rule: &&dyn Rule| sampling.with(rule.id(), rule.control(usize::MAX).default);
    RULES.iter().fold(Sampling::default(), default)
}

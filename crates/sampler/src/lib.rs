//! A *sampler* turns a model's logits into one token: rules shape the distribution and cut candidates from it, one after
//! the other, and a uniform number draws from what is left.
//!
//! It is plain arithmetic on numbers that were already read back, so a session uses it to choose a token and a page uses
//! it to redraw the candidates of a recorded step. It knows no model, no tensor and no source of randomness: the uniform
//! number is an argument, and [`coin`] makes it from a seed.

mod candidates;
mod coin;
mod control;
mod distribution;
mod rules;
mod speculative;

pub use candidates::Candidates;
pub use coin::{Purpose, coin, coin_for};
pub use control::{Control, Scale};
pub use distribution::{Distribution, Law, draw};
pub use inferscope_trace::{Candidate, Sampling, TokenId};
pub use rules::{RULES, Rule, carry_over, default_sampling, rule};
pub use speculative::{Verdict, judge, residual};

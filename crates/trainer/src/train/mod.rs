//! *Training* fits the weights of a Llama-style model to an endless supply of stories, on the processor, with burn.
//!
//! [`run`] is the command. Below it a [`trainer::Trainer`] steps over [`batches`]; its [`model`] is written twice, with
//! burn's plain operations and with fused ones ([`ops`] on [`kernels`]), of which the first checks the second. It knows
//! stories only as token ids, and nothing of how the finished model is evaluated.

pub mod batches;
mod command;
pub mod error;
pub mod kernels;
pub mod model;
pub mod ops;
pub mod optimizer;
pub mod preset;
mod progress;
mod random;
mod saved;
mod schedule;
#[cfg(test)]
mod tests;
pub mod trainer;

pub use batches::Stories;
pub use command::{Args, run};

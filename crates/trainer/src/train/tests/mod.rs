//! Tests across the modules of training.

mod gradients;
mod runs;

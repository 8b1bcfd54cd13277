//! A *baseline* is the program that somebody would write who wants this one model to run fast and nothing else: plain loops
//! over arrays, one token at a time, in the manner of llama2.c. The bench runs it beside the engines, on the same weights and
//! the same tokens, and says how fast they are by it.
//!
//! It has no tensors, no layouts of a cache, nothing to observe and no sampler, and so it knows what generality costs. What
//! it does it does well: weights are f32 as in the engines, dot products take eight numbers a turn in 128-bit registers, and
//! the logits of prompt tokens that nobody asks for are not computed.

mod exports;
mod kernels;
mod lanes;
mod model;

#[cfg(test)]
mod tests;

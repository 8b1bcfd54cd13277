//! An *engine* is the worker's shell around a model: it decodes a command, steps a session, and posts the reply.
//!
//! The crate is built twice for the browser, with the feature `cpu` (burn's Flex) and with `webgpu` (burn-wgpu). All
//! computation is core's; how the messages look is the trace crate's.

#[cfg(all(target_arch = "wasm32", feature = "cpu", feature = "webgpu"))]
compile_error!("an engine runs on one device: choose the feature `cpu` or the feature `webgpu`, not both");
#[cfg(not(any(feature = "cpu", feature = "webgpu")))]
compile_error!("an engine needs a device: choose the feature `cpu` or the feature `webgpu`");

mod batches;
mod engine;
mod fault;
mod inbox;
mod probe;
mod warm_up;

pub use engine::Engine;
pub use inbox::{Arrival, Inbox};

#[cfg(all(target_arch = "wasm32", feature = "webgpu"))]
mod adapter;
#[cfg(target_arch = "wasm32")]
mod worker;

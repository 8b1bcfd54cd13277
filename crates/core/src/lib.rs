//! The computation: a *session* runs a language model over a prompt and generates tokens, one step at a time.
//!
//! [`Session::step`] is the only generate loop there is. Below it are the [`Model`] (a Llama-style decoder on burn
//! tensors), its preallocated [`Cache`], the [`Tokenizer`] and the [`Checkpoint`] they are loaded from, and the sampler.
//! The crate knows no browser, no clock and no thread; it runs on whichever burn device it is given.

mod cache;
mod checkpoint;
mod config;
mod device;
pub mod format;
pub mod import;
mod language_model;
mod model;
mod probe;
pub mod reference;
mod score;
mod server;
mod session;
mod speculation;
mod tokenizer;

pub use cache::{BlockPool, Cache};
pub use checkpoint::{Checkpoint, LayerPart, LayerWeights, Part};
pub use config::ConfigError;
pub use format::{CheckpointError, ElementType, FormatError, HuggingFaceError};
pub use import::{ImportError, Imported, MAX_IMPORT_BYTES, NamedFile, import};
pub use inferscope_sampler as sampler;
pub use language_model::{LanguageModel, ModelError, Output, Sequence, SequenceCache};
pub use model::Model;
pub use probe::Probe;
pub use score::score;
pub use server::{Server, ServerError};
pub use session::{Session, SessionError};
pub use speculation::Speculation;
pub use tokenizer::{SpecialTokens, Tokenizer, TokenizerError, TokenizerJsonError};

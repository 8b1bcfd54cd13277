//! A *trace* is the record of one run: the prompt, the settings, and for every step the tokens, logits, counted work,
//! measured time and whatever was looked at. Everything on the screen is a function of a trace and a moment in it.
//!
//! This crate is plain, serialisable data. It knows no tensor, no clock and no DOM.

mod layout;
mod message;
mod model;
mod serving;
mod settings;
mod speculation;
mod step;
mod trace;
mod work;

pub use layout::CacheLayout;
pub use message::{
    AdapterInfo, Command, Fault, FaultKind, MAX_IMPORT_BYTES, MessageError, NamedFile, Observe, Reply, Rows, SessionId,
    Subject, decode, encode,
};
pub use model::{ModelId, ModelInfo, Piece, TokenId, Vocabulary};
pub use serving::{
    Batching, Extent, Memory, MemoryMap, Ran, Request, RequestId, ServingSettings, ServingStep, ServingTrace,
    request_name,
};
pub use settings::{Sampling, Settings};
pub use speculation::{Guess, Judged, Own, Round, SpeculationTrace};
pub use step::{Attention, Candidate, Finish, KeyValues, Phase, Step};
pub use trace::{BackendInfo, BackendKind, Prompt, TRACE_VERSION, Trace};
pub use work::{ELEMENT_BYTES, Work, cache_bytes, positions_processed};

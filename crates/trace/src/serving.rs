//! *Serving* is many requests on one model and one memory: what was asked for, and what each step of the server ran, admitted,
//! sent back and let go.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{BackendInfo, Finish, ModelInfo, Sampling, TokenId, Vocabulary};

/// Index of a request in the list that was given.
pub type RequestId = usize;

/// The letter that a request goes by: A to Z, then A2.
pub fn request_name(request: RequestId) -> String {
    let letter = char::from(b'A' + (request % 26) as u8);
    if request < 26 { letter.to_string() } else { format!("{letter}{}", request / 26 + 1) }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub prompt: String,
    pub max_new_tokens: usize,
    pub sampling: Sampling,
    pub seed: u32,
    /// The step before which it is not known to the server.
    pub arrives: usize,
}

/// How the cache's memory is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// To each request as many neighbouring slots as it may come to need, from its beginning to its end.
    Reserved,
    /// A block of so many slots at a time, anywhere; requests that begin alike share blocks if `sharing`.
    Paged { block: usize, sharing: bool },
}

/// When a waiting request may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Batching {
    /// When the whole batch before it has ended.
    Static,
    /// Whenever a place in the batch is free (Yu et al. 2022, "Orca: A Distributed Serving System for Transformer-Based
    /// Generative Models").
    Continuous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingSettings {
    /// Positions that the memory has slots for, of all requests together.
    pub slots: usize,
    pub memory: Memory,
    pub batching: Batching,
    /// Requests that run side by side at most.
    pub max_batch: usize,
    /// Prompt tokens of one request that a step runs at most; 0 is the whole prompt at once.
    pub chunk: usize,
}

/// What one request did in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    pub request: RequestId,
    /// Its place in the batch.
    pub place: usize,
    pub first_position: usize,
    pub positions: usize,
    /// Some of the positions were of its prompt, or had been run before it was sent back.
    pub prefill: bool,
    /// The token it wrote; none while its prompt is not through.
    pub token: Option<TokenId>,
    pub finish: Option<Finish>,
}

/// A run of slots that are given out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    pub first_slot: usize,
    pub slots: usize,
    /// Of the slots, those that hold a column.
    pub used: usize,
    /// Whose it is: several where requests share it.
    pub owners: Vec<RequestId>,
    /// The position that its first slot holds.
    pub first_position: usize,
}

/// The memory after a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryMap {
    pub slots: usize,
    /// In the order of their slots.
    pub extents: Vec<Extent>,
    /// Blocks copied so far because somebody wrote into a shared one.
    pub copies: usize,
}

impl MemoryMap {
    pub fn given_out(&self) -> usize {
        self.extents.iter().map(|extent| extent.slots).sum()
    }

    pub fn used(&self) -> usize {
        self.extents.iter().map(|extent| extent.used).sum()
    }

    /// Slots that are given out and hold nothing.
    pub fn wasted(&self) -> usize {
        self.given_out() - self.used()
    }

    /// Columns that would lie here twice or more if nothing were shared.
    pub fn saved_by_sharing(&self) -> usize {
        self.extents.iter().map(|extent| extent.used * (extent.owners.len().max(1) - 1)).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServingStep {
    pub index: usize,
    /// Taken from the queue before this step.
    pub admitted: Vec<RequestId>,
    /// Positions that an admitted request found computed already, in the blocks of another.
    pub shared: Vec<(RequestId, usize)>,
    /// Sent back to the queue before this step, since no block was free. They keep their tokens and lose their columns.
    pub preempted: Vec<RequestId>,
    pub ran: Vec<Ran>,
    /// In the queue after this step.
    pub waiting: Vec<RequestId>,
    pub memory: MemoryMap,
    /// Measured by the engine.
    pub milliseconds: f64,
}

/// The record of one queue of requests being served.
#[derive(Clone, Debug, PartialEq)]
pub struct ServingTrace {
    pub model: Arc<ModelInfo>,
    pub vocabulary: Arc<Vocabulary>,
    pub backend: BackendInfo,
    pub settings: ServingSettings,
    pub requests: Vec<Request>,
    /// Each request's prompt, BOS first.
    pub prompts: Vec<Vec<TokenId>>,
    pub steps: Vec<Arc<ServingStep>>,
    pub finished: bool,
}

impl ServingTrace {
    /// What a request wrote in the first `steps` steps.
    pub fn generated(&self, request: RequestId, steps: usize) -> Vec<TokenId> {
        let ran = self.steps.iter().take(steps).flat_map(|step| &step.ran);
        ran.filter(|ran| ran.request == request).filter_map(|ran| ran.token).collect()
    }
}

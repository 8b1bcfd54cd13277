//! A *message* crosses between the page and an engine: commands go in, replies come out, as postcard bytes.
//!
//! An engine handles commands strictly in order and answers each with exactly one reply (`Load` may be preceded by
//! `Booted`). Messages know nothing of workers: any byte channel will do.

use serde::{Deserialize, Serialize};

use crate::{
    Attention, CacheLayout, Finish, KeyValues, ModelId, ModelInfo, Request, Round, Sampling, ServingSettings,
    ServingStep, Settings, Step, TokenId, Vocabulary,
};

/// Chosen by the page; one engine serves many sessions, on any of the models it holds.
pub type SessionId = u32;

/// The most that all files of a reader's own model may have together, in bytes.
pub const MAX_IMPORT_BYTES: usize = 20_000_000;

/// A file as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// Its name without a folder. It only names the file to the reader: what it holds is told by its content.
    pub name: String,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// What the engine should read back besides the logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    pub attention: Rows,
    pub kv: bool,
}

/// Whose attention is to be read, of the positions that a step runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rows {
    #[default]
    None,
    /// The last position's: the one that predicts.
    Last,
    /// Every position's.
    All,
}

impl Rows {
    /// How many of the last positions of a pass over `positions` that is.
    pub fn count(self, positions: usize) -> usize {
        match self {
            Self::None => 0,
            Self::Last => positions.min(1),
            Self::All => positions,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Adds a model to those the engine holds. One of the same name is replaced, and its sessions are closed.
    Load {
        model: ModelId,
        files: Vec<NamedFile>,
    },
    /// Gives up a model and closes its sessions.
    Forget {
        model: ModelId,
    },
    /// Splits a text that the reader is typing. Answered by `Tokenized` with the same `request`.
    Tokenize {
        request: u32,
        model: ModelId,
        text: String,
    },
    /// Starts a session on a model. `generated` is empty for a new run; to continue a run that another engine began, it holds the
    /// tokens generated so far, and the cache is rebuilt in the session's next step. With `first` that step is run at once.
    Open {
        session: SessionId,
        model: ModelId,
        prompt: String,
        generated: Vec<TokenId>,
        settings: Settings,
        first: Option<(Sampling, Observe)>,
    },
    /// Runs one step with the sampling now in force.
    Step {
        session: SessionId,
        sampling: Sampling,
        observe: Observe,
    },
    /// Runs steps that nobody watches one by one, until the run ends or a frame's time is over; a prefill is a turn of its own.
    Rush {
        session: SessionId,
        sampling: Sampling,
        observe: Observe,
    },
    /// Looks back at a step that was recorded without observation.
    Inspect {
        session: SessionId,
        step: usize,
        observe: Observe,
    },
    /// Starts a session that shares another's prompt and first `step` generated tokens, has `token` where that step drew
    /// one, and goes on from there to `max_new_tokens` in all. The cache is copied up to there; the other session stays as
    /// it is.
    Branch {
        session: SessionId,
        from: SessionId,
        step: usize,
        token: TokenId,
        max_new_tokens: usize,
    },
    Close {
        session: SessionId,
    },
    /// Starts a session in which `draft` proposes and `model` judges. Answered by `Opened`; driven by `Round`.
    Speculate {
        session: SessionId,
        model: ModelId,
        draft: ModelId,
        prompt: String,
        settings: Settings,
    },
    /// Runs one round with up to `gamma` proposals.
    Round {
        session: SessionId,
        sampling: Sampling,
        gamma: usize,
    },
    /// Starts a session that serves many requests. Answered by `Serving`; driven by `ServeStep`.
    Serve {
        session: SessionId,
        model: ModelId,
        requests: Vec<Request>,
        settings: ServingSettings,
    },
    /// Runs one step of all requests that are served.
    ServeStep {
        session: SessionId,
    },
    /// Measures a decode step at several batch sizes. Answered by `BatchesMeasured` with the same `request`.
    MeasureBatches {
        request: u32,
        model: ModelId,
    },
    /// How well a model foresees a text, with its cache in a layout. Answered by `Scored` with the same `request`.
    Score {
        request: u32,
        model: ModelId,
        text: String,
        layout: CacheLayout,
    },
    /// Measures for about two seconds what the device gives. Answered by `Probed` with the same `request`.
    Probe {
        request: u32,
    },
}

/// The GPU an engine runs on, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterInfo {
    pub description: String,
    /// Emulated on the processor.
    pub software: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The engine is up and has its device, and can take a `Load`.
    Booted {
        adapter: Option<AdapterInfo>,
    },
    /// The model that `model.id` names is loaded and warm.
    Ready {
        model: ModelInfo,
        vocabulary: Vocabulary,
    },
    Forgotten {
        model: ModelId,
    },
    Tokenized {
        request: u32,
        tokens: Vec<TokenId>,
    },
    /// `prompt` begins with the BOS token. `first` is the session's first step, if that was asked for, and the run's end if it
    /// was the last.
    Opened {
        session: SessionId,
        prompt: Vec<TokenId>,
        first: Option<(Step, Option<Finish>)>,
    },
    /// `columns` of the cache were taken over. `finish` is there if the chosen token ends the run.
    Branched {
        session: SessionId,
        columns: usize,
        finish: Option<Finish>,
    },
    Stepped {
        session: SessionId,
        step: Step,
        finish: Option<Finish>,
    },
    /// One step at least. `finish` is there if the last one ended the run.
    Rushed {
        session: SessionId,
        steps: Vec<Step>,
        finish: Option<Finish>,
    },
    Inspected {
        session: SessionId,
        step: usize,
        attention: Option<Attention>,
        kv: Option<KeyValues>,
    },
    Closed {
        session: SessionId,
    },
    /// `finish` is there when the run has ended.
    RoundDone {
        session: SessionId,
        round: Round,
        finish: Option<Finish>,
    },
    /// The requests' prompts, each beginning with the BOS token.
    Serving {
        session: SessionId,
        prompts: Vec<Vec<TokenId>>,
    },
    ServeStepped {
        session: SessionId,
        step: ServingStep,
        finished: bool,
    },
    /// Batch sizes, each with the median milliseconds of a decode step.
    BatchesMeasured {
        request: u32,
        points: Vec<(usize, f64)>,
    },
    /// Mean −ln of the probability of the text's tokens after the first, in nats; how many those are.
    Scored {
        request: u32,
        nats: f64,
        tokens: usize,
    },
    /// FLOP a second of a matrix product, and bytes a second of reading memory that no cache holds.
    Probed {
        request: u32,
        flops: f64,
        bytes: f64,
    },
    /// The command failed; nothing else changed. A `Device` fault means that this engine is lost.
    Failed {
        subject: Subject,
        fault: Fault,
    },
}

/// What a command that failed was about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// No command in particular.
    Engine,
    Model(ModelId),
    Session(SessionId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// The model or tokenizer file is wrong.
    Model,
    /// The prompt or the settings cannot be run; the reader can mend it.
    Input,
    /// The GPU went away or never came.
    Device,
    /// A file could not be fetched.
    Network,
    /// A mistake of ours.
    Internal,
}

/// What went wrong, in a sentence for the reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    pub kind: FaultKind,
    pub message: String,
}

#[derive(Debug, thiserror::Error)]
#[error("a message between the page and its engine could not be read ({0}); are both from the same build?")]
pub struct MessageError(#[from] postcard::Error);

/// A command or reply as bytes.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, MessageError> {
    Ok(postcard::to_stdvec(message)?)
}

/// A command or reply from its bytes.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, MessageError> {
    Ok(postcard::from_bytes(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_trip() {
        let file = |name: &str, bytes| NamedFile { name: name.into(), bytes };
        let files = vec![file("m.bin", vec![1; 300]), file("tök.bin", vec![2; 7])];
        let command = Command::Load { model: "m".into(), files };
        assert_eq!(decode::<Command>(&encode(&command).unwrap()).unwrap(), command);
        let settings = Settings { sampling: Sampling::default().with("top_k", 40.0), ..Settings::default() };
        let command = Command::Open {
            session: 3,
            model: "m".into(),
            prompt: "é".into(),
            generated: vec![5],
            settings,
            first: None,
        };
        assert_eq!(decode::<Command>(&encode(&command).unwrap()).unwrap(), command);
    }

    #[test]
    fn a_cut_message_is_an_error() {
        let bytes = encode(&Reply::Closed { session: 300 }).unwrap();
        assert!(decode::<Reply>(&bytes[..bytes.len() - 1]).is_err());
    }
}

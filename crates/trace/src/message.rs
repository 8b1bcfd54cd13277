//! A *message* crosses between the page and an engine: commands go in, replies come out, as postcard bytes.
//!
//! An engine handles commands strictly in order and answers each with exactly one reply (`Load` may be preceded by
//! `Booted`). Messages know nothing of workers: any byte channel will do.

use serde::{Deserialize, Serialize};

use crate::{Attention, Finish, KeyValues, ModelInfo, Sampling, Settings, Step, TokenId, Vocabulary};

/// Chosen by the page; one engine serves many sessions.
pub type SessionId = u32;

/// A file as somebody handed it over. Its name is for the reader's eyes; what it holds is told by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    pub name: String,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// What the engine should read back besides the logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observe {
    pub attention: bool,
    pub kv: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Replaces the engine's model; sessions on the old one are closed.
    Load {
        model_id: String,
        #[serde(with = "serde_bytes")]
        checkpoint: Vec<u8>,
        #[serde(with = "serde_bytes")]
        tokenizer: Vec<u8>,
    },
    /// Splits a text that the reader is typing. Answered by `Tokenized` with the same `request`.
    Tokenize {
        request: u32,
        text: String,
    },
    /// Starts a session. `generated` is empty for a new run; to continue a run that another engine began, it holds the
    /// tokens generated so far, and the cache is rebuilt in the session's next step.
    Open {
        session: SessionId,
        prompt: String,
        generated: Vec<TokenId>,
        settings: Settings,
    },
    /// Runs one step with the sampling now in force.
    Step {
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
    Close {
        session: SessionId,
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
    /// The model is loaded and warm.
    Ready {
        model: ModelInfo,
        vocabulary: Vocabulary,
    },
    Tokenized {
        request: u32,
        tokens: Vec<TokenId>,
    },
    /// `prompt` begins with the BOS token.
    Opened {
        session: SessionId,
        prompt: Vec<TokenId>,
    },
    Stepped {
        session: SessionId,
        step: Step,
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
    /// The command failed; nothing else changed. A `Device` fault means that this engine is lost.
    Failed {
        session: Option<SessionId>,
        fault: Fault,
    },
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
        let command = Command::Load { model_id: "m".into(), checkpoint: vec![1; 300], tokenizer: vec![2; 7] };
        assert_eq!(decode::<Command>(&encode(&command).unwrap()).unwrap(), command);
        let settings = Settings { sampling: Sampling::default().with("top_k", 40.0), ..Settings::default() };
        let command = Command::Open { session: 3, prompt: "é".into(), generated: vec![5], settings };
        assert_eq!(decode::<Command>(&encode(&command).unwrap()).unwrap(), command);
    }

    #[test]
    fn a_cut_message_is_an_error() {
        let bytes = encode(&Reply::Closed { session: 300 }).unwrap();
        assert!(decode::<Reply>(&bytes[..bytes.len() - 1]).is_err());
    }
}

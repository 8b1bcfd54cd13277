//! A *fault* is what the page hears of an error: a kind it can act on, and the error's own words as a sentence.

use inferscope_core::{ImportError, ModelError, ServerError, SessionError};
use inferscope_trace::{Command, Fault, FaultKind, MessageError, Subject};

/// What a command is about.
pub fn subject_of(command: &Command) -> Subject {
    match command {
        Command::Open { session, .. }
        | Command::Step { session, .. }
        | Command::Rush { session, .. }
        | Command::Inspect { session, .. }
        | Command::Branch { session, .. }
        | Command::Speculate { session, .. }
        | Command::Round { session, .. }
        | Command::Serve { session, .. }
        | Command::ServeStep { session }
        | Command::Close { session } => Subject::Session(*session),
        Command::Probe { .. } | Command::MeasureBatches { .. } | Command::Score { .. } => Subject::Engine,
        Command::Load { model, .. } | Command::Forget { model } | Command::Tokenize { model, .. } => {
            Subject::Model(model.clone())
        }
    }
}

/// A fault whose message is `error` with a capital first and a full stop last. A first letter that is not of ours but of what
/// the message is about stays as it is: the tables for all alphabets would be a fiftieth of an engine.
pub fn fault(kind: FaultKind, error: impl std::fmt::Display) -> Fault {
    let text = error.to_string();
    let text = text.trim().trim_end_matches('.');
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase().to_string()).unwrap_or_default();
    Fault { kind, message: format!("{first}{}.", characters.as_str()) }
}

pub fn of_message(error: MessageError) -> Fault {
    fault(FaultKind::Internal, error)
}

pub fn of_import(error: ImportError) -> Fault {
    fault(FaultKind::Model, error)
}

pub fn of_session(error: SessionError) -> Fault {
    let kind = match &error {
        SessionError::PromptTooLong { .. } | SessionError::NothingToGenerate | SessionError::OtherVocabulary { .. } => {
            FaultKind::Input
        }
        SessionError::Model(ModelError::Device(_)) => FaultKind::Device,
        // The page knows the model's context and which steps it has asked for.
        SessionError::ContinuationTooLong { .. }
        | SessionError::UnknownToken { .. }
        | SessionError::Finished
        | SessionError::NoSuchStep { .. }
        | SessionError::Model(ModelError::ContextFull { .. } | ModelError::OutOfBlocks { .. }) => FaultKind::Internal,
    };
    fault(kind, error)
}

pub fn of_server(error: ServerError) -> Fault {
    let kind = match &error {
        ServerError::Request { error, .. } => of_session(error.clone()).kind,
        ServerError::NoRequests | ServerError::Nothing | ServerError::TooLarge { .. } => FaultKind::Input,
        ServerError::Model(ModelError::Device(_)) => FaultKind::Device,
        ServerError::Finished | ServerError::Model(_) => FaultKind::Internal,
    };
    fault(kind, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_sentence() {
        for text in ["the run has ended", "The run has ended.", " the run has ended.\n"] {
            assert_eq!(fault(FaultKind::Input, text).message, "The run has ended.");
        }
        assert_eq!(fault(FaultKind::Input, "é.bin is empty").message, "é.bin is empty.");
    }

    #[test]
    fn a_lost_device_is_told_from_a_wrong_prompt() {
        let lost = SessionError::Model(ModelError::Device("gone".into()));
        assert_eq!(of_session(lost).kind, FaultKind::Device);
        let long = SessionError::PromptTooLong { tokens: 300, context: 256 };
        assert_eq!(of_session(long).kind, FaultKind::Input);
    }
}

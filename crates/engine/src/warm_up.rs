//! A *warm-up* runs the model for nothing before it is called ready, so that the reader's first token is not the one that
//! waits: a GPU builds a pipeline for each kind of operation the first time it is used.

use std::rc::Rc;

use inferscope_core::{LanguageModel, Model, Session, SessionError, Tokenizer};
use inferscope_trace::{Observe, Sampling, Settings};

/// How much to run. All of it is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Two tokens, for a processor: it has nothing to prepare, but the first tokens grow its memory.
    Brief,
    /// Every path a reader can take, for a GPU: with the cache and without it, looked at and not.
    Full,
}

/// A prompt of ordinary length.
const PROMPT: &str = "Once upon a time there was a little fox named Zibo. Zibo liked to play in the park.";

impl WarmUp {
    /// # Errors
    /// What a session fails with, a lost device above all.
    pub async fn run(self, model: &Rc<Model>, tokenizer: &Tokenizer) -> Result<(), SessionError> {
        match self {
            Self::Brief => steps(model, tokenizer, true, &[Observe::default(); 2]).await,
            Self::Full => {
                let seen = Observe { attention: true, kv: true };
                let unseen = Observe::default();
                // Operations are built for how a length divides (by 4, by 2, not at all), so the cached run takes four
                // lengths in a row.
                steps(model, tokenizer, true, &[seen, seen, seen, seen, seen, unseen]).await?;
                steps(model, tokenizer, false, &[seen, seen, unseen]).await
            }
        }
    }
}

async fn steps(model: &Rc<Model>, tokenizer: &Tokenizer, cache: bool, looks: &[Observe]) -> Result<(), SessionError> {
    // No text has more tokens than bytes, besides the two that begin it: this always leaves room for the steps.
    let room = model.info().context.saturating_sub(looks.len() + 2);
    let prompt = &PROMPT[..PROMPT.len().min(room)];
    let settings = Settings { max_new_tokens: looks.len(), cache, ..Settings::default() };
    let mut session = Session::open(model.clone(), tokenizer, prompt, Vec::new(), settings)?;
    for &look in looks {
        if let (_, Some(_)) = session.step(&Sampling::default(), look).await? {
            break;
        }
    }
    Ok(())
}

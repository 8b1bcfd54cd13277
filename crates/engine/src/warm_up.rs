//! A *warm-up* runs the model for nothing before it is called ready, so that the reader's first token is not the one that
//! waits: a GPU builds a pipeline for each kind of operation the first time it is used, and a browser compiles what runs on a
//! processor when it first runs. Operations take lengths as arguments, so a few short steps of each kind meet everything that a run will need.

use std::rc::Rc;

use inferscope_core::{LanguageModel, Model, Session, SessionError, Tokenizer};
use inferscope_trace::{Observe, Rows, Sampling, Settings, TokenId};

/// Looking only adds operations to a step, so a step that was looked at has warmed the others too.
const SEEN: Observe = Observe { attention: Rows::Last, kv: true };

/// Positions of the first step, a prefill.
const POSITIONS: usize = 8;

/// All of it is thrown away.
///
/// # Errors
/// What a session fails with, a lost device above all.
pub async fn warm_up(model: &Rc<Model>, tokenizer: &Tokenizer) -> Result<(), SessionError> {
    // A run that is continued begins with all its positions in one step, and so can be given any length: the prompt is the BOS
    // token alone, and what follows is any token that does not end the run.
    let bos = tokenizer.vocabulary().bos;
    let filler = TokenId::from(bos == 0);
    let generated = vec![filler; POSITIONS.min(model.info().context) - 1];
    let settings = Settings { max_new_tokens: usize::MAX, ..Settings::default() };
    let mut session = Session::open(model.clone(), tokenizer, "", generated, settings)?;
    for _ in 0..3 {
        if session.is_finished() {
            return Ok(());
        }
        session.step(&Sampling::default(), SEEN).await?;
    }
    let last_step = session.generated().len() - 1;
    session.inspect(last_step, SEEN).await?;
    // Another text beside this one takes a copy of its cache.
    let mut branch = session.branch(last_step, filler, usize::MAX)?;
    if !branch.is_finished() {
        branch.step(&Sampling::default(), SEEN).await?;
    }
    Ok(())
}

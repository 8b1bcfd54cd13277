//! *Writing* is a session run to its end without anybody watching.

use std::rc::Rc;

use anyhow::Result;
use inferscope_core::{Model, Session, Tokenizer};
use inferscope_trace::{Observe, Sampling, Settings, TokenId};

/// What the model writes after a prompt, without the prompt.
pub fn write(
    model: &Rc<Model>,
    tokenizer: &Tokenizer,
    prompt: &str,
    max_new_tokens: usize,
    sampling: Sampling,
    seed: u32,
) -> Result<String> {
    let (prompt, generated) = tokens(model, tokenizer, prompt, max_new_tokens, sampling, seed)?;
    Ok(tokenizer.vocabulary().text(prompt.last().copied(), &generated))
}

/// The prompt's tokens and those written.
pub fn tokens(
    model: &Rc<Model>,
    tokenizer: &Tokenizer,
    prompt: &str,
    max_new_tokens: usize,
    sampling: Sampling,
    seed: u32,
) -> Result<(Vec<TokenId>, Vec<TokenId>)> {
    let settings = Settings { max_new_tokens, sampling: sampling.clone(), seed, ..Settings::default() };
    let mut session = Session::open(model.clone(), tokenizer, prompt, Vec::new(), settings)?;
    while !session.is_finished() {
        pollster::block_on(session.step(&sampling, Observe::default()))?;
    }
    Ok((session.prompt().to_vec(), session.generated().to_vec()))
}

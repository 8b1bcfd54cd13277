//! A *session* is one run of a model over one prompt: it holds the tokens so far and their cache, and each step adds a
//! token.
//!
//! It knows no clock, so the steps it returns say 0 milliseconds; whoever has a clock fills that in.

use std::ops::Range;
use std::rc::Rc;

use inferscope_sampler::{coin, draw};
use inferscope_trace::{
    Attention, Finish, KeyValues, ModelInfo, Observe, Phase, Sampling, Settings, Step, TokenId, Work,
};

use crate::{LanguageModel, Model, ModelError, SequenceCache, Tokenizer};

/// Why a session can not do what was asked. Except for a failed device, it can go on as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("the prompt is {tokens} tokens long, and the model's context window holds {context}")]
    PromptTooLong { tokens: usize, context: usize },
    #[error("the number of new tokens must be at least 1")]
    NothingToGenerate,
    #[error(
        "the run to be continued does not fit the model: {prompt} prompt tokens and {generated} generated ones, in a context window of {context}"
    )]
    ContinuationTooLong { prompt: usize, generated: usize, context: usize },
    #[error("token {token} is not in the model's vocabulary of {vocab_size}")]
    UnknownToken { token: TokenId, vocab_size: usize },
    #[error("the draft model has {draft} tokens and the target {target}; they must have the same")]
    OtherVocabulary { draft: usize, target: usize },
    #[error("the run has ended")]
    Finished,
    #[error("step {step} has not been run; there are {steps} so far")]
    NoSuchStep { step: usize, steps: usize },
    #[error(transparent)]
    Model(#[from] ModelError),
}

pub struct Session<M: LanguageModel = Model> {
    model: Rc<M>,
    /// The tokens of which the first to be generated ends the text.
    ends: Vec<TokenId>,
    settings: Settings,
    /// The prompt, then what was generated.
    tokens: Vec<TokenId>,
    prompt_len: usize,
    cache: M::Cache,
    /// The positions that each step ran.
    steps: Vec<Range<usize>>,
}

impl<M: LanguageModel> Session<M> {
    /// Prepares a run. An empty prompt is the BOS token alone. `generated` is empty, or holds the tokens of a run that
    /// is to be continued; the next step then runs all positions that the cache lacks.
    ///
    /// # Errors
    /// When the prompt or the continued run does not fit into the context, when no token is to be generated, or when a
    /// generated token is not in the vocabulary.
    pub fn open(
        model: Rc<M>,
        tokenizer: &Tokenizer,
        prompt: &str,
        generated: Vec<TokenId>,
        settings: Settings,
    ) -> Result<Self, SessionError> {
        let ModelInfo { context, vocab_size, .. } = *model.info();
        let Opening { mut tokens, ends } = Opening::new(model.info(), tokenizer, prompt, &settings)?;
        let prompt_len = tokens.len();
        // The last token generated has not been run, so it needs no position.
        if prompt_len + generated.len() > context + 1 {
            return Err(SessionError::ContinuationTooLong { prompt: prompt_len, generated: generated.len(), context });
        }
        if let Some(&token) = generated.iter().find(|&&token| token as usize >= vocab_size) {
            return Err(SessionError::UnknownToken { token, vocab_size });
        }
        let steps = (0..generated.len()).map(|index| usual_positions(index, prompt_len, settings.cache)).collect();
        tokens.extend(generated);
        let cache = model.new_cache(&settings.layout);
        Ok(Self { model, ends, settings, tokens, prompt_len, cache, steps })
    }

    /// The prompt's tokens, BOS first.
    pub fn prompt(&self) -> &[TokenId] {
        &self.tokens[..self.prompt_len]
    }

    /// The tokens generated so far, one for each step.
    pub fn generated(&self) -> &[TokenId] {
        &self.tokens[self.prompt_len..]
    }

    pub fn is_finished(&self) -> bool {
        self.finish().is_some()
    }

    /// Why the run has ended, if it has.
    pub fn finish(&self) -> Option<Finish> {
        finish(&self.tokens, self.prompt_len, &self.ends, self.settings.max_new_tokens, self.model.info().context)
    }

    /// Another run that shares this one's prompt and first `step` generated tokens, and has `token` where step `step` drew
    /// one; it generates `max_new_tokens` in all. Its cache is a copy of this one's, cut back to the columns that both share,
    /// so nothing is computed again; this run stays as it is.
    ///
    /// # Errors
    /// When step `step` has not been run, or `token` is not in the vocabulary.
    pub fn branch(&self, step: usize, token: TokenId, max_new_tokens: usize) -> Result<Self, SessionError> {
        let (steps, vocab_size) = (self.steps.len(), self.model.info().vocab_size);
        let shared = self.steps.get(..=step).ok_or(SessionError::NoSuchStep { step, steps })?;
        if token as usize >= vocab_size {
            return Err(SessionError::UnknownToken { token, vocab_size });
        }
        let mut tokens = self.tokens[..self.prompt_len + step].to_vec();
        let mut cache = self.cache.clone();
        // A session that continues another's run may hold fewer.
        let kept = if self.settings.cache { tokens.len().min(cache.len()) } else { 0 };
        cache.truncate(kept);
        tokens.push(token);
        Ok(Self {
            model: self.model.clone(),
            ends: self.ends.clone(),
            settings: Settings { max_new_tokens, ..self.settings.clone() },
            tokens,
            prompt_len: self.prompt_len,
            cache,
            steps: shared.to_vec(),
        })
    }

    /// Columns that the cache holds.
    pub fn columns(&self) -> usize {
        self.cache.len()
    }

    /// Runs the model for every position that the cache lacks and draws the next token: for the first step that is the
    /// whole prompt, then one position a step. Without the cache it is always everything.
    ///
    /// # Errors
    /// When the run has ended or the model fails. The session is then as it was, as it also is when the future is
    /// dropped before it is done.
    pub async fn step(
        &mut self,
        sampling: &Sampling,
        observe: Observe,
    ) -> Result<(Step, Option<Finish>), SessionError> {
        if self.is_finished() {
            return Err(SessionError::Finished);
        }
        if !self.settings.cache {
            self.cache.truncate(0);
        }
        let positions = self.cache.len()..self.tokens.len();
        let output = self.model.forward(&self.tokens[positions.clone()], &mut self.cache, observe).await?;

        let index = self.steps.len();
        let coin = coin(self.settings.seed, index);
        let token = draw(&output.logits, sampling, coin);
        let step = Step {
            index,
            phase: if index == 0 { Phase::Prefill } else { Phase::Decode },
            first_position: positions.start,
            positions: positions.len(),
            token,
            coin,
            chosen: false,
            logits: output.logits,
            sampling: sampling.clone(),
            work: Work::of_step(
                self.model.info(),
                positions.start,
                positions.len(),
                self.settings.cache.then_some(&self.settings.layout),
            ),
            milliseconds: 0.0,
            attention: output.attention,
            kv: output.kv,
        };
        self.steps.push(positions);
        self.tokens.push(token);
        Ok((step, self.finish()))
    }

    /// Looks back at a step: the columns it computed, read from the cache, and how its positions attended, found by
    /// running them again on a copy of the cache. The session is not changed.
    ///
    /// # Errors
    /// When there is no such step yet, or the model fails.
    pub async fn inspect(
        &self,
        step: usize,
        observe: Observe,
    ) -> Result<(Option<Attention>, Option<KeyValues>), SessionError> {
        let steps = self.steps.len();
        let positions = self.steps.get(step).cloned().ok_or(SessionError::NoSuchStep { step, steps })?;
        let mut cache = self.cache.clone();
        let mut attention = None;
        // A session that continues another's run may not have filled its cache yet.
        let rows = observe.attention.count(positions.len());
        if rows > 0 || (observe.kv && cache.len() < positions.end) {
            cache.truncate(positions.end - rows.max(1));
            let again = &self.tokens[cache.len()..positions.end];
            let only_attention = Observe { attention: observe.attention, kv: false };
            attention = self.model.forward(again, &mut cache, only_attention).await?.attention;
        }
        let kv = match observe.kv {
            true => self.model.key_values(&cache, positions).await?,
            false => None,
        };
        Ok((attention, kv))
    }
}

/// What every run begins with.
pub(crate) struct Opening {
    /// The prompt's, BOS first.
    pub tokens: Vec<TokenId>,
    /// Those that end a text.
    pub ends: Vec<TokenId>,
}

impl Opening {
    /// # Errors
    /// When the prompt does not fit into the context or no token is to be generated.
    pub fn new(
        model: &ModelInfo,
        tokenizer: &Tokenizer,
        prompt: &str,
        settings: &Settings,
    ) -> Result<Self, SessionError> {
        let tokens = tokenizer.encode(prompt);
        if settings.max_new_tokens == 0 {
            return Err(SessionError::NothingToGenerate);
        }
        if tokens.len() > model.context {
            return Err(SessionError::PromptTooLong { tokens: tokens.len(), context: model.context });
        }
        let ends = (0..model.vocab_size as TokenId).filter(|&token| tokenizer.is_end(token)).collect();
        Ok(Self { tokens, ends })
    }
}

/// Why a run that wrote `tokens`, the prompt's among them, has ended, if it has.
pub(crate) fn finish(
    tokens: &[TokenId],
    prompt_len: usize,
    ends: &[TokenId],
    max_new_tokens: usize,
    context: usize,
) -> Option<Finish> {
    let generated = &tokens[prompt_len..];
    let last = generated.last()?;
    if ends.contains(last) {
        Some(Finish::EndOfText)
    } else if generated.len() >= max_new_tokens {
        Some(Finish::Length)
    } else if tokens.len() > context {
        Some(Finish::Context)
    } else {
        None
    }
}

/// The positions that a step runs when nothing came between it and the one before.
fn usual_positions(index: usize, prompt_len: usize, cached: bool) -> Range<usize> {
    let end = prompt_len + index;
    if cached && index > 0 { end - 1..end } else { 0..end }
}

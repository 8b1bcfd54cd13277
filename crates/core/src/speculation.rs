//! A *speculation* is one run in which a small draft model proposes the next few tokens and the target judges all of them in one
//! pass; the text is distributed exactly as if the target had written it alone (Leviathan et al. 2023, "Fast Inference from
//! Transformers via Speculative Decoding").
//!
//! Like a session it knows no clock: whoever has one is asked for the time between the two models.

use std::rc::Rc;

use inferscope_sampler::{Law, Purpose, coin, coin_for, judge, residual};
use inferscope_trace::{Finish, Guess, Judged, Own, Round, Sampling, Settings, TokenId};

use crate::session::{Opening, finish};
use crate::{LanguageModel, Model, Sequence, SequenceCache, SessionError, Tokenizer};

pub struct Speculation<M: LanguageModel = Model> {
    target: Side<M>,
    draft: Side<M>,
    ends: Vec<TokenId>,
    settings: Settings,
    /// The prompt, then what was generated.
    tokens: Vec<TokenId>,
    prompt_len: usize,
    rounds: usize,
}

/// One of the two models with its own cache of the text.
struct Side<M: LanguageModel> {
    model: Rc<M>,
    cache: M::Cache,
}

impl<M: LanguageModel> Side<M> {
    fn new(model: Rc<M>, settings: &Settings) -> Self {
        Self { cache: model.new_cache(&settings.layout), model }
    }

    /// Runs what the cache lacks of `tokens`, and gives the logits of the last positions, with how many were run.
    async fn run(&mut self, tokens: &[TokenId], logits: usize) -> Result<(Vec<Vec<f32>>, usize), SessionError> {
        let new = &tokens[self.cache.len()..];
        let mut sequences = [Sequence { tokens: new, cache: &mut self.cache, logits }];
        let mut all = self.model.forward_batch(&mut sequences).await?;
        Ok((all.remove(0), new.len()))
    }
}

impl<M: LanguageModel> Speculation<M> {
    /// Prepares a run. An empty prompt is the BOS token alone.
    ///
    /// # Errors
    /// When the models have different vocabularies, the prompt does not fit into either context, or no token is to be
    /// generated.
    pub fn open(
        target: Rc<M>,
        draft: Rc<M>,
        tokenizer: &Tokenizer,
        prompt: &str,
        settings: Settings,
    ) -> Result<Self, SessionError> {
        if target.info().vocab_size != draft.info().vocab_size {
            return Err(SessionError::OtherVocabulary {
                draft: draft.info().vocab_size,
                target: target.info().vocab_size,
            });
        }
        Opening::new(draft.info(), tokenizer, prompt, &settings)?;
        let Opening { tokens, ends } = Opening::new(target.info(), tokenizer, prompt, &settings)?;
        Ok(Self {
            target: Side::new(target, &settings),
            draft: Side::new(draft, &settings),
            ends,
            prompt_len: tokens.len(),
            tokens,
            settings,
            rounds: 0,
        })
    }

    /// The prompt's tokens, BOS first.
    pub fn prompt(&self) -> &[TokenId] {
        &self.tokens[..self.prompt_len]
    }

    pub fn generated(&self) -> &[TokenId] {
        &self.tokens[self.prompt_len..]
    }

    /// Why the run has ended, if it has.
    pub fn finish(&self) -> Option<Finish> {
        let context = self.target.model.info().context.min(self.draft.model.info().context);
        finish(&self.tokens, self.prompt_len, &self.ends, self.settings.max_new_tokens, context)
    }

    /// One round with up to `gamma` proposals: fewer where the run or the context ends. The first round is the prefill of
    /// both models, and proposes nothing. `clock` gives milliseconds.
    ///
    /// # Errors
    /// When the run has ended or a model fails. The tokens are then as they were.
    pub async fn round(
        &mut self,
        sampling: &Sampling,
        gamma: usize,
        clock: &impl Fn() -> f64,
    ) -> Result<(Round, Option<Finish>), SessionError> {
        if self.finish().is_some() {
            return Err(SessionError::Finished);
        }
        let before = self.tokens.len();
        let begin = clock();
        let (guesses, laws, draft_positions, draft_passes) = self.propose(sampling, gamma).await?;
        let middle = clock();

        let mut judged_text = self.tokens.clone();
        judged_text.extend(guesses.iter().map(|guess| guess.token));
        let (logits, target_positions) = self.target.run(&judged_text, guesses.len() + 1).await?;
        let (guesses, own, token, coin) = self.judge(sampling, guesses, &laws, &logits);

        let accepted = guesses.iter().filter(|guess| guess.judged.is_some_and(|it| it.accepted)).count();
        let written = guesses[..accepted].iter().map(|guess| guess.token).chain([token]);
        for token in written {
            if self.finish().is_none() {
                self.tokens.push(token);
            }
        }
        // Columns of tokens that did not become part of the text, and that of the newest, which no model has to have run.
        let (held, kept) = (self.target.cache.len(), self.tokens.len() - 1);
        self.target.cache.truncate(kept);
        self.draft.cache.truncate(kept);
        let round = Round {
            index: self.rounds,
            before,
            guesses,
            token,
            own,
            coin,
            added: self.tokens.len() - before,
            target_positions,
            draft_positions,
            draft_passes,
            rolled_back: held.saturating_sub(kept),
            draft_milliseconds: middle - begin,
            target_milliseconds: clock() - middle,
        };
        self.rounds += 1;
        Ok((round, self.finish()))
    }

    /// The draft's proposals, each with the distribution it was drawn from, and the positions and passes they took.
    async fn propose(
        &mut self,
        sampling: &Sampling,
        gamma: usize,
    ) -> Result<(Vec<Guess>, Vec<Vec<f32>>, usize, usize), SessionError> {
        let mut text = self.tokens.clone();
        if self.rounds == 0 {
            let (_, positions) = self.draft.run(&text, 1).await?;
            return Ok((Vec::new(), Vec::new(), positions, 1));
        }
        // The target's pass needs a position for each proposal, and writes one more token itself.
        let generated = text.len() - self.prompt_len;
        let context = self.target.model.info().context.min(self.draft.model.info().context);
        let room = (self.settings.max_new_tokens - generated - 1).min(context - text.len());
        let (mut guesses, mut laws, mut positions) = (Vec::new(), Vec::new(), 0);
        for _ in 0..gamma.min(room) {
            let (logits, ran) = self.draft.run(&text, 1).await?;
            let law = Law::new(&logits[0], sampling);
            let place = text.len() - self.prompt_len;
            let token = law.draw(coin_for(Purpose::Draft, self.settings.seed, place));
            let law = law.by_id();
            guesses.push(Guess { token, q: law[token as usize], judged: None });
            laws.push(law);
            text.push(token);
            positions += ran;
        }
        let passes = guesses.len();
        Ok((guesses, laws, positions, passes))
    }

    /// The target's verdict on each proposal, up to the first that it rejects, and the token that it writes itself.
    fn judge(
        &self,
        sampling: &Sampling,
        mut guesses: Vec<Guess>,
        laws: &[Vec<f32>],
        logits: &[Vec<f32>],
    ) -> (Vec<Guess>, Own, TokenId, f64) {
        let seed = self.settings.seed;
        let first = self.tokens.len() - self.prompt_len;
        for (index, (guess, law)) in guesses.iter_mut().zip(laws).enumerate() {
            let target = Law::new(&logits[index], sampling).by_id();
            let acceptance = coin_for(Purpose::Acceptance, seed, first + index);
            let verdict = judge(&target, law, guess.token, acceptance);
            guess.judged = Some(Judged { p: verdict.p, coin: acceptance, accepted: verdict.accepted });
            if !verdict.accepted {
                let coin = coin(seed, first + index);
                let token = residual(&target, law, coin);
                return (guesses, Own::Replacement, token, coin);
            }
        }
        let coin = coin(seed, first + guesses.len());
        let token = Law::new(&logits[guesses.len()], sampling).draw(coin);
        let own = if self.rounds == 0 { Own::First } else { Own::Bonus };
        (guesses, own, token, coin)
    }
}

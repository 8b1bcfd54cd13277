//! The *speculative frame* is one round of a draft and a target: what was proposed, what the target made of it, and what came
//! into the text; with the rounds before it, and what they come to beside the published formula.

use inferscope_trace::{Own, Round, SpeculationTrace, TokenId};

use crate::Moment;

/// Who wrote a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    Prompt,
    /// The draft proposed it and the target kept it.
    Draft,
    /// The target, for one of three reasons.
    Target(Own),
}

/// How far a proposed token has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The draft has drawn it; the target has yet to look.
    Proposed,
    Accepted,
    Rejected,
    /// It came after a rejected one: nobody looks at it.
    Dropped,
}

impl Fate {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Dropped => "dropped",
        }
    }
}

/// A proposed token as a card.
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    pub text: String,
    pub q: f32,
    /// Once the target has looked.
    pub p: Option<f32>,
    /// The uniform number and the ratio p / q that it had to stay below, once it was judged.
    pub judged: Option<(f64, f64)>,
    pub fate: Fate,
}

/// A round as one line of marks.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundRow {
    pub index: usize,
    pub fates: Vec<Fate>,
    pub own: Own,
    pub added: usize,
    pub current: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SpeculativeFrame {
    pub round: usize,
    pub cards: Vec<Card>,
    /// The token that the target wrote itself, once it is drawn.
    pub own: Option<(String, Own)>,
    pub pieces: Vec<(String, Author)>,
    pub rounds: Vec<RoundRow>,
    /// What happens at this moment, in a sentence.
    pub caption: String,
}

/// Where each part of a round's picture ends: the draft proposes, the target looks, the coins fall, the text grows.
const PROPOSED: f32 = 0.35;
const LOOKED: f32 = 0.5;
const JUDGED: f32 = 0.85;

impl SpeculativeFrame {
    /// None before the first round.
    pub fn new(trace: &SpeculationTrace, moment: Moment) -> Option<Self> {
        let round = trace.rounds.get(moment.step).filter(|_| moment.steps_shown() > 0)?;
        let progress = moment.progress;
        let count = round.guesses.len();
        // One after the other, evenly.
        let share =
            |from: f32, to: f32| (((progress - from) / (to - from)).clamp(0.0, 1.0) * count as f32).ceil() as usize;
        let (proposed, looked) = (share(0.0, PROPOSED), progress > LOOKED || (count == 0 && progress > 0.0));
        let judged = share(LOOKED, JUDGED);
        let label = |token: TokenId| trace.vocabulary.label(token);
        let cards = round.guesses.iter().take(proposed).enumerate().map(|(index, guess)| {
            let verdict = guess.judged.filter(|_| looked && index < judged);
            Card {
                text: label(guess.token),
                q: guess.q,
                p: guess.judged.filter(|_| looked).map(|it| it.p),
                judged: verdict.map(|it| (it.coin, f64::from(it.p) / f64::from(guess.q.max(f32::MIN_POSITIVE)))),
                fate: fate(round, index, index < judged && looked),
            }
        });
        let appended = progress > JUDGED || (count == 0 && looked);
        let complete = moment.step + usize::from(appended);
        let row = |it: &std::sync::Arc<Round>| RoundRow {
            index: it.index,
            fates: (0..it.guesses.len()).map(|index| fate(it, index, true)).collect(),
            own: it.own,
            added: it.added,
            current: it.index == moment.step,
        };
        Some(Self {
            round: moment.step,
            cards: cards.collect(),
            own: appended.then(|| (label(round.token), round.own)),
            pieces: pieces(trace, complete),
            rounds: trace.rounds[..complete].iter().map(row).collect(),
            caption: caption(round, looked, appended),
        })
    }
}

fn fate(round: &Round, index: usize, judged: bool) -> Fate {
    match round.guesses[index].judged {
        _ if !judged => Fate::Proposed,
        Some(it) if it.accepted => Fate::Accepted,
        Some(_) => Fate::Rejected,
        None => Fate::Dropped,
    }
}

fn caption(round: &Round, looked: bool, appended: bool) -> String {
    let tokens = |n: usize| if n == 1 { "1 token".to_string() } else { format!("{n} tokens") };
    if round.own == Own::First {
        return format!(
            "Both models read the prompt, {} positions at once; the target writes the first token.",
            round.target_positions
        );
    }
    match (looked, appended) {
        (false, _) => format!("The draft proposes {}, one small pass each.", tokens(round.guesses.len())),
        (true, false) => format!(
            "The target looks at all of them in one pass over {} positions; each must pass its own random number.",
            round.target_positions
        ),
        (true, true) => {
            let own = match round.own {
                _ if round.guesses.is_empty() => "Only one token was left to write, so nothing was proposed",
                Own::Replacement => {
                    "The first that fails is replaced by a token drawn from what the target has more of, max(0, p − q)"
                }
                _ => "All passed, so the same pass gives one token more",
            };
            let back = match round.rolled_back {
                0 => String::new(),
                1 => "; 1 column of the cache is taken back".into(),
                n => format!("; {n} columns of the cache are taken back"),
            };
            format!("{own}{back}. This round added {}.", tokens(round.added))
        }
    }
}

/// The text after the first `rounds` rounds, token by token. Control tokens write nothing and are left out.
fn pieces(trace: &SpeculationTrace, rounds: usize) -> Vec<(String, Author)> {
    let prompt = trace.prompt.tokens.iter().map(|&token| (token, Author::Prompt));
    let written = trace.rounds.iter().take(rounds).flat_map(|round| {
        let accepted = round.guesses[..round.accepted()].iter().map(|guess| (guess.token, Author::Draft));
        accepted.chain([(round.token, Author::Target(round.own))]).take(round.added).collect::<Vec<_>>()
    });
    let mut previous = None;
    let mut all = Vec::new();
    for (token, author) in prompt.chain(written) {
        let text = trace.vocabulary.text(previous, &[token]);
        if !text.is_empty() {
            all.push((text, author));
        }
        previous = Some(token);
    }
    all
}

/// Tokens that a target pass is expected to give with `gamma` proposals that are each accepted with probability `alpha`:
/// (1 − α^(γ+1)) / (1 − α) (Leviathan et al. 2023, equation 1).
pub fn expected_tokens(alpha: f64, gamma: usize) -> f64 {
    if alpha >= 1.0 { gamma as f64 + 1.0 } else { (1.0 - alpha.powi(gamma as i32 + 1)) / (1.0 - alpha) }
}

/// What some rounds came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yield {
    /// Rounds with proposals.
    pub rounds: usize,
    pub judged: usize,
    pub accepted: usize,
    /// Of the proposals that were judged.
    pub acceptance: f64,
    /// Tokens added for each pass of the target, the prefill left out.
    pub tokens_per_pass: f64,
    /// By the formula, with the measured acceptance and each round's own number of proposals.
    pub expected: f64,
    /// Milliseconds of both models in the median round, and of one of the draft's passes in its own.
    pub round: f64,
    pub draft_pass: f64,
}

impl Yield {
    /// Of the first `rounds` rounds; None while none of them proposed anything.
    pub fn of(trace: &SpeculationTrace, rounds: usize) -> Option<Self> {
        let all: Vec<&Round> =
            trace.rounds.iter().take(rounds).map(AsRef::as_ref).filter(|round| !round.guesses.is_empty()).collect();
        let judged: usize = all.iter().map(|round| round.guesses.iter().filter(|it| it.judged.is_some()).count()).sum();
        if judged == 0 {
            return None;
        }
        let accepted: usize = all.iter().map(|round| round.accepted()).sum();
        let acceptance = accepted as f64 / judged as f64;
        let n = all.len() as f64;
        Some(Self {
            rounds: all.len(),
            judged,
            accepted,
            acceptance,
            tokens_per_pass: all.iter().map(|round| round.added).sum::<usize>() as f64 / n,
            expected: all.iter().map(|round| expected_tokens(acceptance, round.guesses.len())).sum::<f64>() / n,
            round: median(all.iter().map(|round| round.draft_milliseconds + round.target_milliseconds)),
            draft_pass: median(all.iter().map(|round| round.draft_milliseconds / round.draft_passes.max(1) as f64)),
        })
    }

    /// How much faster than the target alone, by the formula: expected tokens / (γ c + 1), where c is the time of a pass of
    /// the draft in passes of the target over one position (`target_pass` milliseconds).
    pub fn speed_up(&self, gamma: usize, target_pass: f64) -> f64 {
        expected_tokens(self.acceptance, gamma) / (gamma as f64 * self.cost(target_pass) + 1.0)
    }

    pub fn cost(&self, target_pass: f64) -> f64 {
        self.draft_pass / target_pass
    }

    /// How much faster it was: the target alone would have taken a pass for each of a round's tokens.
    pub fn measured_speed_up(&self, target_pass: f64) -> f64 {
        target_pass * self.tokens_per_pass / self.round
    }
}

/// The first rounds of a run grow the engine's memory, so a mean would be about them.
fn median(times: impl Iterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use inferscope_trace::{Guess, Judged, Prompt};

    use super::*;
    use crate::fixture;

    fn guess(token: TokenId, accepted: Option<bool>) -> Guess {
        let judged = accepted.map(|accepted| Judged { p: 0.2, coin: if accepted { 0.3 } else { 0.9 }, accepted });
        Guess { token, q: 0.4, judged }
    }

    fn round(index: usize, before: usize, guesses: Vec<Guess>, own: Own) -> Round {
        let accepted = guesses.iter().filter(|it| it.judged.is_some_and(|it| it.accepted)).count();
        Round {
            index,
            before,
            target_positions: guesses.len() + 1,
            draft_positions: guesses.len(),
            draft_passes: guesses.len(),
            rolled_back: guesses.len() - accepted,
            guesses,
            token: 5,
            own,
            coin: 0.5,
            added: accepted + 1,
            draft_milliseconds: 1.0,
            target_milliseconds: 2.0,
        }
    }

    fn run() -> SpeculationTrace {
        let trace = fixture::trace(3, 1, true);
        SpeculationTrace {
            target: trace.model.clone(),
            draft: trace.model,
            vocabulary: trace.vocabulary,
            backend: trace.backend,
            settings: trace.settings,
            prompt: Prompt { text: "a b".into(), tokens: vec![1, 2, 3] },
            rounds: [
                round(0, 3, vec![], Own::First),
                round(1, 4, vec![guess(2, Some(true)), guess(3, Some(false)), guess(4, None)], Own::Replacement),
                round(2, 6, vec![guess(2, Some(true)), guess(3, Some(true))], Own::Bonus),
            ]
            .map(Arc::new)
            .to_vec(),
            finish: None,
        }
    }

    #[test]
    fn a_round_proposes_then_is_looked_at_then_judged_then_written() {
        let run = run();
        let frame = |progress| SpeculativeFrame::new(&run, Moment { step: 1, progress }).unwrap();
        let fates = |progress| frame(progress).cards.iter().map(|card| card.fate).collect::<Vec<_>>();
        assert_eq!(fates(0.05), [Fate::Proposed]);
        assert_eq!(fates(0.35), [Fate::Proposed; 3]);
        assert!(frame(0.45).cards.iter().all(|card| card.p.is_none()));
        assert_eq!(fates(0.6), [Fate::Accepted, Fate::Proposed, Fate::Proposed]);
        assert_eq!(frame(0.6).cards[1].p, Some(0.2), "the target looks at all of them at once");
        assert_eq!(fates(1.0), [Fate::Accepted, Fate::Rejected, Fate::Dropped]);
        assert!(frame(1.0).cards[1].judged.is_some_and(|(coin, ratio)| coin == 0.9 && (ratio - 0.5).abs() < 1e-6));
        assert_eq!((frame(0.8).own, frame(1.0).own), (None, Some((" d".into(), Own::Replacement))));
        let words = |progress| frame(progress).pieces.iter().map(|(text, _)| text.clone()).collect::<String>();
        assert_eq!((words(0.5), words(1.0)), ("a b d".into(), "a b d a d".into()));
        assert!(frame(1.0).caption.contains("2 columns of the cache are taken back"));
        assert_eq!(SpeculativeFrame::new(&run, Moment::START), None);
        assert_eq!(run.text(), " d a d a b d");
    }

    #[test]
    fn the_formula_gives_the_published_example() {
        assert!((expected_tokens(0.8, 5) - 3.69).abs() < 0.005);
        assert_eq!(expected_tokens(1.0, 5), 6.0);
        let mut example = Yield::of(&run(), 3).unwrap();
        (example.acceptance, example.draft_pass) = (0.8, 0.5);
        assert!((example.speed_up(5, 10.0) - 2.95).abs() < 0.005);
    }

    #[test]
    fn what_rounds_come_to_is_counted_from_them() {
        let run = run();
        assert_eq!(Yield::of(&run, 1), None, "the prefill proposes nothing");
        let all = Yield::of(&run, 3).unwrap();
        assert_eq!((all.rounds, all.judged, all.accepted, all.acceptance), (2, 4, 3, 0.75));
        assert_eq!(all.tokens_per_pass, 2.5);
        assert!((all.expected - (expected_tokens(0.75, 3) + expected_tokens(0.75, 2)) / 2.0).abs() < 1e-12);
        // The draft takes 1 ms for three passes, or for two; a round takes 3 ms for 2.5 tokens, which the target alone writes in
        // 3 ms each.
        assert!((all.cost(2.0) - 0.25).abs() < 1e-12 && (all.measured_speed_up(3.0) - 2.5).abs() < 1e-12);
    }
}

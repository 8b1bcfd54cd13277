//! A *warm-up* runs the model for nothing before it is called ready, so that the reader's first token is not the one that
//! waits: a GPU builds a pipeline for each kind of operation the first time it is used.

use std::rc::Rc;

use inferscope_core::{LanguageModel, Model, Session, SessionError, Tokenizer};
use inferscope_trace::{Observe, Rows, Sampling, Settings, TokenId};

/// How much to run. All of it is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// A prefill and a token, for a processor: it has nothing to prepare, but the first steps grow its memory.
    Brief,
    /// Each kind of step once, for a GPU that is emulated on the processor, where all this takes long.
    Usual,
    /// Each kind of step at short, usual and long lengths, for a GPU.
    Full,
}

/// One session of a warm-up.
struct Exercise {
    /// Positions that its first step runs at once.
    positions: usize,
    cache: bool,
    steps: usize,
    observe: Observe,
}

const UNSEEN: Observe = Observe { attention: Rows::None, kv: false };
/// Looking only adds operations to a step, so a step that was looked at has warmed the others too.
const SEEN: Observe = Observe { attention: Rows::Last, kv: true };

const BRIEF: [Exercise; 1] = [Exercise { positions: 8, cache: true, steps: 2, observe: UNSEEN }];

/// burn builds an operation anew according to how the lengths in it divide: by 4, by 2, or not at all. So the prefills are
/// of each kind, and the first is followed by decode steps up to the next length of its own kind.
const USUAL: [Exercise; 2] = [
    Exercise { positions: 16, cache: true, steps: 5, observe: SEEN },
    Exercise { positions: 13, cache: false, steps: 2, observe: SEEN },
];

/// Matrix products are built anew for very short, and for ever longer, lengths too. These were found by watching which
/// pipelines a browser creates.
const FURTHER: [Exercise; 6] = [
    Exercise { positions: 2, cache: true, steps: 4, observe: SEEN },
    Exercise { positions: 3, cache: true, steps: 2, observe: SEEN },
    Exercise { positions: 63, cache: true, steps: 3, observe: SEEN },
    Exercise { positions: 64, cache: false, steps: 1, observe: SEEN },
    Exercise { positions: 121, cache: false, steps: 4, observe: SEEN },
    Exercise { positions: 200, cache: false, steps: 4, observe: SEEN },
];

impl WarmUp {
    /// # Errors
    /// What a session fails with, a lost device above all.
    pub async fn run(self, model: &Rc<Model>, tokenizer: &Tokenizer) -> Result<(), SessionError> {
        let (first, further): (&[Exercise], &[Exercise]) = match self {
            Self::Brief => (&BRIEF, &[]),
            Self::Usual => (&USUAL, &[]),
            Self::Full => (&USUAL, &FURTHER),
        };
        for exercise in first.iter().chain(further) {
            exercise.run(model, tokenizer).await?;
        }
        Ok(())
    }
}

impl Exercise {
    async fn run(&self, model: &Rc<Model>, tokenizer: &Tokenizer) -> Result<(), SessionError> {
        let context = model.info().context;
        // A run that is continued begins with all its positions in one step, and so can be given any length: the prompt
        // is the BOS token alone, and what follows is any token that does not end the run.
        let bos = tokenizer.vocabulary().bos;
        let filler = TokenId::from(bos == 0);
        let generated = vec![filler; self.positions.min(context) - 1];
        let settings = Settings { max_new_tokens: usize::MAX, cache: self.cache, ..Settings::default() };
        let mut session = Session::open(model.clone(), tokenizer, "", generated, settings)?;
        for _ in 0..self.steps {
            if session.is_finished() {
                break;
            }
            session.step(&Sampling::default(), self.observe).await?;
        }
        let last_step = session.generated().len() - 1;
        session.inspect(last_step, self.observe).await?;
        Ok(())
    }
}

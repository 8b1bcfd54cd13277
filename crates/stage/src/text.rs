//! The *text* is what the reader reads: the prompt and, token by token, what the model adds.

use inferscope_trace::{TokenId, Trace};

use crate::{
    Moment,
    moment::{Beat, beat_progress},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    Prompt,
    Generated,
    /// Generated in the step on screen.
    Newest,
    /// The token that ends the text; it writes nothing.
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TextPiece {
    pub position: usize,
    pub id: TokenId,
    pub text: String,
    pub voice: Voice,
}

/// The text as of `moment`, a piece a token. The BOS token in front writes nothing and is left out.
pub fn text_pieces(trace: &Trace, moment: Moment) -> Vec<TextPiece> {
    let Some(step) = trace.steps.get(moment.step) else {
        return Vec::new();
    };
    let appended = beat_progress(step.phase, Beat::Append, moment.progress) > 0.0;
    let generated = trace.generated(moment.step + usize::from(appended));
    let tokens: Vec<TokenId> = trace.prompt.tokens.iter().copied().chain(generated).collect();
    let mut previous = None;
    let mut pieces = Vec::with_capacity(tokens.len());
    for (position, &id) in tokens.iter().enumerate() {
        let control = trace.vocabulary.pieces.get(id as usize).is_none_or(|piece| piece.control);
        let voice = match position.checked_sub(trace.prompt.tokens.len()) {
            None => Voice::Prompt,
            Some(_) if control => Voice::End,
            Some(index) if index == moment.step => Voice::Newest,
            Some(_) => Voice::Generated,
        };
        if voice == Voice::End {
            pieces.push(TextPiece { position, id, text: trace.vocabulary.label(id), voice });
        } else if !control {
            pieces.push(TextPiece { position, id, text: trace.vocabulary.text(previous, &[id]), voice });
        }
        previous = Some(id);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::trace;

    #[test]
    fn the_newest_token_appears_with_the_append_beat() {
        let trace = trace(3, 3, true);
        let voices = |moment| text_pieces(&trace, moment).iter().map(|piece| piece.voice).collect::<Vec<_>>();
        // BOS is left out.
        assert_eq!(voices(Moment { step: 1, progress: 0.5 }), [Voice::Prompt, Voice::Prompt, Voice::Generated]);
        assert_eq!(voices(Moment::end_of(1)), [Voice::Prompt, Voice::Prompt, Voice::Generated, Voice::Newest]);
    }

    #[test]
    fn pieces_join_to_the_trace_text() {
        let trace = trace(3, 4, true);
        let pieces = text_pieces(&trace, Moment::end_of(3));
        let generated: String =
            pieces.iter().filter(|piece| piece.voice != Voice::Prompt).map(|piece| piece.text.as_str()).collect();
        assert_eq!(generated, trace.text());
    }
}

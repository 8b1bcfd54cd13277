//! The text that the model writes, a token a piece: where the cache is on screen too, a click on one shows its attention.

use inferscope_stage::{Status, TextPiece, Voice, scenes::Panel, text_pieces};
use inferscope_trace::Finish;
use leptos::{html, prelude::*};

use super::cache::pick_focus;
use crate::{signal::Memo, widget::Widget};

/// Of usual text in the models' vocabularies, and the width of a letter in CSS pixels.
const LETTERS_A_TOKEN: usize = 4;
const LETTER_PX: f32 = 8.7;

pub fn view(widget: Widget) -> impl IntoView {
    let pieces = Memo::new(move |()| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().map(|trace| text_pieces(trace, moment)).unwrap_or_default())
    });
    let of = move |want: fn(Voice) -> bool| {
        pieces.with(|pieces| pieces.iter().filter(|piece| want(piece.voice)).cloned().collect::<Vec<_>>())
    };
    let focus = Memo::new(move |()| widget.selection.with(|selection| selection.focus));
    let spans = move |want: fn(Voice) -> bool| {
        view! { {move || of(want).into_iter().map(|piece| span(piece, focus.get())).collect_view()} }
    };
    let section = NodeRef::<html::Section>::new();
    let width = super::width_of(section);
    // Room for the whole run from the start, so that nothing below it moves while it is written.
    let lines = Memo::new(move |()| {
        let letters = widget.trace.with(|trace| match trace {
            Some(trace) if trace.finish.is_some() => trace.prompt.text.len() + trace.text().len(),
            Some(trace) => {
                trace.prompt.text.len() + trace.settings.max_new_tokens.min(trace.model.context) * LETTERS_A_TOKEN
            }
            None => {
                let tokens = widget.settings.with(|settings| settings.max_new_tokens.min(256));
                widget.prompt.with(String::len) + tokens * LETTERS_A_TOKEN
            }
        });
        // No more than fit on a screen.
        (letters as f32 * LETTER_PX / (width.get().unwrap_or(super::TYPICAL_WIDTH) - 36.0).max(200.0))
            .ceil()
            .clamp(2.0, 9.0)
    });
    let ending = move || {
        let at_end = widget.player.with(|player| player.status == Status::Done);
        widget.trace.with(|trace| match trace.as_ref().filter(|_| at_end)?.finish? {
            Finish::EndOfText => None,
            Finish::Length => Some(format!("stopped after the {} tokens asked for", trace.as_ref()?.steps.len())),
            Finish::Context => Some("stopped: the context window is full".to_string()),
        })
    };
    let opens = widget.scene.panels.contains(&Panel::Cache);
    view! {
        <section class="panel story" aria-label="Text" node_ref=section class:opens=opens style=move || format!("--lines:{}", lines.get() as u32) on:click=move |event| {
            if opens {
                pick_focus(widget, &event);
            }
        }>
            <p>
                <Show
                    when=move || pieces.with(|pieces| !pieces.is_empty())
                    fallback=move || view! { <span class="ghost">{move || widget.prompt.get()}</span> }
                >
                    <span class="said">{spans(|voice| voice == Voice::Prompt)}</span>
                    <span data-part="text">
                        {spans(|voice| voice == Voice::Generated)}
                        <Show when=move || pieces.with(|pieces| pieces.iter().any(|piece| piece.voice == Voice::Newest))>
                            <mark data-part="newest">{spans(|voice| voice == Voice::Newest)}</mark>
                        </Show>
                    </span>
                    <Show when=move || pieces.with(|pieces| pieces.iter().any(|piece| piece.voice == Voice::End))>
                        <span class="end" title="The model wrote its end-of-text token">"■"</span>
                    </Show>
                    {move || ending().map(|words| view! { <span class="stopped" data-part="ending">{words}</span> })}
                </Show>
            </p>
        </section>
    }
}

fn span(piece: TextPiece, focus: Option<usize>) -> impl IntoView {
    let position = piece.position;
    view! {
        <span data-focus=position.to_string() class:focused={focus == Some(position)}>{piece.text}</span>
    }
}

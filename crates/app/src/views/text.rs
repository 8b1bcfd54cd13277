//! The text that the model writes, a token a piece: where the cache is on screen too, a click on one shows its attention.

use inferscope_stage::{TextPiece, Voice, scenes::Panel, text_pieces};
use leptos::prelude::*;

use super::cache::pick_focus;
use crate::widget::Widget;

pub fn view(widget: Widget) -> impl IntoView {
    let pieces = Memo::new(move |_| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().map(|trace| text_pieces(trace, moment)).unwrap_or_default())
    });
    let of = move |want: fn(Voice) -> bool| {
        pieces.with(|pieces| pieces.iter().filter(|piece| want(piece.voice)).cloned().collect::<Vec<_>>())
    };
    let focus = Memo::new(move |_| widget.selection.with(|selection| selection.focus));
    let spans = move |want: fn(Voice) -> bool| {
        view! {
            <For each=move || of(want) key=|piece| (piece.position, piece.id) let(piece)>
                {span(piece, focus)}
            </For>
        }
    };
    let opens = widget.scene.panels.contains(&Panel::Cache);
    view! {
        <section class="panel story" aria-label="Text" class:opens=opens on:click=move |event| {
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
                </Show>
            </p>
        </section>
    }
}

fn span(piece: TextPiece, focus: Memo<Option<usize>>) -> impl IntoView {
    let position = piece.position;
    view! {
        <span data-focus=position.to_string() class:focused=move || focus.get() == Some(position)>{piece.text}</span>
    }
}

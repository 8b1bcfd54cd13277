//! The text that the model writes.

use inferscope_stage::{Voice, text_pieces};
use leptos::prelude::*;

use crate::widget::Widget;

pub fn view(widget: Widget) -> impl IntoView {
    let pieces = Memo::new(move |_| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().map(|trace| text_pieces(trace, moment)).unwrap_or_default())
    });
    let spoken = move |want: fn(Voice) -> bool| {
        pieces.with(|pieces| {
            pieces.iter().filter(|piece| want(piece.voice)).map(|piece| piece.text.as_str()).collect::<String>()
        })
    };
    view! {
        <section class="panel story" aria-label="Text">
            <p>
                <Show
                    when=move || pieces.with(|pieces| !pieces.is_empty())
                    fallback=move || view! { <span class="ghost">{move || widget.prompt.get()}</span> }
                >
                    <span class="said">{move || spoken(|voice| voice == Voice::Prompt)}</span>
                    <span data-part="text">
                        {move || spoken(|voice| voice == Voice::Generated)}
                        <Show when=move || pieces.with(|pieces| pieces.iter().any(|piece| piece.voice == Voice::Newest))>
                            <mark data-part="newest">{move || spoken(|voice| voice == Voice::Newest)}</mark>
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

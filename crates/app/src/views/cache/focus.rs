//! The token in focus: how the reader picks it, and its attention in words.

use inferscope_stage::CacheFrame;
use leptos::prelude::*;
use wasm_bindgen::JsCast;

use crate::{signal::Memo, widget::Widget};

/// A click on a token, here or in the text.
pub fn pick(widget: Widget, event: &web_sys::Event) {
    let target = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    let position = target.and_then(|target| target.get_attribute("data-focus")?.parse().ok());
    if position.is_some() {
        widget.focus_on(position);
    }
}

pub fn view(widget: Widget, frame: Memo<CacheFrame>) -> impl IntoView {
    let focus = Memo::new(move |()| frame.with(|frame| frame.focus.clone()));
    let words = move || {
        widget.trace.with(|trace| {
            let trace = trace.as_ref()?;
            focus.with(|focus| focus.as_ref().map(|focus| focus.words(trace)))
        })
    };
    view! {
        <div class="focus" data-part="focus" aria-live="polite">
            {move || match words() {
                None if widget.trace.with(Option::is_none) => None,
                None => Some(view! {
                    <p class="hint">"Click or tap a word to see which tokens it attends to, and which attend to it."</p>
                }.into_any()),
                Some(words) => Some(view! {
                    <p>{words}</p>
                    <button type="button" class="link" data-action="unfocus" on:click=move |_| widget.focus_on(None)>
                        "Follow the newest token"
                    </button>
                }.into_any()),
            }}
        </div>
    }
}

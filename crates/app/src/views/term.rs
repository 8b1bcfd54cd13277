//! A *term* is a word of a scene that leads to its entry of the glossary; the glossary's own script opens the entry in place.

use leptos::prelude::*;

use crate::widget::Widget;

/// `id` names the entry, `words` are what stands in the scene.
pub fn term(widget: Widget, id: &str, words: &'static str) -> impl IntoView + use<> {
    view! { <a class="term" href=widget.address(&format!("glossary.html#{id}"))>{words}</a> }
}

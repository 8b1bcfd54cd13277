//! The prompt box: the text, and the tokens that the model will see.

use inferscope_stage::{Status, format};
use leptos::prelude::*;

use super::term::term;
use crate::widget::Widget;

pub fn view(widget: Widget) -> impl IntoView {
    let tokens = move || widget.prompt_tokens.get().unwrap_or_default();
    let label = move |id| {
        widget.loaded.with(|loaded| {
            loaded.as_ref().map(|loaded| format::visible(&loaded.vocabulary.label(id))).unwrap_or_default()
        })
    };
    view! {
        <section class="prompt">
            <label class="field">
                <span class="label">"Prompt"</span>
                <textarea
                    data-part="prompt"
                    rows="1"
                    spellcheck="false"
                    prop:value=move || widget.prompt.get()
                    on:input=move |event| widget.set_prompt(event_target_value(&event))
                ></textarea>
            </label>
            <div class="tokens">
                <p class="label">
                    "The model sees "
                    <span data-part="prompt-count">{move || count(widget)}</span>": what a "{term(widget, "tokenizer", "tokenizer")}" makes of the prompt"
                </p>
                <ol class="chips" data-part="prompt-tokens" aria-label="Tokens of the prompt">
                    {move || {
                        tokens()
                            .into_iter()
                            .map(|id| view! { <li class="chip" data-part="chip" title=format!("token {id}")>{label(id)}</li> })
                            .collect_view()
                    }}
                </ol>
            </div>
            <Show when=move || excess(widget) != 0>
                <p class="problem" data-part="prompt-problem" role="alert">{move || too_long(widget)}</p>
            </Show>
        </section>
    }
}

fn count(widget: Widget) -> String {
    match (widget.prompt_tokens.with(|tokens| tokens.as_ref().map(Vec::len)), context(widget)) {
        (Some(1), Some(context)) => format!("1 token of at most {context}"),
        (Some(tokens), Some(context)) => format!("{tokens} tokens of at most {context}"),
        _ if widget.player.with(|player| player.status == Status::Idle) => "tokens, once it is loaded".into(),
        _ => "…".into(),
    }
}

fn context(widget: Widget) -> Option<usize> {
    widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| loaded.model.context))
}

/// How many tokens too many the prompt has.
pub fn excess(widget: Widget) -> usize {
    let tokens = widget.prompt_tokens.with(|tokens| tokens.as_ref().map_or(0, Vec::len));
    context(widget).map_or(0, |context| tokens.saturating_sub(context))
}

fn too_long(widget: Widget) -> String {
    let (excess, context) = (excess(widget), context(widget).unwrap_or_default());
    let tokens = if excess == 1 { "token".into() } else { format!("{excess} tokens") };
    format!(
        "Too long: the prompt has {} tokens, and the model's context window holds {context}. Take away at least {}.",
        context + excess,
        if excess == 1 { format!("one {tokens}") } else { tokens }
    )
}

//! The question before a beat, and what the run made of the reader's guess.

use inferscope_stage::{Ask, Status};
use leptos::{html, prelude::*};

use crate::{
    signal::{Memo, effect},
    widget::Widget,
};

/// The switch, among the controls.
pub fn switch(widget: Widget) -> impl IntoView {
    view! {
        <label class="field inline check" title="Guess a number before the run shows it">
            <input
                type="checkbox"
                name="ask"
                prop:checked=move || widget.quiz.on.get()
                on:change=move |event| widget.quiz.on.set(event_target_checked(&event))
            />
            <span>"Ask me first"</span>
        </label>
    }
}

pub fn view(widget: Widget) -> impl IntoView {
    let reveal = Memo::new(move |()| widget.reveal());
    let question = Memo::new(move |()| widget.question());
    view! {
        <Show when=move || reveal.with(Option::is_some) || question.get().is_some()>
            <div class="quiz" data-part="quiz" role="status">
                {move || reveal.get().map(|reveal| view! {
                    <p data-part="reveal" class:right={reveal.guess == reveal.answer}>{reveal.text}</p>
                    {move || widget.player.with(|player| player.status == Status::Paused && question.get().is_none()).then(|| view! {
                        <p class="hint">"Press Continue to go on."</p>
                    })}
                })}
                {move || question.get().map(|ask| form(widget, ask))}
            </div>
        </Show>
    }
}

fn form(widget: Widget, ask: Ask) -> impl IntoView {
    let input = NodeRef::<html::Input>::new();
    effect(move || {
        if let Some(input) = input.get() {
            let _ = input.focus();
        }
    });
    let submit = move |event: web_sys::SubmitEvent| {
        event.prevent_default();
        let guess = input.get_untracked().and_then(|input| input.value().trim().parse::<u64>().ok());
        if let Some(guess) = guess {
            widget.guess(ask, guess);
        }
    };
    view! {
        <form on:submit=submit>
            <label>
                <span data-part="question">{move || ask.question(widget.plan()).text}</span>
                <input type="number" name="guess" min="0" required inputmode="numeric" node_ref=input />
            </label>
            <button type="submit" data-action="guess">"See"</button>
            <button type="button" class="quiet" data-action="skip" on:click=move |_| widget.skip_question()>"Skip"</button>
        </form>
    }
}

//! One prefix, written on with every preset, side by side.

use inferscope_stage::PRESETS;
use leptos::prelude::*;

use super::shown_step;
use crate::widget::{Continuation, Widget};

pub fn view(widget: Widget) -> impl IntoView {
    let step = shown_step(widget);
    let can = move || step.get().is_some() && widget.can_look_back();
    view! {
        <section class="panel contrast" data-part="contrast" aria-labelledby="contrast-title">
            <div class="head">
                <h3 id="contrast-title">"One beginning, four settings"</h3>
                <button
                    type="button"
                    data-action="contrast"
                    disabled=move || !can()
                    on:click=move |_| if let Some(step) = step.get_untracked() { widget.contrast(step) }
                >
                    "Write on from here"
                </button>
            </div>
            <p class="hint">{move || words(widget)}</p>
            <div class="cards">
                {PRESETS.iter().enumerate().map(|(index, preset)| view! {
                    <article data-preset-text=preset.id>
                        <h4>{preset.title}</h4>
                        <p class="text">{move || text(widget, index)}</p>
                    </article>
                }).collect_view()}
            </div>
        </section>
    }
}

fn words(widget: Widget) -> String {
    widget.contrast.with(|contrast| match contrast {
        None => "Each of them writes on from the step on screen, on a copy of the cache that is there already.".into(),
        Some(contrast) => match contrast.all.iter().find_map(|it| it.reused) {
            Some(columns) => format!(
                "From step {}: {} times the same {columns} columns of the cache, reused and not computed again.",
                contrast.step,
                contrast.all.len()
            ),
            None => format!("From step {} …", contrast.step),
        },
    })
}

fn text(widget: Widget, index: usize) -> String {
    widget
        .contrast
        .with(|contrast| {
            let it: &Continuation = contrast.as_ref()?.all.get(index)?;
            widget.trace.with(|trace| {
                let vocabulary = &trace.as_ref()?.vocabulary;
                let more = if it.ended { "" } else { " …" };
                Some(format!("…{}{more}", vocabulary.text(None, &it.tokens)))
            })
        })
        .unwrap_or_else(|| "–".into())
}

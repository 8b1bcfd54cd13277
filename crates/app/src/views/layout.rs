//! How the cache keeps its columns: everything, a window with sinks, or rounded numbers.

use inferscope_stage::format;
use inferscope_trace::CacheLayout;
use leptos::prelude::*;

use super::term::term;
use crate::{signal::Memo, widget::Widget};

/// What the reader chooses from, with a value to begin with.
const KINDS: [(&str, &str, CacheLayout); 4] = [
    ("all", "everything", CacheLayout::Contiguous),
    ("window", "a window and sinks", CacheLayout::Window { sinks: 4, window: 12 }),
    ("int8", "everything, in 8 bits", CacheLayout::Quantised { bits: 8 }),
    ("int4", "everything, in 4 bits", CacheLayout::Quantised { bits: 4 }),
];

fn kind(layout: CacheLayout) -> &'static str {
    match layout {
        CacheLayout::Window { .. } => "window",
        CacheLayout::Quantised { bits: 8 } => "int8",
        CacheLayout::Quantised { .. } => "int4",
        _ => "all",
    }
}

pub fn view(widget: Widget) -> impl IntoView {
    let layout = Memo::new(move |()| widget.settings.with(|settings| settings.layout));
    let set = move |layout| widget.settings.update(|settings| settings.layout = layout);
    let parts = move || match layout.get() {
        CacheLayout::Window { sinks, window } => Some((sinks, window)),
        _ => None,
    };
    view! {
        <section class="panel layout" data-part="layout" aria-labelledby="layout-title">
            <h3 id="layout-title">"What the cache keeps"</h3>
            <div class="picks">
                <label class="field inline">
                    <span class="label">"Keep"</span>
                    <select name="layout" on:change=move |event| {
                        let wanted = event_target_value(&event);
                        if let Some((.., layout)) = KINDS.iter().find(|(id, ..)| *id == wanted) {
                            set(*layout);
                        }
                    }>
                        {KINDS.iter().map(|(id, title, _)| view! {
                            <option value=*id prop:selected=move || kind(layout.get()) == *id>{*title}</option>
                        }).collect_view()}
                    </select>
                </label>
                <label class="slider">
                    <span class="label">{term(widget, "attention-sink", "Sinks")}</span>
                    <input type="range" name="sinks" min="0" max="8" step="1" disabled=move || parts().is_none()
                        prop:value=move || parts().map_or(4, |it| it.0).to_string()
                        on:input=move |event| if let (Ok(sinks), Some((_, window))) = (event_target_value(&event).parse(), parts()) {
                            set(CacheLayout::Window { sinks, window });
                        } />
                    <output>{move || parts().map_or("–".into(), |it| it.0.to_string())}</output>
                </label>
                <label class="slider">
                    <span class="label">{term(widget, "sliding-window", "Window")}</span>
                    <input type="range" name="window" min="1" max="64" step="1" disabled=move || parts().is_none()
                        prop:value=move || parts().map_or(12, |it| it.1).to_string()
                        on:input=move |event| if let (Ok(window), Some((sinks, _))) = (event_target_value(&event).parse(), parts()) {
                            set(CacheLayout::Window { sinks, window });
                        } />
                    <output>{move || parts().map_or("–".into(), |it| it.1.to_string())}</output>
                </label>
            </div>
            <p class="hint">{move || explain(layout.get())}</p>
            <p data-part="layout-bytes">{move || bytes(widget)}</p>
        </section>
    }
}

fn explain(layout: CacheLayout) -> String {
    match layout {
        CacheLayout::Window { sinks, window } => format!(
            "A token sees the first {sinks} tokens and the newest {window}, itself among them; everything between is dropped. The \
             first are kept since heads of large models rest on them when they have nothing to look for."
        ),
        CacheLayout::Quantised { bits } => format!(
            "Every key and value vector is rounded to {bits} bits a number with a scale of its own. Here the rounded numbers are \
             kept in the usual buffer, so the effect on the text is real and the bytes are counted."
        ),
        _ => "Every token’s keys and values stay, as they are, until the text ends.".into(),
    }
}

/// The cache at the step on screen, beside what it would be if everything were kept.
fn bytes(widget: Widget) -> Option<String> {
    let moment = widget.moment();
    widget.trace.with(|trace| {
        let trace = trace.as_ref().filter(|trace| trace.settings.cache)?;
        let end = trace.steps.get(moment.steps_shown().checked_sub(1)?)?.end_position() as u64;
        let (layout, model) = (trace.settings.layout, &trace.model);
        let (own, all) = (layout.bytes(model, end), CacheLayout::Contiguous.bytes(model, end));
        let same = if own == all {
            String::new()
        } else {
            format!("; with everything kept it would be {}", format::bytes(all))
        };
        Some(format!(
            "While the newest of {end} positions looks, the cache holds {}{same} (counted).",
            format::bytes(own)
        ))
    })
}

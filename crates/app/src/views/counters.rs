//! The counters, each with the way it was come by.

use inferscope_stage::{Comparison, Counter, counters, format};
use leptos::prelude::*;

use super::term::term;
use crate::{signal::Memo, widget::Widget};

pub fn view(widget: Widget) -> impl IntoView {
    let rows = Memo::new(move |()| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().map(|trace| counters(trace, moment)).unwrap_or_default())
    });
    view! {
        <section class="panel counters" aria-labelledby="counters-title">
            <h3 id="counters-title">"What it costs"</h3>
            <Show
                when=move || rows.with(|rows| !rows.is_empty())
                fallback=|| view! { <p class="hint">"Numbers appear with the first step."</p> }
            >
                <table>
                    <thead>
                        <tr>
                            <th scope="col"></th>
                            <th scope="col">"this step"</th>
                            <th scope="col">"so far"</th>
                            <th scope="col" class="mark">"how known"</th>
                        </tr>
                    </thead>
                    <tbody>{move || rows.get().into_iter().map(|counter| row(widget, counter)).collect_view()}</tbody>
                </table>
                <p class="formula" data-part="cache-formula">
                    {move || {
                        rows.with(|rows| rows.iter().find(|row| row.id == "cache_size").map(|row| row.source.clone()))
                    }}
                </p>
            </Show>
            {comparison(widget)}
        </section>
    }
}

fn row(widget: Widget, counter: Counter) -> impl IntoView {
    view! {
        <tr
            data-counter=counter.id
            data-value=counter.value.to_string()
            data-mark=counter.mark.as_str()
            title=counter.source
        >
            <th scope="row">{term(widget, counter.term, counter.label)}</th>
            <td>{if counter.id == "cache_size" { format!("+ {}", counter.this_step) } else { counter.this_step }}</td>
            <td>{counter.so_far}</td>
            <td class="mark"><span class=format!("tag {}", counter.mark.as_str())>{counter.mark.as_str()}</span></td>
        </tr>
    }
}

/// With and without the cache, once both were run.
fn comparison(widget: Widget) -> impl IntoView {
    let comparison = Memo::new(move |()| {
        widget.trace.with(|trace| {
            let trace = trace.as_ref()?;
            widget.kept.with(|kept| Comparison::new(trace, kept[usize::from(!trace.settings.cache)].as_ref()?))
        })
    });
    let sentence = move || {
        comparison.get().map(|it| {
            let tokens = if it.identical() {
                format!("the same {} tokens", it.tokens)
            } else {
                format!("only the first {} of {} tokens agree", it.same_tokens, it.tokens)
            };
            format!(
                "With the cache and without it: {tokens}. Positions run: {} against {}, {} as many (counted). Computing \
                 time: {} against {}, {} as long (measured).",
                format::grouped(it.positions[0]),
                format::grouped(it.positions[1]),
                format::times(it.positions[1] as f64 / it.positions[0].max(1) as f64),
                format::milliseconds(it.milliseconds[0]),
                format::milliseconds(it.milliseconds[1]),
                format::times(it.milliseconds[1] / it.milliseconds[0].max(1e-9)),
            )
        })
    };
    view! {
        <Show when=move || comparison.with(Option::is_some)>
            <p class="verdict" data-part="comparison">{sentence}</p>
        </Show>
    }
}

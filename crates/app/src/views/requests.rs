//! The requests: what each asks for, where it stands, and what it has written.

use inferscope_stage::{
    format,
    serving::{name, request_rows},
};
use inferscope_trace::Request;
use leptos::prelude::*;

use super::{blocks::HUES, term::term};
use crate::{signal::Memo, widget::Widget};

/// More would not be read on one page.
const MOST_REQUESTS: usize = 16;
const MOST_TOKENS: usize = 200;

pub fn view(widget: Widget) -> impl IntoView {
    let queue = widget.serving.queue;
    let rows = Memo::new(move |()| {
        let moment = widget.moment();
        widget.serving.trace.with(|trace| trace.as_ref().map(|trace| request_rows(trace, moment)).unwrap_or_default())
    });
    let count = Memo::new(move |()| queue.with(Vec::len));
    let add = move |_| {
        queue.update(|queue| {
            let seed = queue.iter().map(|request| request.seed).max().unwrap_or(0) + 1;
            let sampling = inferscope_sampler::default_sampling();
            queue.push(Request { prompt: "Once upon a time".into(), max_new_tokens: 20, sampling, seed, arrives: 0 });
        });
    };
    view! {
        <section class="panel requests" data-part="requests" aria-labelledby="requests-title">
            <h3 id="requests-title">"The requests"</h3>
            <div class="sideways">
                <table class="numbers">
                    <thead><tr>
                        <th scope="col"></th>
                        <th scope="col">"prompt, and what was written"</th>
                        <th scope="col">"new tokens"</th>
                        <th scope="col" title="The step before which the server does not know of it">"arrives"</th>
                        <th scope="col">"status"</th>
                        <th scope="col">{term(widget, "ttft", "first token")}</th>
                        <th scope="col">{term(widget, "tpot", "each after")}</th>
                        <th scope="col"></th>
                    </tr></thead>
                    <tbody>
                        <For each=move || 0..count.get() key=|index| *index let(index)>
                            {row(widget, rows, index)}
                        </For>
                    </tbody>
                </table>
            </div>
            <div class="buttons">
                <button type="button" data-action="add-request" disabled=move || { count.get() >= MOST_REQUESTS } on:click=add>"Add a request"</button>
                <span class="hint">"Times are from a request’s arrival, in steps and in the engine’s computing time. "<span class="tag measured">"measured"</span></span>
            </div>
        </section>
    }
}

fn row(widget: Widget, rows: Memo<Vec<inferscope_stage::serving::RequestRow>>, index: usize) -> impl IntoView {
    let queue = widget.serving.queue;
    let asked = move |read: fn(&Request) -> String| queue.with(|queue| queue.get(index).map(read).unwrap_or_default());
    let shown = move |read: &dyn Fn(&inferscope_stage::serving::RequestRow) -> String| {
        rows.with(|rows| rows.get(index).map(read).unwrap_or_else(|| "–".into()))
    };
    let number = move |event: &web_sys::Event, what: &str, least: usize, most: usize| {
        let text = event_target_value(event);
        let asked = text.trim().parse::<i64>().ok();
        let taken = asked.map_or(least, |asked| asked.clamp(least as i64, most as i64) as usize);
        if asked != Some(taken as i64) {
            let request = name(index);
            widget.note(format!("{what} of request {request} goes from {least} to {most}: “{text}” became {taken}."));
        }
        taken
    };
    let change = move |change: &dyn Fn(&mut Request)| {
        queue.update(|queue| {
            if let Some(request) = queue.get_mut(index) {
                change(request);
            }
        });
    };
    view! {
        <tr data-part="request" data-standing=move || shown(&|row| row.standing.as_str().into()) data-hue=(index % HUES).to_string()>
            <th scope="row"><span class="badge">{name(index)}</span></th>
            <td class="wide">
                <textarea rows="1" aria-label=format!("Prompt of request {}", name(index)) prop:value=move || asked(|it| it.prompt.clone())
                    on:change=move |event| { let text = event_target_value(&event); change(&|it| it.prompt.clone_from(&text)) }></textarea>
                <span class="written" data-part="written">{move || shown(&|row| row.text.clone())}</span>
            </td>
            <td data-what="new tokens"><input type="number" min="1" max=MOST_TOKENS.to_string() aria-label="New tokens" prop:value=move || asked(|it| it.max_new_tokens.to_string())
                on:change=move |event| { let tokens = number(&event, "The number of new tokens", 1, MOST_TOKENS); change(&|it| it.max_new_tokens = tokens) } /></td>
            <td data-what="arrives"><input type="number" min="0" max="500" aria-label="Arrives before step" prop:value=move || asked(|it| it.arrives.to_string())
                on:change=move |event| { let step = number(&event, "The step of arrival", 0, 500); change(&|it| it.arrives = step) } /></td>
            <td class="standing">{move || shown(&|row| row.standing.as_str().into())}</td>
            <td data-what="first token">{move || shown(&|row| row.first_token.map_or("–".into(), |(steps, ms)| {
                format!("{steps} step{}, {}", if steps == 1 { "" } else { "s" }, format::milliseconds(ms))
            }))}</td>
            <td data-what="each after">{move || shown(&|row| row.per_token.map_or("–".into(), format::milliseconds))}</td>
            <td><button type="button" class="quiet" aria-label=format!("Remove request {}", name(index))
                disabled=move || queue.with(|queue| queue.len() < 2)
                on:click=move |_| queue.update(|queue| if index < queue.len() { queue.remove(index); })>"×"</button></td>
        </tr>
    }
}

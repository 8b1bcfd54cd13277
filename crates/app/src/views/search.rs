//! Any token of the vocabulary: its place, its odds, and which rule cut it.

use inferscope_sampler::rule;
use inferscope_stage::{find_candidates, format};
use inferscope_trace::Candidate;
use leptos::prelude::*;

use super::{shown_step, term::term};
use crate::{
    signal::{Memo, RwSignal},
    widget::Widget,
};

const RESULTS: usize = 8;

pub fn view(widget: Widget) -> impl IntoView {
    let step = shown_step(widget);
    let query = RwSignal::new(String::new());
    let sampling = Memo::new(move |()| widget.settings.with(|settings| settings.sampling.clone()));
    let found = Memo::new(move |()| {
        let step = step.get()?;
        let query = query.get();
        widget.trace.with(|trace| {
            let trace = trace.as_ref()?;
            let found = sampling.with(|sampling| find_candidates(trace, step, sampling, &query, RESULTS));
            let label = |candidate: &Candidate| trace.vocabulary.label(candidate.id);
            Some(found.into_iter().map(|(rank, it)| (rank, label(&it), it)).collect::<Vec<_>>())
        })
    });
    view! {
        <section class="panel search" data-part="search" aria-labelledby="search-title">
            <h3 id="search-title">"Any token of the "{term(widget, "vocabulary", "vocabulary")}</h3>
            <label class="field inline">
                <span class="label">"Find"</span>
                <input
                    type="search"
                    name="find"
                    placeholder="part of a word"
                    autocomplete="off"
                    spellcheck="false"
                    on:input=move |event| query.set(event_target_value(&event))
                />
            </label>
            {move || match found.get() {
                None => view! { <p class="hint">"Every token of the vocabulary has a score at every step. Run first, then look one up."</p> }.into_any(),
                Some(found) if found.is_empty() && query.with(String::is_empty) => {
                    view! { <p class="hint">"Every token of the vocabulary has a score, also those that will never be shown."</p> }.into_any()
                }
                Some(found) if found.is_empty() => view! { <p class="hint" role="status">"No token has that in it."</p> }.into_any(),
                Some(found) => results(found).into_any(),
            }}
        </section>
    }
}

fn results(found: Vec<(usize, String, Candidate)>) -> impl IntoView {
    let rows = found.into_iter().map(|(rank, text, it)| {
        let fate = it.cut_by.as_deref().and_then(rule).map_or_else(
            || format::percent(it.probability),
            |rule| format!("cut: {}", rule.label().to_ascii_lowercase()),
        );
        view! {
            <tr data-part="found" data-token=it.id.to_string()>
                <th scope="row" class="token">{format::visible(&text)}</th>
                <td>{format::grouped(rank as u64 + 1)}</td>
                <td>{format!("{:.2}", it.logit)}</td>
                <td>{format::percent(it.before)}</td>
                <td>{fate}</td>
            </tr>
        }
    });
    view! {
        <table class="found">
            <thead>
                <tr>
                    <th scope="col">"token"</th>
                    <th scope="col">"rank"</th>
                    <th scope="col">"score"</th>
                    <th scope="col">"model"</th>
                    <th scope="col">"after all rules"</th>
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
}

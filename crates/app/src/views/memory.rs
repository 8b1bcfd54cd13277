//! How many requests fit: the cache of every published model beside its weights, in the memory of an accelerator.

use inferscope_stage::facts::{PARTS, Published, part};
use inferscope_stage::{
    Budget, ELEMENTS, Fit, MOST_BATCH, MOST_CONTEXT, MOST_PARTS, MemoryFrame, MemoryRow, element_of, format,
    whole_number,
};
use leptos::prelude::*;

use super::term::term;
use crate::{
    signal::{Memo, RwSignal},
    widget::Widget,
};

/// The bars end where so many times the memory would be full.
const WIDEST: f64 = 2.0;

/// What one number field says: the last number that could be used, and what is wrong with the text in it now.
#[derive(Clone, Copy)]
struct Count {
    value: RwSignal<u64>,
    wrong: RwSignal<Option<String>>,
    name: &'static str,
    what: &'static str,
    most: u64,
}

impl Count {
    fn new(name: &'static str, what: &'static str, value: u64, most: u64) -> Self {
        Self { value: RwSignal::new(value), wrong: RwSignal::new(None), name, what, most }
    }

    fn set(self, text: &str) {
        match whole_number(text, self.what, self.most) {
            Ok(number) => {
                self.wrong.set(None);
                self.value.set(number);
            }
            Err(sentence) => self
                .wrong
                .set(Some(format!("{sentence} {} still counts.", format::grouped(self.value.get_untracked())))),
        }
    }

    fn field(self, label: AnyView) -> impl IntoView {
        view! {
            <label class="field inline">
                <span class="label">{label}</span>
                <input
                    type="text"
                    inputmode="numeric"
                    name=self.name
                    size="9"
                    aria-invalid=move || self.wrong.with(Option::is_some).to_string()
                    prop:value=move || format::grouped(self.value.get())
                    on:input=move |event| self.set(&event_target_value(&event))
                />
            </label>
        }
    }
}

/// One of a few, by its id.
fn choice(
    name: &'static str,
    label: AnyView,
    chosen: RwSignal<String>,
    all: Vec<(&'static str, &'static str)>,
) -> impl IntoView {
    view! {
        <label class="field inline">
            <span class="label">{label}</span>
            <select name=name on:change=move |event| chosen.set(event_target_value(&event))>
                {all.into_iter().map(|(id, title)| view! {
                    <option value=id prop:selected=move || chosen.with(|chosen| chosen == id)>{title}</option>
                }).collect_view()}
            </select>
        </label>
    }
}

pub fn view(widget: Widget) -> impl IntoView {
    let context = Count::new("context", "Tokens a request", 8192, MOST_CONTEXT);
    let batch = Count::new("requests", "Requests", 16, MOST_BATCH);
    let parts = Count::new("parts", "Accelerators", 1, MOST_PARTS);
    let (cache, weights) = (RwSignal::new("bf16".to_string()), RwSignal::new("bf16".to_string()));
    let chosen_part = RwSignal::new("h100".to_string());
    let chosen = RwSignal::new("llama3-8b");
    let element = |id: RwSignal<String>| element_of(&id.get()).unwrap_or(ELEMENTS[0]);
    let page =
        Memo::new(move |()| widget.loaded.with(|loaded| loaded.as_ref().map(|it| Published::of_page(&it.model))));
    let frame = Memo::new(move |()| {
        let budget = Budget {
            context: context.value.get(),
            batch: batch.value.get(),
            cache: element(cache),
            weights: element(weights),
            part: *part(&chosen_part.get()).unwrap_or(&PARTS[0]),
            parts: parts.value.get(),
        };
        MemoryFrame::new(&budget, page.get())
    });
    let elements = || ELEMENTS.iter().map(|element| (element.id, element.title)).collect();
    let wrong = move || [context, batch, parts].into_iter().find_map(|count| count.wrong.get());
    view! {
        <section class="panel memory" data-part="memory" aria-labelledby="memory-title">
            <h3 id="memory-title">"How many requests fit"</h3>
            <div class="picks">
                {context.field(term(widget, "context-window", "Tokens a request").into_any())}
                {batch.field(term(widget, "batch", "Requests").into_any())}
                {choice("cache_element", term(widget, "kv-cache", "Cache in").into_any(), cache, elements())}
                {choice("weight_element", term(widget, "weights", "weights in").into_any(), weights, elements())}
                {choice("part", "on".into_any(), chosen_part, PARTS.iter().map(|part| (part.id, part.title)).collect())}
                {parts.field("×".into_any())}
            </div>
            <Show when=move || wrong().is_some()>
                <p class="problem" data-part="memory-problem" role="alert">{wrong}</p>
            </Show>
            <div class="formula-box" aria-live="polite">{move || frame.with(|frame| explained(frame, chosen.get()))}</div>
            <ul class="legend">
                <li><span class="swatch weights" aria-hidden="true"></span><span>"weights"</span></li>
                <li><span class="swatch cache" aria-hidden="true"></span><span>"cache of all requests"</span></li>
                <li><span class="swatch brim" aria-hidden="true"></span>
                    <span>{move || frame.with(|frame| format!("the memory: {}", format::bytes(frame.memory_bytes)))}</span></li>
            </ul>
            <div class="sideways">
                <table class="models">
                    <thead>
                        <tr>
                            <th scope="col">"model"</th>
                            <th scope="col" class="number">"a token"</th>
                            <th scope="col" class="number">"a request"</th>
                            <th scope="col" class="room">"weights and cache in the memory"</th>
                            <th scope="col" class="number">"requests fit"</th>
                            <th scope="col">"source"</th>
                        </tr>
                    </thead>
                    <tbody>
                        {move || frame.with(|frame| frame.rows.iter().map(|row| line(row, frame, chosen)).collect_view())}
                    </tbody>
                </table>
            </div>
            <p class="hint">
                <span class="tag counted">"counted"</span>" from "<span class="tag published">"published"</span>
                " shapes: caches without the scales of quantised numbers, and no room set aside for anything else, such as the \
                 numbers between two layers. Real systems need some. Weights are counted in the type chosen above, whatever the makers \
                 ship, and a model’s own limit on the length of a text is not looked at. Memory is what the data sheet gives, in \
                 billions of bytes."
            </p>
        </section>
    }
}

/// The chosen model's bytes, with the numbers put in.
fn explained(frame: &MemoryFrame, chosen: &str) -> impl IntoView + use<> {
    let row = frame.row(chosen).unwrap_or(&frame.rows[0]);
    view! {
        <p><b>{row.model.title}</b>": "{row.verdict(frame)}</p>
        <p class="formula" data-part="memory-formula" data-bytes=row.cache_bytes.to_string()>{row.formula(&frame.budget)}</p>
        {row.remark(&frame.budget).map(|remark| view! { <p class="hint">{remark}</p> })}
    }
}

fn line(row: &MemoryRow, frame: &MemoryFrame, chosen: RwSignal<&'static str>) -> impl IntoView + use<> {
    let id = row.model.id;
    let share = |bytes: u64| (bytes as f64 / frame.memory_bytes as f64 / WIDEST * 100.0).min(100.0);
    let (weights, cache) = (share(row.weight_bytes), share(row.cache_bytes));
    let over = weights + cache > 100.0;
    let cache = cache.min(100.0 - weights);
    let fit = match row.fit {
        Fit::NoWeights => "weights too large".to_string(),
        Fit::Requests(requests) => format::grouped(requests),
    };
    let source = row.model.source;
    view! {
        <tr
            data-model=id
            data-token-bytes=row.token_bytes.to_string()
            data-request-bytes=row.request_bytes.to_string()
            data-enough=row.enough.to_string()
            class:chosen=move || chosen.get() == id
        >
            <th scope="row">
                <button type="button" class="link" aria-pressed=move || (chosen.get() == id).to_string() on:click=move |_| chosen.set(id)>
                    {row.model.title}
                </button>
                <span class="kind">{row.kind.clone()}</span>
            </th>
            <td class="number" data-what="a token">{format::bytes(row.token_bytes)}</td>
            <td class="number" data-what="a request">{format::bytes(row.request_bytes)}</td>
            <td class="room">
                <span class="bar" class:over=over>
                    <span class="weights" style=format!("width:{weights:.2}%")></span>
                    <span class="cache" style=format!("width:{cache:.2}%")></span>
                </span>
            </td>
            <td class="number fit">{fit}{if row.enough { " ✓" } else { "" }}</td>
            <td class="source">
                {if source.address.is_empty() {
                    source.title.into_any()
                } else {
                    view! { <a href=source.address target="_blank" rel="noopener">{source.title}</a> }.into_any()
                }}
            </td>
        </tr>
    }
}

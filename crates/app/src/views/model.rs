//! The model line: which model runs, a picker where there are several, and the way to the reader's own.

use inferscope_stage::format;
use inferscope_trace::ModelInfo;
use leptos::{html, prelude::*};

use crate::{
    models::{MODELS, row},
    signal::{RwSignal, effect},
    widget::Widget,
};

pub fn view(widget: Widget) -> impl IntoView {
    let open = RwSignal::new(false);
    // What the note asked for is there.
    effect(move || {
        if widget.own.with(Option::is_some) {
            open.set(false);
        }
    });
    let several = move || MODELS.len() > 1 || widget.own.with(Option::is_some);
    view! {
        <div class="model">
            <p data-part="model" role="status">{move || line(widget)}</p>
            <div class="picks">
                <Show when=several>{picker(widget)}</Show>
                <button
                    type="button"
                    class="quiet"
                    data-action="own-model"
                    aria-expanded=move || open.get().to_string()
                    on:click=move |_| open.update(|open| *open = !*open)
                >
                    "Use your own model…"
                </button>
            </div>
        </div>
        <Show when=move || open.get()>{own(widget)}</Show>
    }
}

fn picker(widget: Widget) -> impl IntoView {
    let option = move |id: String, title: String| {
        let value = id.clone();
        let selected = move || widget.model.with(|model| *model == id);
        view! { <option value=value prop:selected=selected>{title}</option> }
    };
    view! {
        <label class="field inline">
            <span class="label">"Model"</span>
            <select
                name="model"
                on:change=move |event| {
                    if let Err(sentence) = widget.choose_model(&event_target_value(&event)) {
                        widget.note(sentence);
                    }
                }
            >
                {MODELS.iter().map(|row| option(row.id.into(), row.title.into())).collect_view()}
                {move || widget.own.get().map(|own| option(own.id, format!("Yours: {}", own.title)))}
            </select>
        </label>
    }
}

fn line(widget: Widget) -> String {
    if let Some(title) = widget.importing.get() {
        return format!("Reading {title} …");
    }
    let model = widget.model.get();
    if let Some(row) = row(&model) {
        return format!("{}: {}", row.title, row.description);
    }
    let title = widget.own.with(|own| own.as_ref().map(|own| own.title.clone())).unwrap_or(model);
    match widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| shape(&loaded.model))) {
        Some(shape) => format!("{title}, your own: {shape}."),
        None => format!("{title}, your own."),
    }
}

/// A model's shape in words.
fn shape(model: &ModelInfo) -> String {
    let several = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} weights in {}, {} over {}, a vocabulary of {}, a context of {}",
        format::short(model.n_parameters()),
        several(model.n_layers, "layer"),
        several(model.n_heads, "query head"),
        several(model.n_kv_heads, "KV head"),
        format::grouped(model.vocab_size as u64),
        format::grouped(model.context as u64),
    )
}

/// What is accepted, and the button that asks for it.
fn own(widget: Widget) -> impl IntoView {
    let input = NodeRef::<html::Input>::new();
    let take = move |_| {
        let Some(input) = input.get() else { return };
        let files = input.files().map(files_of).unwrap_or_default();
        // The same files can be chosen again after they were mended.
        input.set_value("");
        if !files.is_empty() {
            widget.import(files);
        }
    };
    view! {
        <div class="own" data-part="own-model">
            <p>
                "Drop a small Llama-style model and its tokenizer anywhere on this widget, or choose the files together. They \
                 are read in this browser and sent nowhere."
            </p>
            <ul>
                <li><b>"llama2.c"</b>": a checkpoint " <code>".bin"</code> " and its " <code>"tokenizer.bin"</code></li>
                <li>
                    <b>"Hugging Face"</b> ": " <code>"model.safetensors"</code> ", " <code>"config.json"</code> " and "
                    <code>"tokenizer.json"</code> " or " <code>"tokenizer.bin"</code>
                </li>
                <li><b>"Inferscope"</b> ": an " <code>".infer"</code> " file and its tokenizer"</li>
            </ul>
            <p>
                <button
                    type="button"
                    data-action="choose-files"
                    on:click=move |_| {
                        if let Some(input) = input.get() {
                            input.click();
                        }
                    }
                >
                    "Choose files…"
                </button>
                <span class="hint">"20 MB in all at most"</span>
            </p>
            <input
                type="file"
                name="model-files"
                multiple
                hidden
                aria-label="Files of your own model"
                node_ref=input
                on:change=take
            />
        </div>
    }
}

fn files_of(list: web_sys::FileList) -> Vec<web_sys::File> {
    (0..list.length()).filter_map(|index| list.get(index)).collect()
}

/// Covers the widget while files are dragged over it, and takes them. It is the cover that hears the drag's end, so that
/// moving from one part of the widget to another is not taken for leaving.
pub fn drop_target(widget: Widget) -> impl IntoView {
    let end = move |event: web_sys::DragEvent| {
        event.prevent_default();
        widget.dragging.set(false);
    };
    view! {
        <Show when=move || widget.dragging.get()>
            <div
                class="drop"
                data-part="drop"
                on:dragover=move |event| event.prevent_default()
                on:dragleave=end
                on:drop=move |event| {
                    end(event.clone());
                    let files = event.data_transfer().and_then(|data| data.files()).map(files_of).unwrap_or_default();
                    if !files.is_empty() {
                        widget.import(files);
                    }
                }
            >
                <p>
                    <b>"Drop a model and its tokenizer"</b>
                    <span>"The scene then runs on it. The files stay in this browser."</span>
                </p>
            </div>
        </Show>
    }
}

/// A drag over the widget: of files, the cover appears; anything else is left alone.
pub fn on_drag(widget: Widget, event: &web_sys::DragEvent) {
    let types = event.data_transfer().map(|data| data.types());
    if types.is_some_and(|types| types.includes(&"Files".into(), 0)) {
        event.prevent_default();
        widget.dragging.set(true);
    }
}

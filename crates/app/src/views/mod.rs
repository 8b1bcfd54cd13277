//! The *views* turn frames into elements. A view reads signals, derives a frame in a memo, and writes attributes; it
//! decides nothing that a frame could have decided.

pub mod batch_cost;
pub mod blocks;
pub mod branches;
pub mod cache;
pub mod candidates;
mod cells;
pub mod contrast;
mod controls;
pub mod counters;
pub mod draw;
mod engine;
pub mod groups;
pub mod growth;
pub mod heads;
pub mod layout;
pub mod memory;
pub mod model;
mod prompt;
pub mod quiz;
pub mod requests;
pub mod roofline;
pub mod rounds;
pub mod schedule;
pub mod scores;
pub mod search;
mod sliders;
pub mod stages;
mod term;
mod text;
pub mod timeline;

use inferscope_stage::{
    Event, predicted_step,
    scenes::{Panel, Source},
};
use leptos::{html, prelude::*};
use wasm_bindgen::JsCast;

use crate::{
    dom,
    parts::{self, Piece},
    signal::{Memo, RwSignal, effect},
    widget::Widget,
};

/// The whole widget.
pub fn root(widget: Widget) -> impl IntoView {
    let panels = widget.scene.panels.iter().map(|panel| panel_view(widget, *panel)).collect_view();
    view! {
        <div
            class="scope"
            data-scene=widget.scene.id
            tabindex="0"
            role="region"
            aria-label=format!("Inferscope: {}", widget.scene.title)
            on:keydown=move |event| on_key(widget, &event)
            on:dragenter=move |event| model::on_drag(widget, &event)
            on:dragover=move |event| model::on_drag(widget, &event)
        >
            {(widget.scene.source != Source::Server).then(|| prompt::view(widget))}
            {controls::view(widget)}
            {parts::piece(widget, Piece::Quiz, || ().into_any())}
            {problem(widget)}
            <div class="panels">{panels}</div>
            <footer>{parts::piece(widget, Piece::Footer, || engine::nothing_yet().into_any())}</footer>
            {model::drop_target(widget)}
        </div>
    }
}

/// Which model and which engine, and how to change that.
pub fn footer(widget: Widget) -> impl IntoView {
    view! { {model::view(widget)} {engine::view(widget)} }
}

/// The step whose prediction is on screen.
fn shown_step(widget: Widget) -> Memo<Option<usize>> {
    Memo::new(move |()| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().and_then(|trace| predicted_step(trace, moment)))
    })
}

/// What is drawn is as wide until the browser has told how wide it is.
const TYPICAL_WIDTH: f32 = 900.0;

/// The width of an element in CSS pixels, as soon as the browser tells it and whenever it changes.
fn width_of<E>(element: NodeRef<E>) -> RwSignal<Option<f32>>
where
    E: html::ElementType + 'static,
    E::Output: JsCast + Clone + AsRef<web_sys::Element> + 'static,
{
    let width = RwSignal::new(None::<f32>);
    let take = move |wide: f32| {
        if wide > 0.0 && width.get_untracked().is_none_or(|width| (width - wide).abs() >= 1.0) {
            width.set(Some(wide));
        }
    };
    let guard = StoredValue::new_local(None);
    effect(move || {
        if let Some(element) = element.get() {
            // The first call comes in the frame that the element is in, before that is painted. Asking for the width here would
            // have the browser lay out half a page.
            guard.set_value(Some(dom::on_resize(element.as_ref(), take)));
        }
    });
    on_cleanup(move || guard.set_value(None));
    width
}

fn panel_view(widget: Widget, panel: Panel) -> AnyView {
    let piece = match panel {
        Panel::Text => return text::view(widget).into_any(),
        Panel::Cache => return cache::view(widget).into_any(),
        // There is nothing to see of it until the reader makes one.
        Panel::Branches => return parts::piece(widget, Piece::Branches, || ().into_any()),
        Panel::Candidates => Piece::Candidates,
        Panel::Timeline => Piece::Timeline,
        Panel::Counters => Piece::Counters,
        Panel::Growth => Piece::Growth,
        Panel::Roofline => Piece::Roofline,
        Panel::Stages => Piece::Stages,
        Panel::Contrast => Piece::Contrast,
        Panel::Draw => Piece::Draw,
        Panel::Rounds => Piece::Rounds,
        Panel::Yield => Piece::Yield,
        Panel::Blocks => Piece::Blocks,
        Panel::Requests => Piece::Requests,
        Panel::Schedule => Piece::Schedule,
        Panel::BatchCost => Piece::BatchCost,
        Panel::Layout => Piece::Layout,
        Panel::Scores => Piece::Scores,
        Panel::Groups => Piece::Groups,
        Panel::Memory => Piece::Memory,
        Panel::Search => Piece::Search,
    };
    parts::panel(widget, piece)
}

fn problem(widget: Widget) -> impl IntoView {
    view! {
        <Show when=move || widget.problem.with(Option::is_some)>
            <p class="problem" data-part="problem" role="alert">
                {move || widget.problem.with(|problem| problem.as_ref().map(|fault| fault.message.clone()))}
            </p>
        </Show>
        <Show when=move || parts::any_failed(widget)>
            <p class="problem" data-part="missing-part" role="alert">
                "A part of this widget could not be fetched. Check the connection. "
                <button type="button" data-action="fetch-again" on:click=move |_| parts::fetch_again(widget)>
                    "Try again"
                </button>
            </p>
        </Show>
        <Show when=move || widget.notice.with(Option::is_some)>
            <p class="notice" data-part="notice" role="status">
                <span>{move || widget.notice.get()}</span>
                <button type="button" class="quiet" aria-label="Dismiss" on:click=move |_| widget.notice.set(None)>
                    "×"
                </button>
            </p>
        </Show>
    }
}

/// Space runs and pauses, the arrows step; but not where a key already means something.
fn on_key(widget: Widget, event: &web_sys::KeyboardEvent) {
    let modified = event.ctrl_key() || event.alt_key() || event.meta_key() || event.shift_key();
    let target = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    let tag = target.map(|target| target.tag_name().to_ascii_lowercase()).unwrap_or_default();
    let types = matches!(tag.as_str(), "input" | "textarea" | "select");
    if modified || types || event.default_prevented() {
        return;
    }
    match event.key().as_str() {
        // On a button or a fold, Space presses that.
        " " if tag != "button" && tag != "summary" => widget.press_main(),
        "ArrowRight" => widget.dispatch(Event::Step),
        "ArrowLeft" => widget.dispatch(Event::Back),
        "Escape" if widget.selection.with_untracked(|selection| selection.focus.is_some()) => widget.focus_on(None),
        "Escape" => widget.selection.update(|selection| (selection.layer, selection.head) = (None, None)),
        _ => return,
    }
    event.prevent_default();
}

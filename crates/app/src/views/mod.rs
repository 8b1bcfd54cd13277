//! The *views* turn frames into elements. A view reads signals, derives a frame in a memo, and writes attributes; it
//! decides nothing that a frame could have decided.

mod batch_cost;
mod blocks;
mod branches;
mod cache;
mod candidates;
mod cells;
mod contrast;
mod controls;
mod counters;
mod draw;
mod engine;
mod groups;
mod growth;
mod heads;
mod layout;
mod memory;
mod model;
mod prompt;
mod quiz;
mod requests;
mod roofline;
mod rounds;
mod schedule;
mod scores;
mod search;
mod sliders;
mod stages;
mod term;
mod text;
mod timeline;

use inferscope_stage::{
    Event, predicted_step,
    scenes::{Panel, Source},
};
use leptos::{html, prelude::*};
use wasm_bindgen::JsCast;

use crate::{dom, widget::Widget};

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
            {quiz::view(widget)}
            {problem(widget)}
            <div class="panels">{panels}</div>
            <footer>{model::view(widget)} {engine::view(widget)}</footer>
            {model::drop_target(widget)}
        </div>
    }
}

/// The step whose prediction is on screen.
fn shown_step(widget: Widget) -> Memo<Option<usize>> {
    Memo::new(move |_| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().and_then(|trace| predicted_step(trace, moment)))
    })
}

/// The width of an element in CSS pixels, now and whenever it changes.
fn width_of<E>(element: NodeRef<E>) -> RwSignal<f32>
where
    E: html::ElementType + 'static,
    E::Output: JsCast + Clone + AsRef<web_sys::Element> + 'static,
{
    let width = RwSignal::new(900.0f32);
    let guard = StoredValue::new_local(None);
    Effect::new(move || {
        if let Some(element) = element.get() {
            guard.set_value(Some(dom::on_resize(element.as_ref(), move |wide| {
                if (width.get_untracked() - wide).abs() >= 1.0 && wide > 0.0 {
                    width.set(wide);
                }
            })));
        }
    });
    on_cleanup(move || guard.set_value(None));
    width
}

fn panel_view(widget: Widget, panel: Panel) -> AnyView {
    match panel {
        Panel::Text => text::view(widget).into_any(),
        Panel::Cache => cache::view(widget).into_any(),
        Panel::Candidates => candidates::view(widget).into_any(),
        Panel::Timeline => timeline::view(widget).into_any(),
        Panel::Counters => counters::view(widget).into_any(),
        Panel::Growth => growth::view(widget).into_any(),
        Panel::Roofline => roofline::view(widget).into_any(),
        Panel::Stages => stages::view(widget).into_any(),
        Panel::Branches => branches::view(widget).into_any(),
        Panel::Contrast => contrast::view(widget).into_any(),
        Panel::Draw => draw::view(widget).into_any(),
        Panel::Rounds => rounds::view(widget).into_any(),
        Panel::Yield => rounds::sums(widget).into_any(),
        Panel::Blocks => blocks::view(widget).into_any(),
        Panel::Requests => requests::view(widget).into_any(),
        Panel::Schedule => schedule::view(widget).into_any(),
        Panel::BatchCost => batch_cost::view(widget).into_any(),
        Panel::Layout => layout::view(widget).into_any(),
        Panel::Scores => scores::view(widget).into_any(),
        Panel::Groups => groups::view(widget).into_any(),
        Panel::Memory => memory::view(widget).into_any(),
        Panel::Search => search::view(widget).into_any(),
    }
}

fn problem(widget: Widget) -> impl IntoView {
    view! {
        <Show when=move || widget.problem.with(Option::is_some)>
            <p class="problem" data-part="problem" role="alert">
                {move || widget.problem.with(|problem| problem.as_ref().map(|fault| fault.message.clone()))}
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
    let tag = target.map(|target| target.tag_name().to_lowercase()).unwrap_or_default();
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

//! The map of all attention heads: a thumbnail each, of where it looked in the steps so far. A click puts its arrows over
//! the cache.

use inferscope_stage::{Habit, Head, HeadMap, OFTEN, format};
use inferscope_trace::{ModelInfo, Trace};
use leptos::{html, prelude::*};
use wasm_bindgen::{Clamped, JsCast};

use super::{cells::rgb_of, term::term};
use crate::{
    dom,
    signal::{Memo, RwSignal, effect},
    widget::Widget,
};

type Canvases = StoredValue<Vec<NodeRef<html::Canvas>>>;

pub fn view(widget: Widget) -> impl IntoView {
    let shown = Memo::new(move |()| widget.player.with(|player| player.moment.steps_shown()));
    let seen = Memo::new(move |()| {
        let last = shown.get().checked_sub(1)?;
        widget.trace.with(|trace| HeadMap::new(trace.as_ref()?, last))
    });
    let shape = Memo::new(move |()| {
        let of = |model: &ModelInfo| (model.n_layers, model.n_heads);
        let run = widget.trace.with(|trace| trace.as_ref().map(|trace| of(&trace.model)));
        run.or_else(|| widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| of(&loaded.model))))
    });
    let canvases: Canvases = StoredValue::new(Vec::new());
    paint_when_seen(widget, seen, canvases);
    view! {
        <Show when=move || shape.get().is_some()>
            <div class="heads" data-part="heads" role="group" aria-labelledby="heads-title">
                <p class="label" id="heads-title">
                    "Every "{term(widget, "head", "head")}", a row a "{term(widget, "layer", "layer")}": where it looked in each step. "
                    {move || seen.with(|seen| seen.as_ref().map(|map| caption(map, shown.get())))}
                    <Show when=move || unseen(seen, shown.get()) && widget.can_look_back()>
                        " " <button type="button" class="link" data-action="look-at-all" on:click=move |_| widget.look_at_all()>
                            "Look at all of them"
                        </button>
                    </Show>
                </p>
                {move || shape.get().map(|(n_layers, n_heads)| {
                    canvases.set_value((0..n_layers * n_heads).map(|_| NodeRef::new()).collect());
                    (0..n_layers)
                        .map(|layer| {
                            let heads = (0..n_heads).map(|head| {
                                let canvas = canvases.with_value(|all| all[layer * n_heads + head]);
                                thumbnail(widget, seen, canvas, layer, head)
                            });
                            view! { <div class="row"><span class="tick">{layer + 1}</span>{heads.collect_view()}</div> }
                        })
                        .collect_view()
                })}
                <p class="hint" data-part="head-words">{move || words(widget, seen)}</p>
            </div>
        </Show>
    }
}

/// Paints a layer's thumbnails a frame, so that a step's other pictures have room beside them.
fn paint_when_seen(widget: Widget, seen: Memo<Option<HeadMap>>, canvases: Canvases) {
    let theme = RwSignal::new(0u32);
    dom::on_theme_change(move || {
        theme.try_update(|count| *count += 1);
    });
    let latest = StoredValue::new(0u32);
    effect(move || {
        theme.track();
        if seen.with(Option::is_none) {
            canvases.with_value(|all| {
                all.iter().filter_map(|canvas| canvas.get_untracked()).for_each(|it| it.set_width(1))
            });
        }
        latest.update_value(|latest| *latest += 1);
        paint_layer(widget, seen, canvases, latest, latest.get_value(), 0);
    });
}

fn paint_layer(
    widget: Widget,
    seen: Memo<Option<HeadMap>>,
    canvases: Canvases,
    latest: StoredValue<u32>,
    turn: u32,
    layer: usize,
) {
    dom::before_paint(move |_| {
        // Something newer is to be painted, or the widget has left.
        if latest.try_get_value() != Some(turn) {
            return;
        }
        let layers = seen.with_untracked(|seen| {
            widget.trace.with_untracked(|trace| {
                let map = seen.as_ref()?;
                let row: Vec<_> = (0..map.n_heads)
                    .filter_map(|head| canvases.with_value(|all| all.get(layer * map.n_heads + head).copied()))
                    .filter_map(|canvas| canvas.get_untracked())
                    .collect();
                let colour = rgb_of(row.first()?, "--query-rgb");
                for (head, canvas) in row.iter().enumerate() {
                    paint(canvas, trace.as_ref()?, map, layer, head, colour);
                }
                Some(map.n_layers)
            })
        });
        if layers.is_some_and(|layers| layer + 1 < layers) {
            paint_layer(widget, seen, canvases, latest, turn, layer + 1);
        }
    });
}

fn caption(map: &HeadMap, shown: usize) -> String {
    match map.steps.len() {
        n if n < shown => format!("{n} of {shown} steps were looked at; the others went by too fast."),
        _ => "Names say what most of a head’s attention in this run went to.".into(),
    }
}

fn unseen(seen: Memo<Option<HeadMap>>, shown: usize) -> bool {
    seen.with(|seen| seen.as_ref().is_some_and(|map| map.steps.len() < shown))
}

fn with_head<T>(seen: Memo<Option<HeadMap>>, layer: usize, head: usize, read: impl Fn(&Head) -> T) -> Option<T> {
    seen.with(|seen| {
        let map = seen.as_ref()?;
        map.heads.get(layer * map.n_heads + head).map(read)
    })
}

fn thumbnail(
    widget: Widget,
    seen: Memo<Option<HeadMap>>,
    canvas: NodeRef<html::Canvas>,
    layer: usize,
    head: usize,
) -> impl IntoView {
    let chosen = move || widget.selection.with(|it| (it.layer, it.head) == (Some(layer), Some(head)));
    let habit = Memo::new(move |()| with_head(seen, layer, head, |it| it.habit));
    let choose = move |_| {
        let (layer, head) = if chosen() { (None, None) } else { (Some(layer), Some(head)) };
        widget.selection.update(|it| (it.layer, it.head) = (layer, head));
    };
    view! {
        <button
            type="button"
            class="head-thumb"
            data-part="head"
            data-layer=layer.to_string()
            data-head=head.to_string()
            data-habit=move || habit.get().map(|habit| habit.label())
            tabindex=move || if is_stop(widget, layer, head) { "0" } else { "-1" }
            on:keydown=move |event| walk(&event)
            aria-pressed=move || chosen().to_string()
            aria-label=move || format!(
                "layer {}, head {}: {}", layer + 1, head + 1, habit_words(seen, habit.get())
            )
            on:click=choose
        >
            <canvas node_ref=canvas aria-hidden="true"></canvas>
            <span>{move || habit.get().map(|habit| habit.label())}</span>
        </button>
    }
}

/// The one of all heads that Tab stops at: the chosen, or the first.
fn is_stop(widget: Widget, layer: usize, head: usize) -> bool {
    let (chosen_layer, chosen_head) = widget.selection.with(|it| (it.layer, it.head));
    match (chosen_layer, chosen_head) {
        (Some(chosen_layer), Some(chosen_head)) => (layer, head) == (chosen_layer, chosen_head),
        _ => (layer, head) == (0, 0),
    }
}

/// Arrow keys walk from head to head.
fn walk(event: &web_sys::KeyboardEvent) {
    let target = event.current_target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    let number = |name| -> Option<i32> { target.as_ref()?.get_attribute(name)?.parse().ok() };
    let (Some(layer), Some(head)) = (number("data-layer"), number("data-head")) else { return };
    let (layer, head) = match event.key().as_str() {
        "ArrowRight" => (layer, head + 1),
        "ArrowLeft" => (layer, head - 1),
        "ArrowUp" => (layer - 1, head),
        "ArrowDown" => (layer + 1, head),
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    let selector = format!("[data-layer=\"{layer}\"][data-head=\"{head}\"]");
    let neighbour = target.and_then(|it| it.closest(".heads").ok()??.query_selector(&selector).ok()?);
    if let Some(neighbour) = neighbour {
        let _ = dom::focus(&neighbour);
    }
}

fn habit_words(seen: Memo<Option<HeadMap>>, habit: Option<Habit>) -> &'static str {
    match habit {
        None => "not looked at yet",
        Some(Habit::Mixed) if seen.with(|seen| seen.as_ref().is_none_or(|map| map.steps.len() < OFTEN)) => {
            "too few steps were looked at to tell what it does"
        }
        Some(habit) => habit.explain(),
    }
}

/// A row a step, a column a position; darker is more weight.
fn paint(
    canvas: &web_sys::HtmlCanvasElement,
    trace: &Trace,
    map: &HeadMap,
    layer: usize,
    head: usize,
    colour: [f32; 3],
) {
    let (width, height) = (map.keys, map.steps.len());
    let [red, green, blue] = colour.map(|channel| channel as u8);
    let mut rgba = vec![0u8; width * height * 4];
    for (row, step) in map.steps.iter().filter_map(|&index| trace.steps.get(index)).enumerate() {
        let Some(attention) = &step.attention else { continue };
        for (column, weight) in attention.row(layer, head).iter().enumerate().take(width) {
            let start = (row * width + column) * 4;
            rgba[start..start + 4].copy_from_slice(&[red, green, blue, (weight.sqrt() * 255.0) as u8]);
        }
    }
    canvas.set_width(width as u32);
    canvas.set_height(height as u32);
    let data = web_sys::ImageData::new_with_u8_clamped_array_and_sh(Clamped(&rgba), width as u32, height as u32);
    let context = canvas.get_context("2d").ok().flatten();
    let context = context.and_then(|it| it.dyn_into::<web_sys::CanvasRenderingContext2d>().ok());
    if let (Ok(data), Some(context)) = (data, context) {
        let _ = context.put_image_data(&data, 0.0, 0.0);
    }
}

/// What is known of the chosen head, in words.
fn words(widget: Widget, seen: Memo<Option<HeadMap>>) -> String {
    let (layer, head) = widget.selection.with(|it| (it.layer, it.head));
    let (Some(layer), Some(head)) = (layer, head) else {
        return "Choose a head to see its arrows; choose it again for the mean of all.".into();
    };
    let described = with_head(seen, layer, head, |it| {
        let copies = it.copies.map_or(String::new(), |(share, count)| {
            format!(
                "; {} on what followed an earlier mention ({count} step{})",
                format::percent(share),
                if count == 1 { "" } else { "s" }
            )
        });
        format!(
            "Layer {}, head {} {}. Mean weight: {} on the token before, {} on itself, {} on the first{copies}.",
            layer + 1,
            head + 1,
            it.habit.explain(),
            format::percent(it.previous),
            format::percent(it.itself),
            format::percent(it.first),
        )
    });
    described.unwrap_or_default()
}

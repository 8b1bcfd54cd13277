//! The map of all attention heads: a thumbnail each, of where it looked in the steps so far. A click puts its arrows over
//! the cache.

use inferscope_stage::{Head, HeadMap, format};
use leptos::{html, prelude::*};
use wasm_bindgen::{Clamped, JsCast};

use super::cells::rgb_of;
use crate::{dom, widget::Widget};

/// What a thumbnail shows: all heads change together, when another step has been looked at.
#[derive(Clone, PartialEq)]
struct Seen {
    map: HeadMap,
    run: usize,
}

pub fn view(widget: Widget) -> impl IntoView {
    let shown = Memo::new(move |_| widget.player.with(|player| player.moment.steps_shown()));
    let seen = Memo::new(move |_| {
        let last = shown.get().checked_sub(1)?;
        widget.trace.with(|trace| {
            let trace = trace.as_ref()?;
            let run = trace.steps.first().map_or(0, |step| std::sync::Arc::as_ptr(step) as usize);
            Some(Seen { map: HeadMap::new(trace, last)?, run })
        })
    });
    let shape = Memo::new(move |_| seen.with(|seen| seen.as_ref().map(|seen| (seen.map.n_layers, seen.map.n_heads))));
    let theme = RwSignal::new(0u32);
    dom::on_theme_change(move || {
        theme.try_update(|count| *count += 1);
    });
    view! {
        <Show when=move || shape.get().is_some()>
            <div class="heads" data-part="heads" role="group" aria-labelledby="heads-title">
                <p class="label" id="heads-title">
                    "Every head, a row a layer: where it looked in each step. "
                    {move || seen.with(|seen| seen.as_ref().map(|seen| caption(&seen.map, shown.get())))}
                    <Show when=move || unseen(seen, shown.get()) && widget.can_look_back()>
                        " " <button type="button" class="link" data-action="look-at-all" on:click=move |_| widget.look_at_all()>
                            "Look at all of them"
                        </button>
                    </Show>
                </p>
                {move || shape.get().map(|(n_layers, n_heads)| {
                    (0..n_layers)
                        .map(|layer| {
                            let heads = (0..n_heads).map(|head| thumbnail(widget, seen, theme, layer, head)).collect_view();
                            view! { <div class="row"><span class="tick">{layer + 1}</span>{heads}</div> }
                        })
                        .collect_view()
                })}
                <p class="hint" data-part="head-words">{move || words(widget, seen)}</p>
            </div>
        </Show>
    }
}

fn caption(map: &HeadMap, shown: usize) -> String {
    match map.steps.len() {
        n if n < shown => format!("{n} of {shown} steps were looked at; the others went by too fast."),
        _ => "Names are given by the weights of this run.".into(),
    }
}

fn unseen(seen: Memo<Option<Seen>>, shown: usize) -> bool {
    seen.with(|seen| seen.as_ref().is_some_and(|seen| seen.map.steps.len() < shown))
}

fn with_head<T>(seen: Memo<Option<Seen>>, layer: usize, head: usize, read: impl Fn(&Head) -> T) -> Option<T> {
    seen.with(|seen| {
        let map = &seen.as_ref()?.map;
        map.heads.get(layer * map.n_heads + head).map(read)
    })
}

fn thumbnail(
    widget: Widget,
    seen: Memo<Option<Seen>>,
    theme: RwSignal<u32>,
    layer: usize,
    head: usize,
) -> impl IntoView {
    let canvas = NodeRef::<html::Canvas>::new();
    Effect::new(move || {
        theme.track();
        if let Some(canvas) = canvas.get() {
            seen.with(|seen| {
                widget.trace.with_untracked(|trace| {
                    if let (Some(seen), Some(trace)) = (seen, trace) {
                        paint(&canvas, trace, &seen.map, layer, head);
                    }
                });
            });
        }
    });
    let chosen = move || widget.selection.with(|it| (it.layer, it.head) == (Some(layer), Some(head)));
    let habit = move || with_head(seen, layer, head, |it| it.habit);
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
            data-habit=move || habit().map(|habit| habit.label())
            aria-pressed=move || chosen().to_string()
            aria-label=move || format!(
                "layer {}, head {}: {}", layer + 1, head + 1, habit().map_or("", |habit| habit.explain())
            )
            on:click=choose
        >
            <canvas node_ref=canvas aria-hidden="true"></canvas>
            <span>{move || habit().map(|habit| habit.label())}</span>
        </button>
    }
}

/// A row a step, a column a position; darker is more weight.
fn paint(
    canvas: &web_sys::HtmlCanvasElement,
    trace: &inferscope_trace::Trace,
    map: &HeadMap,
    layer: usize,
    head: usize,
) {
    let (width, height) = (map.keys, map.steps.len());
    let colour = rgb_of(canvas, "--query-rgb");
    let mut rgba = vec![0u8; width * height * 4];
    for (row, step) in map.steps.iter().filter_map(|&index| trace.steps.get(index)).enumerate() {
        let Some(attention) = &step.attention else { continue };
        for (column, weight) in attention.row(layer, head).iter().enumerate().take(width) {
            let start = (row * width + column) * 4;
            let [red, green, blue] = colour.map(|channel| channel as u8);
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
fn words(widget: Widget, seen: Memo<Option<Seen>>) -> String {
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

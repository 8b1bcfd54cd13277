//! The KV cache grid: cells on a canvas, and over it the columns, arrows and labels as elements.

mod cell;
mod columns;
mod focus;

use inferscope_stage::{CacheFrame, ColumnState, Metrics, Plan, Selection, Status, format::tenths, scenes::Panel};
use inferscope_trace::ModelInfo;
use leptos::{html, prelude::*};

pub use self::{cell::details, focus::pick as pick_focus};
use self::{
    cell::{pick_cell, walk},
    columns::{arrows, chosen},
};
use super::{cells::CellPainter, term::term};
use crate::{
    dom,
    parts::{self, Piece},
    signal::{Memo, RwSignal, effect},
    widget::Widget,
};

/// The shape on screen before a model is loaded: the default model's, so that nothing jumps when it comes.
const PLACEHOLDER: (usize, usize) = (5, 256);

fn shape(widget: Widget) -> (usize, usize) {
    let of = |model: &ModelInfo| (model.n_layers, model.context);
    let run = widget.trace.with(|trace| trace.as_ref().map(|trace| of(&trace.model)));
    run.or_else(|| widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| of(&loaded.model)))).unwrap_or(PLACEHOLDER)
}

pub fn view(widget: Widget) -> impl IntoView {
    let scroller = NodeRef::<html::Div>::new();
    let width = super::width_of(scroller);
    let metrics = Memo::new(move |()| Metrics::for_width(width.get().unwrap_or(super::TYPICAL_WIDTH)));
    let looked_at = Memo::new(move |()| {
        let selection = widget.selection.get();
        Selection { cell: None, ..selection }
    });
    let frame = Memo::new(move |()| {
        let moment = widget.moment();
        let (n_layers, context) = shape(widget);
        widget.trace.with(|trace| {
            let plan = trace.as_ref().map_or_else(
                || Plan {
                    prompt: widget.prompt_tokens.with(|tokens| tokens.as_ref().map_or(1, Vec::len)).min(context),
                    max_new_tokens: widget.settings.with(|settings| settings.max_new_tokens),
                    context,
                },
                Plan::of,
            );
            CacheFrame::new(trace.as_ref(), moment, plan, n_layers, &looked_at.get(), &metrics.get())
        })
    });
    let canvas = NodeRef::<html::Canvas>::new();
    follow(scroller, frame);
    paint(widget, canvas, frame, metrics);
    let n_layers = Memo::new(move |()| shape(widget).0);
    // Hundreds of columns are not worth drawing by a width that is only guessed.
    let measured = Memo::new(move |()| width.with(Option::is_some));
    view! {
        <section class="panel cache" aria-labelledby="cache-title">
            <div class="head">
                <h3 id="cache-title">{term(widget, "kv-cache", "KV cache")}</h3>
                <p class="hint" data-part="cache-caption">{move || frame.with(|frame| caption(widget, frame))}</p>
                <div class="picks">{picks(widget)}</div>
            </div>
            <div class="grid" data-part="cache">
                <div class="layers" aria-hidden="true" style=move || format!("padding-top:{}px", tenths(metrics.get().grid_top()))>
                    {move || {
                        let metrics = metrics.get();
                        (0..n_layers.get())
                            .map(|layer| {
                                let style = format!(
                                    "height:{}px;margin-bottom:{}px", tenths(metrics.row_height), tenths(metrics.row_gap)
                                );
                                view! { <div style=style><span class="word">"layer\u{a0}"</span>{layer + 1}</div> }
                            })
                            .collect_view()
                    }}
                </div>
                <div class="scroller" node_ref=scroller>
                    <div
                        class="stack"
                        style=move || frame.with(|frame| format!("width:{}px;height:{}px", frame.width.round() as u32, frame.height.round() as u32))
                        // Not on the drawing: what hears of focus could be focused itself.
                        on:focusin=move |event| pick_cell(widget, &event)
                    >
                        <canvas node_ref=canvas aria-hidden="true"></canvas>
                        <svg
                            width=move || frame.with(|frame| (frame.width.ceil() as u32).to_string())
                            height=move || frame.with(|frame| tenths(frame.height))
                            role="group"
                            aria-label="Cells of the cache: one row a layer, one column a position"
                            on:pointerover=move |event| pick_cell(widget, &event)
                            on:click=move |event| focus::pick(widget, &event)
                            on:keydown=move |event| walk(widget, &event)
                        >
                            <defs>
                                <marker
                                    id="head" viewBox="0 0 6 6" refX="5" refY="3" orient="auto"
                                    markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse"
                                >
                                    <path class="arrowhead" d="M0 0 L6 3 L0 6 z" />
                                </marker>
                                <marker
                                    id="head-in" viewBox="0 0 6 6" refX="5" refY="3" orient="auto"
                                    markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse"
                                >
                                    <path class="arrowhead" d="M0 0 L6 3 L0 6 z" />
                                </marker>
                            </defs>
                            {columns::view(frame, n_layers, metrics, measured)}
                            {chosen(widget, frame, metrics)}
                            {arrows(frame)}
                        </svg>
                        <Show when=move || widget.trace.with(Option::is_none)>
                            <span class="hint before-run">
                                "Every slot is free. Run fills the prompt’s columns all at once, then adds one for each new token."
                            </span>
                        </Show>
                    </div>
                </div>
            </div>
            {focus::view(widget, frame)}
            {legend(widget)}
            <div class="below">{parts::piece(widget, Piece::Heads, || ().into_any())} {parts::piece(widget, Piece::CellDetails, || ().into_any())}</div>
        </section>
    }
}

/// Scrolls so that the newest column stays in sight, or the one in focus.
fn follow(scroller: NodeRef<html::Div>, frame: Memo<CacheFrame>) {
    let newest = Memo::new(move |()| {
        frame.with(|frame| {
            let in_focus = frame.focus.as_ref().map(|focus| focus.position);
            let busy = in_focus.or(frame.columns.iter().rposition(|column| column.state != ColumnState::Free));
            busy.map_or(0, |index| frame.columns[index].x as i32)
        })
    });
    effect(move || {
        let newest = newest.get();
        if let Some(element) = scroller.get() {
            // Where it stands is known when all that changed has been laid out, which is then.
            dom::before_paint(move |_| {
                let (left, width) = (element.scroll_left(), element.client_width());
                if newest < left + 40 || newest > left + width - 60 {
                    element.set_scroll_left((newest - width * 2 / 3).max(0));
                }
            });
        }
    });
}

fn paint(widget: Widget, canvas: NodeRef<html::Canvas>, frame: Memo<CacheFrame>, metrics: Memo<Metrics>) {
    let theme = RwSignal::new(0u32);
    dom::on_theme_change(move || {
        theme.try_update(|count| *count += 1);
    });
    let painter = StoredValue::new_local(CellPainter::default());
    effect(move || {
        let theme = theme.get();
        let moment = widget.moment();
        let Some(canvas) = canvas.get() else { return };
        widget.trace.with(|trace| {
            frame.with(|frame| {
                painter.update_value(|painter| {
                    painter.paint(&canvas, trace.as_ref(), moment, frame, &metrics.get(), theme);
                });
            });
        });
    });
}

fn caption(widget: Widget, frame: &CacheFrame) -> String {
    let context = frame.columns.len();
    let recomputed = frame.columns.iter().filter(|column| column.state == ColumnState::Recomputed).count();
    let cached = widget.trace.with(|trace| {
        trace.as_ref().map_or_else(|| widget.settings.with(|settings| settings.cache), |trace| trace.settings.cache)
    });
    match (cached, recomputed) {
        (true, _) if widget.player.with(|player| player.status == Status::Done) => {
            format!(
                "{} of {context} slots filled; the last token drawn has no column, since nothing came after it",
                frame.filled
            )
        }
        (true, _) => format!("{} of {context} slots filled", frame.filled),
        (false, 0) => "switched off: nothing will be kept".into(),
        (false, n) => format!("switched off: this step computed {n} columns again and keeps none"),
    }
}

/// Layer and head whose attention the arrows show.
fn picks(widget: Widget) -> impl IntoView {
    let heads = Memo::new(move |()| widget.loaded.with(|loaded| loaded.as_ref().map_or(8, |it| it.model.n_heads)));
    let layers = Memo::new(move |()| shape(widget).0);
    view! {
        {pick(widget, "layer", "Arrows: layer", layers, |selection| &mut selection.layer)}
        {pick(widget, "head", "head", heads, |selection| &mut selection.head)}
    }
}

/// One of `count`, or the mean of all.
fn pick(
    widget: Widget,
    name: &'static str,
    label: &'static str,
    count: Memo<usize>,
    part: fn(&mut Selection) -> &mut Option<usize>,
) -> impl IntoView {
    let chosen = move || *part(&mut widget.selection.get());
    view! {
        <label class="field inline">
            <span class="label">{label}</span>
            <select
                name=name
                on:change=move |event| {
                    let chosen = event_target_value(&event).parse().ok();
                    widget.selection.update(|selection| *part(selection) = chosen);
                }
            >
                <option value="mean" prop:selected=move || chosen().is_none()>"mean of all"</option>
                {move || (0..count.get()).map(|index| view! {
                    <option value=index.to_string() prop:selected=move || chosen() == Some(index)>{index + 1}</option>
                }).collect_view()}
            </select>
        </label>
    }
}

fn legend(widget: Widget) -> impl IntoView {
    view! {
        <ul class="legend cells" aria-label="What a cell shows">
            <li><span class="swatch key" aria-hidden="true"></span><span>"upper half: the "{term(widget, "key", "key")}", a column of numbers for each "{term(widget, "kv-head", "KV head")}</span></li>
            <li><span class="swatch value" aria-hidden="true"></span><span>"lower half: the "{term(widget, "value", "value")}</span></li>
            <li><span class="swatch arrow" aria-hidden="true"></span><span>"how much a token "{term(widget, "attention", "attends")}" to one before it: the newest, or the one you chose"</span></li>
            <li><span class="swatch arrow inward" aria-hidden="true"></span><span>"dashed: how much a later token attends to it"</span></li>
            {widget.scene.panels.contains(&Panel::Layout).then(|| view! {
                <li><span class="swatch dropped" aria-hidden="true"></span><span>"dropped: no longer in the cache"</span></li>
            })}
            <li><span class="swatch spare" aria-hidden="true"></span><span>"free slots that this run will not need"</span></li>
        </ul>
    }
}

//! The KV cache grid: cells on a canvas, and over it the columns, arrows and labels as elements.

use inferscope_stage::{
    CacheFrame, CellDetails, Column, ColumnState, Metrics, Moment, Plan, Selection, cell_details, format,
};
use inferscope_trace::ModelInfo;
use leptos::{html, prelude::*};
use wasm_bindgen::JsCast;

use super::cells::CellPainter;
use crate::{dom, widget::Widget};

/// The shape on screen before a model is loaded: the default model's, so that nothing jumps when it comes.
const PLACEHOLDER: (usize, usize) = (5, 256);

fn shape(widget: Widget) -> (usize, usize) {
    let of = |model: &ModelInfo| (model.n_layers, model.context);
    let run = widget.trace.with(|trace| trace.as_ref().map(|trace| of(&trace.model)));
    run.or_else(|| widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| of(&loaded.model)))).unwrap_or(PLACEHOLDER)
}

pub fn view(widget: Widget) -> impl IntoView {
    let width = RwSignal::new(900.0f32);
    let metrics = Memo::new(move |_| Metrics::for_width(width.get()));
    let looked_at = Memo::new(move |_| {
        let selection = widget.selection.get();
        Selection { cell: None, ..selection }
    });
    let frame = Memo::new(move |_| {
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
    let scroller = NodeRef::<html::Div>::new();
    let canvas = NodeRef::<html::Canvas>::new();
    measure(scroller, width);
    follow(scroller, frame);
    paint(widget, canvas, frame, metrics);
    let columns = column_signals(frame);
    let n_layers = Memo::new(move |_| shape(widget).0);
    view! {
        <section class="panel cache" aria-labelledby="cache-title">
            <div class="head">
                <h3 id="cache-title">"KV cache"</h3>
                <p class="hint" data-part="cache-caption">{move || frame.with(|frame| caption(widget, frame))}</p>
                <div class="picks">{picks(widget)}</div>
            </div>
            <div class="grid" data-part="cache">
                <div class="layers" aria-hidden="true" style=move || format!("padding-top:{}px", metrics.get().grid_top())>
                    {move || {
                        let metrics = metrics.get();
                        (0..n_layers.get())
                            .map(|layer| {
                                let style = format!(
                                    "height:{}px;margin-bottom:{}px", metrics.row_height, metrics.row_gap
                                );
                                view! { <div style=style><span class="word">"layer\u{a0}"</span>{layer + 1}</div> }
                            })
                            .collect_view()
                    }}
                </div>
                <div class="scroller" node_ref=scroller>
                    <div
                        class="stack"
                        style=move || frame.with(|frame| format!("width:{:.0}px;height:{:.0}px", frame.width, frame.height))
                    >
                        <canvas node_ref=canvas aria-hidden="true"></canvas>
                        <svg
                            width=move || frame.with(|frame| frame.width.ceil())
                            height=move || frame.with(|frame| frame.height)
                            role="group"
                            aria-label="Cells of the cache: one row a layer, one column a position"
                            on:pointerover=move |event| pick_cell(widget, &event)
                            on:focusin=move |event| pick_cell(widget, &event)
                            on:keydown=move |event| walk(&event)
                        >
                            <defs>
                                <marker
                                    id="head" viewBox="0 0 6 6" refX="5" refY="3" orient="auto"
                                    markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse"
                                >
                                    <path class="arrowhead" d="M0 0 L6 3 L0 6 z" />
                                </marker>
                            </defs>
                            <For
                                each=move || columns.get().into_iter().enumerate()
                                key=|(position, _)| *position
                                let((position, column))
                            >
                                {column_view(column, n_layers, metrics, position)}
                            </For>
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
            {legend()}
            {details(widget)}
        </section>
    }
}

/// Keeps the frame as wide as its place.
fn measure(scroller: NodeRef<html::Div>, width: RwSignal<f32>) {
    let guard = StoredValue::new_local(None);
    Effect::new(move || {
        if let Some(element) = scroller.get() {
            guard.set_value(Some(dom::on_resize(&element, move |wide| {
                if (width.get_untracked() - wide).abs() >= 1.0 && wide > 0.0 {
                    width.set(wide);
                }
            })));
        }
    });
    on_cleanup(move || guard.set_value(None));
}

/// Scrolls so that the newest column stays in sight.
fn follow(scroller: NodeRef<html::Div>, frame: Memo<CacheFrame>) {
    let newest = Memo::new(move |_| {
        frame.with(|frame| {
            let busy = frame.columns.iter().rposition(|column| column.state != ColumnState::Free);
            busy.map_or(0, |index| frame.columns[index].x as i32)
        })
    });
    Effect::new(move || {
        let newest = newest.get();
        if let Some(element) = scroller.get() {
            let (left, width) = (element.scroll_left(), element.client_width());
            if newest < left + 40 || newest > left + width - 60 {
                element.set_scroll_left((newest - width * 2 / 3).max(0));
            }
        }
    });
}

fn paint(widget: Widget, canvas: NodeRef<html::Canvas>, frame: Memo<CacheFrame>, metrics: Memo<Metrics>) {
    let theme = RwSignal::new(0u32);
    dom::on_theme_change(move || {
        theme.try_update(|count| *count += 1);
    });
    let painter = StoredValue::new_local(CellPainter::default());
    Effect::new(move || {
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
        (true, _) => format!("{} of {context} slots filled", frame.filled),
        (false, 0) => "switched off: nothing will be kept".into(),
        (false, n) => format!("switched off: this step computed {n} columns again and keeps none"),
    }
}

/// Layer and head whose attention the arrows show.
fn picks(widget: Widget) -> impl IntoView {
    let heads =
        Memo::new(move |_| widget.loaded.with(|loaded| loaded.as_ref().map_or(8, |loaded| loaded.model.n_heads)));
    let layers = Memo::new(move |_| shape(widget).0);
    let parse = |text: String| text.parse::<usize>().ok();
    view! {
        <label class="field inline">
            <span class="label">"Arrows: layer"</span>
            <select
                name="layer"
                on:change=move |event| {
                    let layer = parse(event_target_value(&event));
                    widget.selection.update(|selection| selection.layer = layer);
                }
            >
                <option value="mean">"mean of all"</option>
                {move || (0..layers.get()).map(|layer| view! { <option value=layer.to_string()>{layer + 1}</option> }).collect_view()}
            </select>
        </label>
        <label class="field inline">
            <span class="label">"head"</span>
            <select
                name="head"
                on:change=move |event| {
                    let head = parse(event_target_value(&event));
                    widget.selection.update(|selection| selection.head = head);
                }
            >
                <option value="mean">"mean of all"</option>
                {move || (0..heads.get()).map(|head| view! { <option value=head.to_string()>{head + 1}</option> }).collect_view()}
            </select>
        </label>
    }
}

/// A signal for each column, set only when that column looks different. With hundreds of columns that all followed the
/// frame themselves, following it would cost more than drawing it. What changes with every tick of the clock, a column's
/// presence, is the canvas's business.
fn column_signals(frame: Memo<CacheFrame>) -> RwSignal<Vec<ArcRwSignal<Column>>> {
    let signals = RwSignal::new(Vec::<ArcRwSignal<Column>>::new());
    Effect::new(move || {
        frame.with(|frame| {
            let known = signals.with_untracked(|signals| {
                for (signal, column) in signals.iter().zip(&frame.columns) {
                    let still = |old: &Column| Column { presence: old.presence, ..column.clone() };
                    if signal.with_untracked(|old| *old != still(old)) {
                        signal.set(column.clone());
                    }
                }
                signals.len()
            });
            if known != frame.columns.len() {
                signals.update(|signals| {
                    signals.truncate(frame.columns.len());
                    signals.extend(frame.columns[signals.len()..].iter().cloned().map(ArcRwSignal::new));
                });
            }
        });
    });
    signals
}

fn column_view(
    column: ArcRwSignal<Column>,
    n_layers: Memo<usize>,
    metrics: Memo<Metrics>,
    position: usize,
) -> impl IntoView {
    let (state, spare, query) = (column.clone(), column.clone(), column.clone());
    view! {
        <g
            class="column"
            data-part="column"
            data-position=position.to_string()
            data-state=move || state.with(|column| column.state.as_str())
            class:spare=move || spare.with(|column| column.spare)
            class:query=move || query.with(|column| column.query)
        >
            {move || column.with(|column| slots(column, n_layers.get(), &metrics.get()))}
        </g>
    }
}

/// A frame around the cell that the reader points at.
fn chosen(widget: Widget, frame: Memo<CacheFrame>, metrics: Memo<Metrics>) -> impl IntoView {
    let place = Memo::new(move |_| {
        let (layer, position) = widget.selection.with(|selection| selection.cell)?;
        let (x, width) = frame.with(|frame| {
            let column = frame.columns.get(position)?;
            (column.state != ColumnState::Free).then_some((column.x, column.width))
        })?;
        Some((x, metrics.get().row_top(layer) - 1.0, width, metrics.get().row_height + 2.0))
    });
    move || place.get().map(|(x, y, width, height)| view! { <rect class="chosen" x=x y=y width=width height=height /> })
}

fn slots(column: &Column, n_layers: usize, metrics: &Metrics) -> impl IntoView + use<> {
    let gap = if column.spare { 0.3 } else { 1.0 };
    let (x, width) = (column.x + gap, (column.width - 2.0 * gap).max(0.6));
    let busy = column.state != ColumnState::Free;
    let position = column.position;
    let outline = (!busy).then(|| {
        let rows = (0..n_layers).map(|layer| {
            let (top, bottom) = (metrics.row_top(layer), metrics.row_top(layer) + metrics.row_height);
            format!("M{x:.1} {top:.1}H{:.1}V{bottom:.1}H{x:.1}z", x + width)
        });
        let outline: String = rows.collect();
        view! { <path class="slot" d=outline /> }
    });
    let cells = busy.then(|| {
        (0..n_layers)
            .map(|layer| {
                view! {
                    <rect
                        class="cell"
                        data-part="cell"
                        data-layer=layer.to_string()
                        data-position=position.to_string()
                        tabindex=if (layer, position) == (0, 0) { "0" } else { "-1" }
                        aria-label=format!("layer {}, position {position}", layer + 1)
                        x=format!("{x:.1}")
                        y=format!("{:.1}", metrics.row_top(layer))
                        width=format!("{width:.1}")
                        height=format!("{:.1}", metrics.row_height)
                    />
                }
            })
            .collect_view()
    });
    let middle = column.middle();
    let label = (!column.label.is_empty() && !column.spare).then(|| {
        let (x, y) = (middle + 3.5, metrics.grid_top() - 5.0);
        view! {
            <text class="token" transform=format!("translate({x:.1} {y:.1}) rotate(-62)")>
                {format::visible(column.label.strip_prefix(' ').filter(|rest| !rest.is_empty()).unwrap_or(&column.label))}
            </text>
        }
    });
    let bottom = metrics.row_top(n_layers) - metrics.row_gap + 12.0;
    let number = (!column.spare && position.is_multiple_of(8)).then(|| {
        view! { <text class="tick" x=format!("{middle:.1}") y=format!("{bottom:.1}") text-anchor="middle">{position}</text> }
    });
    view! { {outline} {cells} {label} {number} }
}

fn arrows(frame: Memo<CacheFrame>) -> impl IntoView {
    let arrows = Memo::new(move |_| frame.with(|frame| frame.arrows.clone()));
    view! {
        <g class="arrows" style=move || frame.with(|frame| format!("opacity:{:.2}", frame.arrows_presence))>
            {move || arrows.get().into_iter().map(|arrow| {
                // Areas compare better than lengths: the root of the weight is what the eye takes for it.
                let strength = arrow.weight.sqrt();
                view! {
                    <path
                        data-part="arrow"
                        data-to=arrow.to.to_string()
                        data-weight=arrow.weight.to_string()
                        d=arrow.path
                        marker-end={(arrow.weight > 0.02).then_some("url(#head)")}
                        style=format!("stroke-width:{:.2};opacity:{:.2}", 0.5 + 4.0 * strength, 0.12 + 0.88 * strength)
                    >
                        <title>{format!("position {}: {} of the attention", arrow.to, format::percent(arrow.weight))}</title>
                    </path>
                }
            }).collect_view()}
        </g>
    }
}

fn cell_of(event: &web_sys::Event) -> Option<(web_sys::Element, usize, usize)> {
    let target = event.target()?.dyn_into::<web_sys::Element>().ok()?;
    let number = |name| target.get_attribute(name)?.parse().ok();
    let (layer, position) = (number("data-layer")?, number("data-position")?);
    Some((target, layer, position))
}

fn pick_cell(widget: Widget, event: &web_sys::Event) {
    if let Some((_, layer, position)) = cell_of(event)
        && widget.selection.with_untracked(|selection| selection.cell != Some((layer, position)))
    {
        widget.selection.update(|selection| selection.cell = Some((layer, position)));
    }
}

/// Arrow keys walk from cell to cell.
fn walk(event: &web_sys::KeyboardEvent) {
    let Some((target, layer, position)) = cell_of(event) else { return };
    let (layer, position) = match event.key().as_str() {
        "ArrowRight" => (Some(layer), Some(position + 1)),
        "ArrowLeft" => (Some(layer), position.checked_sub(1)),
        "ArrowUp" => (layer.checked_sub(1), Some(position)),
        "ArrowDown" => (Some(layer + 1), Some(position)),
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    let neighbour = layer.zip(position).and_then(|(layer, position)| {
        let selector = format!("[data-layer=\"{layer}\"][data-position=\"{position}\"]");
        target.closest("svg").ok()??.query_selector(&selector).ok()?
    });
    if let Some(neighbour) = neighbour {
        let _ = dom::focus(&neighbour);
    }
}

fn legend() -> impl IntoView {
    view! {
        <ul class="legend cells" aria-label="What a cell shows">
            <li><span class="swatch key" aria-hidden="true"></span>"upper half: the key, a column of numbers for each KV head"</li>
            <li><span class="swatch value" aria-hidden="true"></span>"lower half: the value"</li>
            <li><span class="swatch arrow" aria-hidden="true"></span>"how much the newest token attends to a position"</li>
            <li><span class="swatch spare" aria-hidden="true"></span>"free slots that this run will not need"</li>
        </ul>
    }
}

/// The numbers of the cell that the reader points at.
fn details(widget: Widget) -> impl IntoView {
    let details = Memo::new(move |_| {
        let (layer, position) = widget.selection.with(|selection| selection.cell)?;
        let moment: Moment = widget.moment();
        widget.trace.with(|trace| {
            let trace = trace.as_ref()?;
            let seen = trace.steps.get(moment.step)?.end_position();
            if position >= seen { None } else { cell_details(trace, moment, layer, position) }
        })
    });
    view! {
        <div class="details" aria-live="polite">
            {move || match details.get() {
                None => view! { <p class="hint">"Point at a cell, or walk there with Tab and the arrow keys, to read its numbers."</p> }.into_any(),
                Some(details) => cell(details).into_any(),
            }}
        </div>
    }
}

fn cell(details: CellDetails) -> impl IntoView {
    let numbers = |numbers: &[f32], class: &'static str| {
        let largest = numbers.iter().fold(1e-6f32, |max, number| max.max(number.abs()));
        let bars = numbers.iter().map(|number| {
            let (height, sign) = (number.abs() / largest * 50.0, if *number < 0.0 { "minus" } else { "plus" });
            view! { <i class=sign style=format!("--height:{height:.0}%") title=format!("{number:.3}")></i> }
        });
        view! { <span class=format!("spark {class}")>{bars.collect_view()}</span> }
    };
    let heads = details.heads.iter().enumerate().map(|(head, it)| {
        view! {
            <tr>
                <th scope="row">{format!("KV head {}", head + 1)}</th>
                <td>{numbers(&it.key, "key")}</td>
                <td class="number">{format!("{:.2}", it.key_norm)}</td>
                <td>{numbers(&it.value, "value")}</td>
                <td class="number">{format!("{:.2}", it.value_norm)}</td>
            </tr>
        }
    });
    view! {
        <div data-part="cell-details">
            <p>
                {format!("Layer {}, position {}: ", details.layer + 1, details.position)}
                <b class="token">{format::visible(&details.token)}</b>
                {format!(", {} bytes", details.bytes)}
            </p>
            <table>
                <thead>
                    <tr>
                        <th scope="col"></th>
                        <th scope="col">"key"</th>
                        <th scope="col" class="number">"length"</th>
                        <th scope="col">"value"</th>
                        <th scope="col" class="number">"length"</th>
                    </tr>
                </thead>
                <tbody>{heads.collect_view()}</tbody>
            </table>
        </div>
    }
}

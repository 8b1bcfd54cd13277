//! The grid's columns and the arrows over them.

use inferscope_stage::{CacheFrame, Column, ColumnState, Metrics, format};
use leptos::prelude::*;

use super::tenths;

use crate::{
    signal::{Memo, RwSignal, effect},
    widget::Widget,
};

/// A signal for each column, set only when that column looks different. With hundreds of columns that all followed the
/// frame themselves, following it would cost more than drawing it. What changes with every tick of the clock, a column's
/// presence, is the canvas's business.
pub fn column_signals(frame: Memo<CacheFrame>) -> RwSignal<Vec<ArcRwSignal<Column>>> {
    let signals = RwSignal::new(Vec::<ArcRwSignal<Column>>::new());
    effect(move || {
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

pub fn column_view(
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
pub fn chosen(widget: Widget, frame: Memo<CacheFrame>, metrics: Memo<Metrics>) -> impl IntoView {
    let place = Memo::new(move |()| {
        let (layer, position) = widget.selection.with(|selection| selection.cell)?;
        let (x, width) = frame.with(|frame| {
            let column = frame.columns.get(position)?;
            (column.state != ColumnState::Free).then_some((column.x, column.width))
        })?;
        Some((x, metrics.get().row_top(layer) - 1.0, width, metrics.get().row_height + 2.0))
    });
    move || {
        place.get().map(|(x, y, width, height)| view! { <rect class="chosen" x=tenths(x) y=tenths(y) width=tenths(width) height=tenths(height) /> })
    }
}

fn slots(column: &Column, n_layers: usize, metrics: &Metrics) -> impl IntoView + use<> {
    let gap = if column.spare { 0.3 } else { 1.0 };
    let (x, width) = (column.x + gap, (column.width - 2.0 * gap).max(0.6));
    let evicted = column.state == ColumnState::Evicted;
    let busy = column.state != ColumnState::Free && !evicted;
    let position = column.position;
    let outline = (!busy).then(|| {
        let rows = (0..n_layers).map(|layer| {
            let (top, bottom) = (metrics.row_top(layer), metrics.row_top(layer) + metrics.row_height);
            let [left, right, top, bottom] = [x, x + width, top, bottom].map(tenths);
            format!("M{left} {top}H{right}V{bottom}H{left}z")
        });
        let outline: String = rows.collect();
        view! { <path class="slot" d=outline /> }
    });
    let crossed = evicted.then(|| {
        let rows = (0..n_layers).map(|layer| {
            let (top, bottom) = (metrics.row_top(layer), metrics.row_top(layer) + metrics.row_height);
            format!("M{} {}L{} {}", tenths(x), tenths(bottom), tenths(x + width), tenths(top))
        });
        let path: String = rows.collect();
        view! { <path class="crossed" d=path /> }
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
                        x=tenths(x)
                        y=tenths(metrics.row_top(layer))
                        width=tenths(width)
                        height=tenths(metrics.row_height)
                    />
                }
            })
            .collect_view()
    });
    let middle = column.middle();
    let label = (!column.label.is_empty() && !column.spare).then(|| {
        let (x, y) = (middle + 3.5, metrics.grid_top() - 5.0);
        view! {
            <rect
                class="grip"
                data-part="grip"
                data-focus=position.to_string()
                x=tenths(column.x)
                y=tenths(metrics.arrows_height)
                width=tenths(column.width)
                height=tenths(metrics.labels_height)
            />
            <text class="token" data-focus=position.to_string() transform=format!("translate({} {}) rotate(-68)", tenths(x), tenths(y))>
                {format::visible(column.label.strip_prefix(' ').filter(|rest| !rest.is_empty()).unwrap_or(&column.label))}
            </text>
        }
    });
    let bottom = metrics.row_top(n_layers) - metrics.row_gap + 12.0;
    let number = (!column.spare && position.is_multiple_of(8)).then(|| {
        view! { <text class="tick" x=tenths(middle) y=tenths(bottom) text-anchor="middle">{position}</text> }
    });
    view! { {outline} {crossed} {cells} {label} {number} }
}

fn hundredths(number: f32) -> String {
    format::fixed(f64::from(number), 2)
}

pub fn arrows(frame: Memo<CacheFrame>) -> impl IntoView {
    let arrows = Memo::new(move |()| frame.with(|frame| frame.arrows.clone()));
    view! {
        <g class="arrows" style=move || frame.with(|frame| format!("opacity:{}", hundredths(frame.arrows_presence)))>
            {move || arrows.get().into_iter().map(|arrow| {
                // Areas compare better than lengths: the root of the weight is what the eye takes for it.
                let strength = arrow.weight.sqrt();
                view! {
                    <path
                        data-part="arrow"
                        class:inward=arrow.inward
                        data-from=arrow.from.to_string()
                        data-to=arrow.to.to_string()
                        data-weight=format::fixed(f64::from(arrow.weight), 8)
                        d=arrow.path
                        marker-end={(arrow.weight > 0.02).then_some(if arrow.inward { "url(#head-in)" } else { "url(#head)" })}
                        style=format!("stroke-width:{};opacity:{}", hundredths(0.5 + 4.0 * strength), hundredths(0.12 + 0.88 * strength))
                    >
                        <title>{format!(
                            "position {} gives position {} {} of its attention", arrow.from, arrow.to, format::percent(arrow.weight)
                        )}</title>
                    </path>
                }
            }).collect_view()}
        </g>
    }
}

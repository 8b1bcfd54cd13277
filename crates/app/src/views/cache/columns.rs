//! The grid's columns and the arrows over them.

use inferscope_stage::{
    CacheFrame, Column, ColumnState, Metrics,
    format::{self, tenths},
    markup,
};
use leptos::{prelude::*, svg};
use wasm_bindgen::JsCast;

use super::cell::cell_selector;
use crate::{
    dom,
    signal::{Memo, effect},
    widget::Widget,
};

/// What is drawn, and by which lengths.
#[derive(Default)]
struct Drawn {
    columns: Vec<Column>,
    by: Option<(usize, Metrics)>,
}

/// The columns as the frame has them. What changes with every tick of the clock, a column's presence, is the canvas's business.
pub fn view(
    frame: Memo<CacheFrame>,
    n_layers: Memo<usize>,
    metrics: Memo<Metrics>,
    measured: Memo<bool>,
) -> impl IntoView {
    let group = NodeRef::<svg::G>::new();
    let drawn = StoredValue::new_local(Drawn::default());
    effect(move || {
        let (n_layers, metrics) = (n_layers.get(), metrics.get());
        let Some(group) = group.get().filter(|_| measured.get()) else { return };
        frame.with(|frame| drawn.update_value(|drawn| draw(&group, drawn, &frame.columns, n_layers, metrics)));
    });
    view! { <g node_ref=group></g> }
}

/// Draws anew what looks different: at most ticks of the clock, nothing.
fn draw(group: &web_sys::Element, drawn: &mut Drawn, columns: &[Column], n_layers: usize, metrics: Metrics) {
    let markup = |column: &Column| markup::column(column, n_layers, &metrics);
    let same_grid = drawn.by == Some((n_layers, metrics)) && drawn.columns.len() == columns.len();
    let differ = |index: &usize| !same_grid || !drawn.columns[*index].looks_like(&columns[*index]);
    let changed: Vec<usize> = (0..columns.len()).filter(differ).collect();
    if same_grid && changed.is_empty() {
        return;
    }
    let focused = focused_cell(group);
    if same_grid {
        let children = group.children();
        for index in changed {
            if let Some(old) = children.item(index as u32) {
                old.set_outer_html(&markup(&columns[index]));
            }
            drawn.columns[index] = columns[index].clone();
        }
    } else {
        group.set_inner_html(&columns.iter().map(markup).collect::<String>());
        *drawn = Drawn { columns: columns.to_vec(), by: Some((n_layers, metrics)) };
    }
    // Whoever walks among the cells with the keyboard stays where they are.
    if let Some(cell) = focused.and_then(|cell| group.query_selector(&cell).ok()?)
        && focused_cell(group).is_none()
    {
        let _ = dom::focus_without_scrolling(&cell);
    }
}

/// A selector for the cell in focus.
fn focused_cell(group: &web_sys::Element) -> Option<String> {
    let root: web_sys::ShadowRoot = group.get_root_node().dyn_into().ok()?;
    let focused = root.active_element().filter(|focused| group.contains(Some(focused)))?;
    let [layer, position] = ["data-layer", "data-position"].map(|name| focused.get_attribute(name));
    Some(cell_selector(&layer?, &position?))
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

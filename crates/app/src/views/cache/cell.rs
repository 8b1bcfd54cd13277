//! One cell: how the reader picks it, by pointing or walking, and the numbers it then tells.

use inferscope_stage::{CellDetails, Moment, cell_details, format};
use leptos::prelude::*;
use wasm_bindgen::JsCast;

use crate::{dom, signal::Memo, widget::Widget};

fn cell_of(event: &web_sys::Event) -> Option<(web_sys::Element, usize, usize)> {
    let target = event.target()?.dyn_into::<web_sys::Element>().ok()?;
    let number = |name| target.get_attribute(name)?.parse().ok();
    let (layer, position) = (number("data-layer")?, number("data-position")?);
    Some((target, layer, position))
}

pub fn cell_selector(layer: &str, position: &str) -> String {
    format!("[data-layer=\"{layer}\"][data-position=\"{position}\"]")
}

pub fn pick_cell(widget: Widget, event: &web_sys::Event) {
    if let Some((_, layer, position)) = cell_of(event)
        && widget.selection.with_untracked(|selection| selection.cell != Some((layer, position)))
    {
        widget.selection.update(|selection| selection.cell = Some((layer, position)));
    }
}

/// Arrow keys walk from cell to cell, and Enter shows the attention of the cell's token.
pub fn walk(widget: Widget, event: &web_sys::KeyboardEvent) {
    let Some((target, layer, position)) = cell_of(event) else { return };
    if event.key() == "Enter" {
        widget.focus_on(Some(position));
    }
    let (layer, position) = match event.key().as_str() {
        "ArrowRight" => (Some(layer), Some(position + 1)),
        "ArrowLeft" => (Some(layer), position.checked_sub(1)),
        "ArrowUp" => (layer.checked_sub(1), Some(position)),
        "ArrowDown" => (Some(layer + 1), Some(position)),
        "Home" => (Some(layer), Some(0)),
        "End" => (Some(layer), last_in_row(&target, layer)),
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    let neighbour = layer.zip(position).and_then(|(layer, position)| {
        let selector = cell_selector(&layer.to_string(), &position.to_string());
        target.closest("svg").ok()??.query_selector(&selector).ok()?
    });
    if let Some(neighbour) = neighbour {
        let _ = dom::focus(&neighbour);
    }
}

fn last_in_row(cell: &web_sys::Element, layer: usize) -> Option<usize> {
    let row = cell.closest("svg").ok()??.query_selector_all(&format!("[data-layer=\"{layer}\"]")).ok()?;
    let last = row.item(row.length().checked_sub(1)?)?.dyn_into::<web_sys::Element>().ok()?;
    last.get_attribute("data-position")?.parse().ok()
}

/// The numbers of the cell that the reader points at.
pub fn details(widget: Widget) -> impl IntoView {
    let details = Memo::new(move |()| {
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
                None => view! { <p class="hint">"Point at a cell, tap it, or walk there with Tab and the arrow keys, to read its numbers."</p> }.into_any(),
                Some(details) => cell(details).into_any(),
            }}
        </div>
    }
}

/// Which query heads read a KV head, counted from 1.
fn shared((first, last): (usize, usize)) -> String {
    match last - first {
        0 => format!("query head {}", first + 1),
        1 => format!("query heads {} and {}", first + 1, last + 1),
        _ => format!("query heads {} to {}", first + 1, last + 1),
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
                <th scope="row">{format!("KV head {}", head + 1)} <span class="shared">{shared(it.query_heads)}</span></th>
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
                        <th scope="col" class="number" title="Euclidean norm">"norm"</th>
                        <th scope="col">"value"</th>
                        <th scope="col" class="number" title="Euclidean norm">"norm"</th>
                    </tr>
                </thead>
                <tbody>{heads.collect_view()}</tbody>
            </table>
        </div>
    }
}

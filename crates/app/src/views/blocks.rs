//! The memory of many requests, slot by slot, and how the other way of giving it out did.

use inferscope_stage::{
    Moment, format,
    serving::{MapFrame, ServingSums, Slot, name},
};
use inferscope_trace::{Memory, ServingSettings, ServingTrace};
use leptos::prelude::*;
use wasm_bindgen::JsCast;

use super::term::term;
use crate::{
    dom,
    signal::{Memo, RwSignal},
    widget::Widget,
};

/// Colours of requests, after which they repeat.
pub const HUES: usize = 8;

pub fn view(widget: Widget) -> impl IntoView {
    let serving = widget.serving;
    let frame = Memo::new(move |()| {
        let moment = widget.moment();
        serving.trace.with(|trace| MapFrame::new(trace.as_ref()?, moment))
    });
    let twin = Memo::new(move |()| {
        let moment = super::schedule::twin_moment(widget);
        serving.twin.with(|trace| MapFrame::new(trace.as_ref()?, moment))
    });
    let words = move || {
        let (slot, moment) = (serving.slot.get()?, widget.moment());
        serving.trace.with(|trace| Some(MapFrame::new(trace.as_ref()?, moment)?.words(trace.as_ref()?, moment, slot)))
    };
    let pick = move |event: web_sys::MouseEvent| {
        let target = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
        let slot = target.and_then(|it| it.closest("[data-slot]").ok()??.get_attribute("data-slot")?.parse().ok());
        if slot.is_some() {
            serving.slot.set(slot);
        }
    };
    view! {
        <section class="panel blocks" data-part="blocks" aria-labelledby="blocks-title">
            <h3 id="blocks-title">"One memory, many requests: a "{term(widget, "paged-attention", "paged")}" cache"</h3>
            {settings(widget)}
            <p class="hint" data-part="blocks-caption">{move || frame.with(|frame| caption(widget, frame.as_ref()))}</p>
            <div class="map" data-part="map" on:click=pick on:keydown=move |event| walk(widget, &event)>{move || frame.with(|frame| slots(widget, frame.as_ref(), true))}</div>
            <p class="details-line" aria-live="polite" data-part="slot-words">
                {move || words().unwrap_or_else(|| "Choose a block to see whose it is and which tokens’ columns it holds.".into())}
            </p>
            <ul class="legend">
                <li><span class="swatch used" aria-hidden="true"></span><span>"holds a column"</span></li>
                <li><span class="swatch wasted" aria-hidden="true"></span><span>"given out and empty: waste"</span></li>
                <li><span class="swatch shared" aria-hidden="true"></span><span>"shared by several requests"</span></li>
                <li><span class="swatch free" aria-hidden="true"></span><span>"free"</span></li>
            </ul>
            <Show when=move || serving.twin.with(Option::is_some)>
                <h4>{move || serving.twin.with(|twin| twin.as_ref().map(|twin| format!("The same requests and the same memory, {}", way(&twin.settings))))}</h4>
                <div class="map small" data-part="twin-map">{move || twin.with(|frame| slots(widget, frame.as_ref(), false))}</div>
                {move || comparison(widget)}
            </Show>
        </section>
    }
}

/// Tab stops at the chosen block, or at the first.
fn is_stop(widget: Widget, first: usize, count: usize) -> bool {
    widget.serving.slot.get().map_or(first == 0, |slot| (first..first + count).contains(&slot))
}

fn block_name(first: usize, owner: Option<usize>) -> String {
    owner.map_or_else(
        || format!("slots from {first}, free"),
        |owner| format!("slots from {first}, request {}", name(owner)),
    )
}

/// Arrow keys walk from block to block, and choose.
fn walk(widget: Widget, event: &web_sys::KeyboardEvent) {
    let target = event.target().and_then(|target| target.dyn_into::<web_sys::Element>().ok());
    let Some(block) = target.and_then(|target| target.closest("[data-slot]").ok()?) else { return };
    let next = match event.key().as_str() {
        "ArrowRight" | "ArrowDown" => block.next_element_sibling(),
        "ArrowLeft" | "ArrowUp" => block.previous_element_sibling(),
        "Enter" => Some(block),
        _ => return,
    };
    event.prevent_default();
    event.stop_propagation();
    let slot = next.as_ref().and_then(|block| block.get_attribute("data-slot")?.parse().ok());
    if let Some(slot) = slot {
        widget.serving.slot.set(Some(slot));
        let _ = next.as_ref().map(dom::focus);
    }
}

fn way(settings: &ServingSettings) -> String {
    match settings.memory {
        Memory::Reserved => "reserved side by side for as long as each may become".into(),
        Memory::Paged { block, .. } => format!("in blocks of {block}"),
    }
}

fn short_way(settings: &ServingSettings) -> String {
    match settings.memory {
        Memory::Reserved => "reserved".into(),
        Memory::Paged { block, .. } => format!("blocks of {block}"),
    }
}

fn settings(widget: Widget) -> impl IntoView {
    let settings = widget.serving.settings;
    let paged = move || settings.with(|it| matches!(it.memory, Memory::Paged { .. }));
    let block = move || match settings.get().memory {
        Memory::Paged { block, .. } => block,
        Memory::Reserved => 8,
    };
    let sharing = move || matches!(settings.get().memory, Memory::Paged { sharing: true, .. });
    view! {
        <div class="picks">
            <label class="field inline">
                <span class="label">"Memory"</span>
                <select name="memory" on:change=move |event| {
                    let memory = match event_target_value(&event).as_str() {
                        "reserved" => Memory::Reserved,
                        _ => Memory::Paged { block: 8, sharing: true },
                    };
                    settings.update(|it| it.memory = memory);
                }>
                    <option value="paged" prop:selected=paged>"in blocks"</option>
                    <option value="reserved" prop:selected=move || !paged()>"reserved side by side"</option>
                </select>
            </label>
            <label class="slider">
                <span class="label">{term(widget, "block-table", "Block size")}</span>
                <input type="range" name="block" min="0" max="6" step="1" disabled=move || !paged()
                    prop:value=move || block().ilog2().to_string()
                    on:input=move |event| if let Ok(power) = event_target_value(&event).parse() {
                        set_block(settings, power);
                    } />
                <output>{block}</output>
            </label>
            <label class="slider">
                <span class="label">"Slots"</span>
                <input type="range" name="slots" min="64" max="512" step="32"
                    prop:value=move || settings.get().slots.to_string()
                    on:input=move |event| if let Ok(slots) = event_target_value(&event).parse() { settings.update(|it| it.slots = slots) } />
                <output>{move || settings.get().slots}</output>
            </label>
            <label class="field inline check">
                <input type="checkbox" name="sharing" disabled=move || !paged() prop:checked=sharing
                    on:change=move |event| {
                        let on = event_target_checked(&event);
                        settings.update(|it| if let Memory::Paged { sharing, .. } = &mut it.memory { *sharing = on });
                    } />
                <span>"Share equal beginnings"</span>
            </label>
        </div>
    }
}

fn set_block(settings: RwSignal<ServingSettings>, power: u32) {
    settings.update(|it| {
        if let Memory::Paged { block, .. } = &mut it.memory {
            *block = 1 << power;
        }
    });
}

fn caption(widget: Widget, frame: Option<&MapFrame>) -> String {
    let Some(frame) = frame else {
        return "Press Run: requests come in, and each gets memory for the columns of its cache.".into();
    };
    let (mut used, mut wasted) = (0, 0);
    for slot in &frame.slots {
        match slot {
            Slot::Used { .. } => used += 1,
            Slot::Wasted(_) => wasted += 1,
            Slot::Free => {}
        }
    }
    let sums = widget.serving.trace.with(|trace| trace.as_ref().map(|trace| ServingSums::of(trace, widget.moment())));
    let back = match sums.map_or(0, |sums| sums.preempted) {
        0 => String::new(),
        1 => " One request was sent back to the queue for want of a block.".into(),
        n => format!(" {n} times a request was sent back to the queue for want of a block."),
    };
    let shared = match frame.shared {
        0 => String::new(),
        1 => format!(" 1 block is shared, which saves {} columns.", frame.saved),
        n => format!(" {n} blocks are shared, which saves {} columns.", frame.saved),
    };
    let share = if used + wasted == 0 { 0.0 } else { wasted as f32 / (used + wasted) as f32 };
    format!(
        "{used} of {} slots hold a column; {wasted} are given out and empty, {} of what is given out.{shared}{back}",
        frame.slots.len(),
        format::percent(share)
    )
}

fn slots(widget: Widget, frame: Option<&MapFrame>, pointed: bool) -> impl IntoView + use<> {
    let (spans, all) = match frame {
        Some(frame) => (frame.spans.clone(), frame.slots.clone()),
        None => {
            let slots = widget.serving.settings.with(|settings| settings.slots);
            (vec![(0, slots)], vec![Slot::Free; slots])
        }
    };
    let chosen = move |first: usize, count: usize| {
        pointed && widget.serving.slot.get().is_some_and(|slot| (first..first + count).contains(&slot))
    };
    spans
        .into_iter()
        .map(|(first, count)| {
            let slots = &all[first..first + count];
            let owner = slots.iter().find_map(|slot| match slot {
                Slot::Used { request, .. } | Slot::Wasted(request) => Some(*request),
                Slot::Free => None,
            });
            let readers = slots.iter().find_map(|slot| match slot {
                Slot::Used { readers, .. } => Some(*readers),
                _ => None,
            });
            let cells = slots.iter().map(|slot| {
                let (class, label) = match slot {
                    Slot::Free => ("free", String::new()),
                    Slot::Wasted(_) => ("wasted", String::new()),
                    Slot::Used { request, .. } => ("used", name(*request)),
                };
                view! { <i class=class>{label}</i> }
            });
            view! {
                <span
                    class="block"
                    role=pointed.then_some("button")
                    tabindex=move || pointed.then(|| if is_stop(widget, first, count) { "0" } else { "-1" })
                    aria-label=pointed.then(|| block_name(first, owner))
                    title=owner.map(|owner| format!("request {}", name(owner)))
                    data-slot=first.to_string()
                    data-owner=owner.map(name)
                    data-hue=owner.map(|owner| (owner % HUES).to_string())
                    class:shared={readers.unwrap_or(1) > 1}
                    class:chosen=move || chosen(first, count)
                >
                    {cells.collect_view()}
                </span>
            }
        })
        .collect_view()
}

/// Both ways up to the step on screen, and to their ends.
fn comparison(widget: Widget) -> impl IntoView {
    let end = Moment::end_of(usize::MAX - 1);
    let both = widget.serving.trace.with(|trace| {
        widget.serving.twin.with(|twin| {
            let whole = |it: &ServingTrace| {
                (
                    short_way(&it.settings),
                    ServingSums::of(it, if it.finished { end } else { widget.moment() }),
                    it.finished,
                )
            };
            Some((whole(trace.as_ref()?), whole(twin.as_ref()?)))
        })
    });
    both.map(|both| {
        let rows = [both.0, both.1].map(|(way, sums, finished)| {
            let label = way.clone();
            view! {
                <tr data-way=label data-most=sums.most.to_string() data-waste=sums.waste.to_string()>
                    <th scope="row">{way}{if finished { "" } else { " (so far)" }}</th>
                    <td>{sums.most}</td>
                    <td>{format::percent(sums.waste as f32)}</td>
                    <td>{sums.steps}</td>
                    <td>{sums.preempted}</td>
                </tr>
            }
        });
        view! {
            <div class="sideways"><table class="numbers" data-part="memory-comparison">
                <thead><tr>
                    <th scope="col">"memory"</th><th scope="col">"most at once"</th><th scope="col" title="Of what was given out, over all steps">"wasted, all steps"</th>
                    <th scope="col">"steps"</th><th scope="col">"sent back"</th>
                </tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table></div>
            <p class="hint">
                <span class="tag counted">"counted"</span>
                " from the steps that ran. The tokens are the same either way, and the same as if each request ran alone."
            </p>
        }
    })
}

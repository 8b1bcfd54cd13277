//! What a decode step costs against the size of the batch: measured on this device, and counted for an accelerator.

use inferscope_stage::{
    Status, Workload,
    facts::{MODELS, PARTS, model, part},
    format,
};
use leptos::prelude::*;

use super::term::term;
use crate::{
    signal::{Memo, RwSignal},
    widget::Widget,
};

const SIZES: [u64; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Tokens that each sequence has behind it.
const CONTEXT: u64 = 1024;

pub fn view(widget: Widget) -> impl IntoView {
    let chosen_model = RwSignal::new("llama3-8b".to_string());
    let chosen_part = RwSignal::new("h100".to_string());
    let rows = Memo::new(move |()| {
        let at = |batch| Workload {
            model: model(&chosen_model.get()).unwrap_or(&MODELS[0]),
            part: *part(&chosen_part.get()).unwrap_or(&PARTS[0]),
            weight_bytes: 2.0,
            prompt: CONTEXT,
            batch,
        };
        SIZES.map(|batch| (batch, at(batch).decode().seconds(&at(batch).part) * 1000.0))
    });
    let costs = widget.serving.costs;
    let idle =
        move || widget.player.with(|player| !matches!(player.status, Status::Running | Status::Loading | Status::Idle));
    view! {
        <section class="panel batch-cost" data-part="batch-cost" aria-labelledby="cost-title">
            <h3 id="cost-title">"What a step costs"</h3>
            <p>
                "A step reads the weights once, however many sequences it runs. So a step for two takes little longer than a step \
                 for one, until the arithmetic, or the caches, which nobody shares, become the larger part."
            </p>
            <div class="picks">
                <button type="button" data-action="measure-batches" disabled=move || !idle() || widget.serving.measuring.get()
                    on:click=move |_| widget.measure_batches()>
                    {move || if widget.serving.measuring.get() { "Measuring …" } else { "Measure this device" }}
                </button>
                <label class="field inline">
                    <span class="label">"Model"</span>
                    <select name="cost_model" on:change=move |event| chosen_model.set(event_target_value(&event))>
                        {MODELS.iter().filter(|it| it.matrix_elements().is_some()).map(|it| view! {
                            <option value=it.id selected={it.id == "llama3-8b"}>{it.title}</option>
                        }).collect_view()}
                    </select>
                </label>
                <label class="field inline">
                    <span class="label">"on"</span>
                    <select name="cost_part" on:change=move |event| chosen_part.set(event_target_value(&event))>
                        {PARTS.iter().map(|it| view! { <option value=it.id>{it.title}</option> }).collect_view()}
                    </select>
                </label>
            </div>
            <div class="both-costs">
                <div>
                    <h4>"This model, this device"</h4>
                    {move || if costs.with(Vec::is_empty) {
                        view! { <p class="hint">"Not measured yet. It takes a second, once the model is loaded."</p> }.into_any()
                    } else {
                        let points = costs.with(|points| points.iter().map(|(size, ms)| (*size as u64, *ms)).collect::<Vec<_>>());
                        let nearly_free = points.get(1).zip(points.first()).is_some_and(|(two, one)| two.1 < 1.4 * one.1);
                        let words = if nearly_free {
                            "Here too a second sequence costs little."
                        } else {
                            "Here a step grows with the batch almost from the start: a million weights lie in the processor’s own \
                             cache, so they are not what a step waits for, and arithmetic is the limit."
                        };
                        view! { {bars("measured", &points)} <p class="hint">{words}</p> }.into_any()
                    }}
                </div>
                <div>
                    <h4>{move || format!("{}, no less than", part(&chosen_part.get()).map_or("", |it| it.title))}</h4>
                    {move || bars("counted", &rows.get())}
                </div>
            </div>
            <p class="hint">
                "Each bar is one step; beside it, milliseconds a step and tokens a second. Measured: the median of twenty steps after \
                 32 positions. Counted: the larger of arithmetic and memory at the "{term(widget, "roofline", "roofline")}
                {format!(", weights and cache in bf16, {} tokens behind each sequence, if one chip had the room.", format::grouped(CONTEXT))}
            </p>
        </section>
    }
}

fn bars(mark: &'static str, points: &[(u64, f64)]) -> impl IntoView + use<> {
    let longest = points.iter().map(|(_, ms)| *ms).fold(f64::MIN_POSITIVE, f64::max);
    let rows = points.iter().map(|&(size, ms)| {
        let rate = if ms > 0.0 { format::grouped((size as f64 / ms * 1000.0).round() as u64) } else { "–".into() };
        view! {
            <tr data-batch=size.to_string() data-milliseconds=ms.to_string()>
                <th scope="row">{size}</th>
                <td class="room"><span class="bar plain"><span class="cache" style=format!("width:{:.1}%", ms / longest * 100.0)></span></span></td>
                <td>{format::milliseconds(ms)}</td>
                <td>{rate}</td>
            </tr>
        }
    });
    view! {
        <table class="numbers">
            <thead><tr>
                <th scope="col">"batch"</th><th scope="col"><span class=format!("tag {mark}")>{mark}</span></th>
                <th scope="col">"a step"</th><th scope="col">"tokens/s"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
}

//! Why the phases differ: the roofline of an accelerator, with prefill and decode of a real model under it and the run on
//! screen beside them.

use inferscope_stage::facts::{MODELS, PARTS, model, part};
use inferscope_stage::{Bound, RooflineFrame, Spot, Status, Workload, format};
use inferscope_trace::BackendKind;
use leptos::{html, prelude::*};

use super::term::term;
use crate::{
    dom,
    signal::{Memo, RwSignal, effect},
    widget::Widget,
};

/// The chart's lengths, in CSS pixels.
#[derive(Clone, Copy, PartialEq)]
struct Chart {
    width: f64,
    height: f64,
}

impl Chart {
    const LEFT: f64 = 62.0;
    const RIGHT: f64 = 24.0;
    const TOP: f64 = 12.0;
    const BOTTOM: f64 = 44.0;

    fn for_width(width: f32) -> Self {
        let width = f64::from(width).clamp(260.0, 620.0);
        Self { width, height: (width * 0.58).max(240.0) }
    }

    fn right(&self) -> f64 {
        self.width - Self::RIGHT
    }

    fn floor(&self) -> f64 {
        self.height - Self::BOTTOM
    }

    /// A place of the unit square.
    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (Self::LEFT + (self.right() - Self::LEFT) * x, Self::TOP + (self.floor() - Self::TOP) * y)
    }
}

const ELEMENTS: &[(&str, f64)] = &[("bf16", 2.0), ("fp8 or int8", 1.0), ("int4", 0.5), ("f32", 4.0)];

/// Largest prompt and batch of the sliders, which go by powers of two.
const PROMPT_POWERS: u32 = 17;
const BATCH_POWERS: u32 = 10;

pub fn view(widget: Widget) -> impl IntoView {
    let chosen_model = RwSignal::new("llama3-70b".to_string());
    let chosen_part = RwSignal::new("h100".to_string());
    let weight_bytes = RwSignal::new(2.0);
    // In quarters of a power of two, so that a slider passes everything evenly.
    let prompt = RwSignal::new(4 * 9u32);
    let batch = RwSignal::new(0u32);
    let count = |quarters: u32| 2f64.powf(f64::from(quarters) / 4.0).round() as u64;
    let chosen = move |id: &str| match widget.device.get() {
        Some((measured, _)) if id == measured.id => measured,
        _ => *part(id).unwrap_or(&PARTS[0]),
    };
    // What was just measured is what the reader wants to see.
    effect(move || {
        if let Some((measured, _)) = widget.device.get() {
            chosen_part.set(measured.id.into());
        }
    });
    let workload = Memo::new(move |()| Workload {
        model: model(&chosen_model.get()).unwrap_or(&MODELS[0]),
        part: chosen(&chosen_part.get()),
        weight_bytes: weight_bytes.get(),
        prompt: count(prompt.get()),
        batch: count(batch.get()),
    });
    // A probe keeps the engine busy, so it waits until nothing runs.
    let idle = Memo::new(move |()| {
        widget.player.with(|player| !matches!(player.status, Status::Running | Status::Loading | Status::Idle))
    });
    let holder = NodeRef::<html::Div>::new();
    let width = super::width_of(holder);
    let size = Memo::new(move |()| Chart::for_width(width.get().unwrap_or(super::TYPICAL_WIDTH)));
    let frame = Memo::new(move |()| {
        widget.trace.with(|trace| workload.with(|workload| RooflineFrame::new(workload, trace.as_ref())))
    });
    view! {
        <section class="panel roofline" data-part="roofline" aria-labelledby="roofline-title">
            <h3 id="roofline-title">"Why the phases differ: the "{term(widget, "roofline", "roofline")}</h3>
            <div class="picks">
                <label class="field inline">
                    <span class="label">"Model"</span>
                    <select name="roofline_model" prop:value=move || chosen_model.get() on:change=move |event| chosen_model.set(event_target_value(&event))>
                        {MODELS.iter().filter(|model| model.matrix_elements().is_some()).map(|it| view! {
                            <option value=it.id selected={it.id == "llama3-70b"}>{it.title}</option>
                        }).collect_view()}
                    </select>
                </label>
                <label class="field inline">
                    <span class="label">"Chip"</span>
                    <select name="roofline_part" prop:value=move || chosen_part.get() on:change=move |event| chosen_part.set(event_target_value(&event))>
                        {PARTS.iter().map(|it| view! { <option value=it.id>{it.title}</option> }).collect_view()}
                        {move || widget.device.get().map(|(it, _)| view! {
                            <option value=it.id prop:selected=move || chosen_part.get() == it.id>{it.title}</option>
                        })}
                    </select>
                </label>
                <label class="field inline">
                    <span class="label">"Weights stored in"</span>
                    <select name="roofline_bytes" on:change=move |event| if let Some(bytes) = dom::number(&event_target_value(&event)) { weight_bytes.set(bytes) }>
                        {ELEMENTS.iter().map(|(title, bytes)| view! { <option value=bytes.to_string()>{*title}</option> }).collect_view()}
                    </select>
                </label>
            </div>
            <p class="hint">{move || probe(widget, idle)}</p>
            <div class="sliders">
                {slider("roofline_prompt", "Prompt".into_any(), prompt, 4 * PROMPT_POWERS, move || format::grouped(workload.get().prompt))}
                {slider("roofline_batch", term(widget, "batch", "Batch").into_any(), batch, 4 * BATCH_POWERS, move || format::grouped(workload.get().batch))}
            </div>
            <div class="chart-holder" node_ref=holder>{move || chart(&frame.get(), &workload.get(), size.get())}</div>
            <div class="reading">
            <ul class="legend">
                <li><span class="swatch dot prefill" aria-hidden="true">"●"</span>{term(widget, "prefill", "prefill")}</li>
                <li><span class="swatch dot decode" aria-hidden="true">"◆"</span>{term(widget, "decode", "decode")}</li>
                <li><span class="swatch dot run" aria-hidden="true">"○ ◇"</span>"the run above, on this device"</li>
            </ul>
            {move || table(widget, &frame.get(), &workload.get())}
            <p data-part="roofline-verdict">{move || verdict(&frame.get(), &workload.get())}</p>
            <p class="hint" data-part="roofline-room">{move || room(&workload.get())}</p>
            <p class="hint">
                <span class="tag counted">"counted"</span>" from the model’s shape and the part’s rates, both "
                <span class="tag published">"published"</span>
                {move || format!(" ({}; the makers’ data sheets). Arithmetic is in bf16 whatever the weights are stored in, without sparsity. ", workload.get().model.source.title)}
                {move || (workload.get().part.id == "this").then_some("The limits of this device are measured, in f32. ")}
                {move || run_words(&frame.get())}
            </p>
            </div>
        </section>
    }
}

/// A way to measure this device, and what came of it.
fn probe(widget: Widget, idle: Memo<bool>) -> impl IntoView {
    if widget.probing.get() {
        return view! { <span data-part="probe">"Measuring for two seconds …"</span> }.into_any();
    }
    let button = view! {
        <button type="button" class="link" data-action="probe" disabled=move || !idle.get() on:click=move |_| {
            widget.probe();
        }>
            "Measure this device"
        </button>
    };
    match widget.device.get() {
        None => view! {
            {button}
            {move || if idle.get() { " and put its limits under the chart." } else { " and put its limits under the chart, when no run is under way." }}
        }
        .into_any(),
        Some((part, kind)) => {
            let engine = match kind {
                BackendKind::Cpu => "CPU",
                BackendKind::Webgpu => "WebGPU",
            };
            view! {
                <span class="tag measured">"measured"</span>
                <span data-part="probe" data-flops=part.peak().to_string() data-bytes=part.bandwidth().to_string()>
                    {format!(
                        " The {engine} engine here reached {}FLOP a second in a product of 384 × 384 matrices, and read {} a second \
                         for a product with 32 MiB of weights, some of which a large processor cache may hold. ",
                        format::short(part.peak() as u64),
                        format::bytes(part.bandwidth() as u64),
                    )}
                </span>
                {button}
            }
            .into_any()
        }
    }
}

fn slider(
    name: &'static str,
    label: AnyView,
    value: RwSignal<u32>,
    max: u32,
    written: impl Fn() -> String + Copy + Send + Sync + 'static,
) -> impl IntoView {
    view! {
        <label class="slider">
            <span class="label">{label}</span>
            <input
                type="range" name=name min="0" max=max.to_string() step="1"
                aria-valuetext=written
                prop:value=move || value.get().to_string()
                on:input=move |event| if let Ok(quarters) = event_target_value(&event).parse() { value.set(quarters) }
            />
            <output>{written}</output>
        </label>
    }
}

fn chart(frame: &RooflineFrame, workload: &Workload, chart: Chart) -> impl IntoView + use<> {
    let (right, floor) = (chart.right(), chart.floor());
    let [start, ridge, end] = frame.roof.map(|point| chart.place(point));
    let line = format!("M{:.1} {:.1} L{:.1} {:.1} L{:.1} {:.1}", start.0, start.1, ridge.0, ridge.1, end.0, end.1);
    let under = format!("{line} V{floor:.1} H{:.1} z", start.0);
    let along = frame.along.iter().map(|&(x, power)| {
        let (x, _) = chart.place((x, 0.0));
        view! {
            <path class="grid-line" d=format!("M{x:.1} {} V{floor:.1}", Chart::TOP) />
            <text class="tick" x=format!("{x:.1}") y=format!("{:.1}", floor + 14.0) text-anchor="middle">
                {plain_power(power)}
            </text>
        }
    });
    let up = frame.up.iter().map(|&(y, power)| {
        let (_, y) = chart.place((0.0, y));
        view! {
            <path class="grid-line" d=format!("M{} {y:.1} H{right:.1}", Chart::LEFT) />
            <text class="tick" x=Chart::LEFT - 6.0 y=format!("{:.1}", y + 3.5) text-anchor="end">{rate_power(power)}</text>
        }
    });
    let spots = frame.spots.iter().chain(&frame.run).map(|it| spot(it, chart)).collect_view();
    let label = format!(
        "Roofline of {}. Prefill of {} tokens: {} FLOP per byte. Decode of a batch of {}: {}. The ridge is at {:.0}.",
        workload.part.title,
        format::grouped(workload.prompt),
        intensity(&frame.spots[0]),
        format::grouped(workload.batch),
        intensity(&frame.spots[1]),
        frame.ridge
    );
    view! {
        <svg class="chart" width=format!("{:.0}", chart.width) height=format!("{:.0}", chart.height) role="img" aria-label=label>
            {along.collect_view()}
            {up.collect_view()}
            <path class="under" d=under />
            <path class="roof" d=line />
            <path class="ridge" d=format!("M{:.1} {:.1} V{floor:.1}", ridge.0, ridge.1) />
            <text class="tick" x=format!("{:.1}", ridge.0 - 5.0) y=format!("{:.1}", floor - 6.0) text-anchor="end">
                {format!("ridge: {}", significant(frame.ridge))}
            </text>
            <text class="tick" x=format!("{:.1}", (Chart::LEFT + right) / 2.0) y=format!("{:.1}", chart.height - 8.0) text-anchor="middle">
                "FLOP for each byte moved"
            </text>
            <text
                class="tick"
                transform=format!("translate(13 {:.1}) rotate(-90)", (Chart::TOP + floor) / 2.0)
                text-anchor="middle"
            >
                "FLOP a second"
            </text>
            {spots}
        </svg>
    }
}

fn spot(spot: &Spot, chart: Chart) -> impl IntoView + use<> {
    let (x, y) = chart.place((spot.x, spot.y));
    // A circle for prefill and a diamond for decode; hollow for the run on screen.
    let shape = match spot.id {
        "prefill" | "run-prefill" => view! { <circle cx=format!("{x:.1}") cy=format!("{y:.1}") r="6" /> }.into_any(),
        _ => view! { <path d=format!("M{x:.1} {:.1} l6.5 6.5 l-6.5 6.5 l-6.5 -6.5 z", y - 6.5) /> }.into_any(),
    };
    let title = format!(
        "{}: {} FLOP per byte, {}FLOP a second, {}",
        spot.label,
        intensity(spot),
        format::short(spot.rate as u64),
        format::milliseconds(spot.seconds * 1000.0)
    );
    view! {
        <g
            class=format!("spot {}", spot.id)
            data-spot=spot.id
            data-intensity=spot.intensity.to_string()
            data-rate=spot.rate.to_string()
        >
            <path class="stem" d=format!("M{x:.1} {y:.1} V{:.1}", chart.floor()) />
            {shape}
            <title>{title}</title>
        </g>
    }
}

fn intensity(spot: &Spot) -> String {
    significant(spot.intensity)
}

/// Three significant digits.
fn significant(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format::grouped(value.round() as u64),
    }
}

fn plain_power(power: i32) -> String {
    match power {
        -1 => "0.1".into(),
        power => format::grouped(10u64.pow(power.max(0) as u32)),
    }
}

/// 10¹² as `1 T`.
fn rate_power(power: i32) -> String {
    let units = ["", " k", " M", " G", " T", " P", " E"];
    let (unit, digits) = (power.div_euclid(3).clamp(0, 6) as usize, power.rem_euclid(3) as u32);
    format!("{}{}", 10u32.pow(digits), units[unit])
}

/// What the two passes come to, in a row each.
fn table(widget: Widget, frame: &RooflineFrame, workload: &Workload) -> impl IntoView + use<> {
    let tokens = [workload.prompt, workload.batch];
    let rows = frame.spots.iter().zip(tokens).map(|(spot, tokens)| {
        let limit = match spot.bound {
            Some(Bound::Arithmetic) => "arithmetic",
            _ => "memory",
        };
        view! {
            <tr data-pass=spot.id data-limit=limit>
                <th scope="row">{spot.label.clone()}</th>
                <td>{intensity(spot)}</td>
                <td>{limit}</td>
                <td>{format::milliseconds(spot.seconds * 1000.0)}</td>
                <td>{significant(tokens as f64 / spot.seconds)}</td>
            </tr>
        }
    });
    view! {
        <table class="numbers">
            <thead>
                <tr>
                    <th scope="col"></th>
                    <th scope="col">{term(widget, "arithmetic-intensity", "FLOP/byte")}</th>
                    <th scope="col">"limit"</th>
                    <th scope="col">"at least"</th>
                    <th scope="col">"tokens/s"</th>
                </tr>
            </thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
}

fn verdict(frame: &RooflineFrame, workload: &Workload) -> String {
    let [prefill, decode] = &frame.spots[..] else { return String::new() };
    let first = match prefill.bound {
        Some(Bound::Arithmetic) => format!(
            "This prefill does {} FLOP for each byte, more than the ridge ({}), so arithmetic is its limit.",
            intensity(prefill),
            significant(frame.ridge)
        ),
        _ => format!(
            "This prefill is too short to keep the arithmetic busy: it would take some {:.0} tokens to pass the ridge.",
            frame.ridge * workload.weight_bytes / 2.0
        ),
    };
    let second = match decode.bound {
        Some(Bound::Arithmetic) if workload.batch == 1 => {
            "Even decode for one sequence is limited by arithmetic here: this processor calculates slowly for the memory it has."
        }
        Some(Bound::Arithmetic) => {
            "So many sequences share each reading of the weights that decode is limited by arithmetic too."
        }
        _ => {
            "A decode step reads all the same weights for one token of each sequence, and waits for memory; every sequence more \
             shares that reading, but brings a cache of its own."
        }
    };
    format!("{first} {second}")
}

/// Whether the part's memory holds what the two passes need.
fn room(workload: &Workload) -> Option<String> {
    let memory = workload.part.memory_gb * 1e9;
    let demand = workload.decode();
    let needed = demand.weight_bytes + demand.cache_bytes;
    (memory > 0.0 && needed > memory).then(|| {
        format!(
            "Weights and caches are {} GB, and one {} has {} GB: it would take {} of them or more. The chart counts as if one \
             had the room.",
            format::grouped((needed / 1e9).round() as u64),
            workload.part.title,
            format::grouped(workload.part.memory_gb as u64),
            format::grouped((needed / memory).ceil() as u64),
        )
    })
}

fn run_words(frame: &RooflineFrame) -> &'static str {
    if frame.run.is_empty() {
        "The run above will stand in the chart as well, once there is one."
    } else {
        "The hollow marks are the run above: its work is counted, its time measured on this device. A million weights fit into \
         a processor’s own cache, so main memory is not what limits them here."
    }
}

//! The chart of work, with the cache and without it.

use inferscope_stage::{Curve, GrowthFrame, Measure, format};
use leptos::prelude::*;

use crate::{
    signal::{Memo, RwSignal},
    widget::Widget,
};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 8.0;

pub fn view(widget: Widget) -> impl IntoView {
    let measure = RwSignal::new(Measure::Positions);
    let frame = Memo::new(move |()| {
        let moment = widget.moment();
        widget.trace.with(|trace| {
            let trace = trace.as_ref()?;
            let other = |kept: &[Option<_>; 2]| {
                GrowthFrame::new(trace, kept[usize::from(!trace.settings.cache)].as_ref(), moment, measure.get())
            };
            Some(widget.kept.with(other))
        })
    });
    view! {
        <section class="panel growth" data-part="growth" aria-labelledby="growth-title">
            <h3 id="growth-title">"Work, with the cache and without"</h3>
            <div class="buttons">
                <label class="field inline">
                    <span class="label">"Count"</span>
                    <select name="measure" on:change=move |event| {
                        let pairs = event_target_value(&event) == "pairs";
                        measure.set(if pairs { Measure::Pairs } else { Measure::Positions });
                    }>
                        <option value="positions">"positions run"</option>
                        <option value="pairs">"attention scores a head"</option>
                    </select>
                </label>
                <button
                    type="button"
                    data-action="run-both"
                    title="The same run twice: first without the cache as fast as it goes, then with it"
                    disabled={move || super::prompt::excess(widget) > 0}
                    on:click=move |_| widget.run_both()
                >
                    "Run both ways"
                </button>
            </div>
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! { <p class="hint">"Two curves appear with the first run."</p> }
            >
                {move || frame.get().map(|frame| chart(frame, measure.get()))}
            </Show>
        </section>
    }
}

fn place(frame: &GrowthFrame, (tokens, work): (u64, u64)) -> (f64, f64) {
    let x = LEFT + (WIDTH - LEFT - RIGHT) * tokens as f64 / frame.max_tokens.max(1) as f64;
    let y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * work as f64 / frame.max_work.max(1) as f64;
    (x, y)
}

fn path(frame: &GrowthFrame, points: &[(u64, u64)]) -> String {
    let mut path = String::new();
    for (index, point) in points.iter().enumerate() {
        let (x, y) = place(frame, *point);
        path.push_str(&format!("{}{x:.1} {y:.1}", if index == 0 { "M" } else { " L" }));
    }
    path
}

fn chart(frame: GrowthFrame, measure: Measure) -> impl IntoView {
    let (right, floor) = place(&frame, (frame.max_tokens, 0));
    let top = place(&frame, (0, frame.max_work)).1;
    let label = |curve: &Curve| {
        let way = if curve.cached { "with the cache" } else { "without" };
        format!("{way}: {}", measure.growth(curve.cached))
    };
    let total = |curve: &Curve| curve.points.last().map_or(0, |point| point.1);
    let curves = frame.curves.iter().map(|curve| {
        // As far as the step on screen, and no further than was run.
        let shown = frame.shown.min(curve.run);
        let seen = if curve.run > 0 { shown + 1 } else { 0 };
        let dot = (curve.run > 0).then(|| place(&frame, curve.points[shown.min(curve.points.len() - 1)]));
        view! {
            <g
                class="curve"
                class:cached=curve.cached
                data-curve=if curve.cached { "cached" } else { "uncached" }
                data-run=(curve.run > 0).to_string()
            >
                <path class="ahead" d=path(&frame, &curve.points) />
                <path class="seen" d=path(&frame, &curve.points[..seen.min(curve.points.len())]) />
                {dot.map(|(x, y)| view! { <circle cx=format!("{x:.1}") cy=format!("{y:.1}") r="4" /> })}
            </g>
        }
    });
    let legend = frame.curves.iter().map(|curve| {
        view! {
            <li class:cached=curve.cached>
                <span class="swatch" aria-hidden="true"></span>
                {format!("{}, {} in all ", label(curve), format::grouped(total(curve)))}
                <span class="tag counted">{if curve.run > 0 { "from its steps" } else { "counted ahead" }}</span>
            </li>
        }
    });
    view! {
        <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label="Work against tokens generated">
            <path class="axis" d=format!("M{LEFT} {top:.1} V{floor:.1} H{right:.1}") />
            <text class="tick" x=LEFT - 5.0 y=top + 4.0 text-anchor="end">{format::short(frame.max_work)}</text>
            <text class="tick" x=LEFT - 5.0 y=floor text-anchor="end">"0"</text>
            <text class="tick" x=right y=HEIGHT - 8.0 text-anchor="end">
                {format!("{} tokens generated", frame.max_tokens)}
            </text>
            {curves.collect_view()}
            <text class="tick" x=LEFT + 6.0 y=top + 4.0>{match measure {
                Measure::Positions => "positions run",
                Measure::Pairs => "attention scores",
            }}</text>
        </svg>
        <ul class="legend">{legend.collect_view()}</ul>
    }
}

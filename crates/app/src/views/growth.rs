//! The chart of positions processed, with the cache and without it.

use inferscope_stage::{Curve, GrowthFrame, format};
use leptos::prelude::*;

use crate::widget::Widget;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 168.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;
const RIGHT: f64 = 8.0;

pub fn view(widget: Widget) -> impl IntoView {
    let frame = Memo::new(move |_| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().map(|trace| GrowthFrame::new(trace, moment)))
    });
    view! {
        <section class="panel growth" data-part="growth" aria-labelledby="growth-title">
            <h3 id="growth-title">"Positions run, with the cache and without"</h3>
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! { <p class="hint">"Two curves appear with the first run."</p> }
            >
                {move || frame.get().map(chart)}
            </Show>
        </section>
    }
}

fn place(frame: &GrowthFrame, (tokens, positions): (u64, u64)) -> (f64, f64) {
    let x = LEFT + (WIDTH - LEFT - RIGHT) * tokens as f64 / frame.max_tokens.max(1) as f64;
    let y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * positions as f64 / frame.max_positions.max(1) as f64;
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

fn chart(frame: GrowthFrame) -> impl IntoView {
    let (right, floor) = place(&frame, (frame.max_tokens, 0));
    let top = place(&frame, (0, frame.max_positions)).1;
    let label = |curve: &Curve| if curve.cached { "with the cache: linear" } else { "without: quadratic" };
    let total = |curve: &Curve| curve.points.last().map_or(0, |point| point.1);
    let curves = frame.curves.iter().map(|curve| {
        let seen = if curve.run { frame.shown + 1 } else { 0 };
        let dot = curve.run.then(|| place(&frame, curve.points[frame.shown.min(curve.points.len() - 1)]));
        view! {
            <g
                class="curve"
                class:cached=curve.cached
                data-curve=if curve.cached { "cached" } else { "uncached" }
                data-run=curve.run.to_string()
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
                <span class="tag counted">{if curve.run { "this run" } else { "counted" }}</span>
            </li>
        }
    });
    view! {
        <svg viewBox=format!("0 0 {WIDTH} {HEIGHT}") role="img" aria-label="Positions processed against tokens generated">
            <path class="axis" d=format!("M{LEFT} {top:.1} V{floor:.1} H{right:.1}") />
            <text class="tick" x=LEFT - 5.0 y=top + 4.0 text-anchor="end">{format::short(frame.max_positions)}</text>
            <text class="tick" x=LEFT - 5.0 y=floor text-anchor="end">"0"</text>
            <text class="tick" x=right y=HEIGHT - 8.0 text-anchor="end">
                {format!("{} tokens generated", frame.max_tokens)}
            </text>
            {curves.collect_view()}
        </svg>
        <ul class="legend">{legend.collect_view()}</ul>
    }
}

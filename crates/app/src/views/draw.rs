//! The draw: the kept candidates end to end on a line, the coin as a point on it, and what many draws come to.

use inferscope_stage::{Draws, StagesFrame, format};
use leptos::{html, prelude::*};
use wasm_bindgen_futures::spawn_local;

use super::{TYPICAL_WIDTH, shown_step, term::term, width_of};
use crate::{
    dom,
    signal::{Memo, RwSignal, effect},
    widget::Widget,
};

const ROWS: usize = 10;
const DRAWS: u64 = 1000;
/// So many draws at a time, so that the bars can be seen settling.
const PORTION: u64 = 40;
const PORTION_MS: i32 = 40;
/// Width of a letter on the line; a word that does not fit is left out.
const LETTER_PX: f64 = 7.4;

pub fn view(widget: Widget) -> impl IntoView {
    let step = shown_step(widget);
    let sampling = Memo::new(move |()| widget.settings.with(|settings| settings.sampling.clone()));
    let frame = Memo::new(move |()| {
        let step = step.get()?;
        widget.trace.with(|trace| sampling.with(|sampling| StagesFrame::new(trace.as_ref()?, step, sampling, ROWS)))
    });
    let holder = NodeRef::<html::Div>::new();
    let width = width_of(holder);
    let draws = RwSignal::new(Draws::default());
    // Draws that are under way for other odds stop.
    let odds = StoredValue::new(0u32);
    effect(move || {
        step.track();
        sampling.track();
        odds.update_value(|odds| *odds += 1);
        draws.set(Draws::default());
    });
    let draw = move |_| {
        let Some(step) = step.get_untracked() else { return };
        let (now, portion) = (odds.get_value(), if dom::prefers_reduced_motion() { DRAWS } else { PORTION });
        let seed = widget.settings.with_untracked(|settings| settings.seed);
        spawn_local(async move {
            for _ in 0..DRAWS / portion {
                // The reader may have moved a slider, or left.
                if odds.try_get_value() != Some(now) {
                    return;
                }
                let sampling = sampling.get_untracked();
                widget.trace.with_untracked(|trace| {
                    if let Some(trace) = trace {
                        draws.update(|draws| draws.more(trace, step, &sampling, seed, portion));
                    }
                });
                dom::pause(PORTION_MS).await;
            }
        });
    };
    view! {
        <section class="panel draw" data-part="draw" aria-labelledby="draw-title">
            <h3 id="draw-title">"The "{term(widget, "sampling", "draw")}</h3>
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! { <p class="hint">"The candidates stand here end to end, and a random number points at one."</p> }
            >
                <div node_ref=holder>{move || frame.get().map(|frame| line(&frame, width.get().unwrap_or(TYPICAL_WIDTH)))}</div>
                <p data-part="coin">{move || frame.with(|frame| frame.as_ref().map(coin))}</p>
                <p class="hint">"Hatched: all the tokens that have no row here."</p>
                <div class="buttons">
                    <button type="button" data-action="draw-many" on:click=draw>"Draw 1,000 times"</button>
                    <span class="hint" data-part="draw-count">
                        {move || draws.with(|draws| match draws.count {
                            0 => "and see whether it keeps to the odds".to_string(),
                            n => format!("{} draws so far; press again for more", format::grouped(n)),
                        })}
                    </span>
                </div>
                <Show when=move || draws.with(|draws| draws.count > 0)>
                    {move || frame.get().map(|frame| draws.with(|draws| histogram(&frame, draws)))}
                </Show>
            </Show>
        </section>
    }
}

fn line(frame: &StagesFrame, width: f32) -> impl IntoView + use<> {
    let room = f64::from(width);
    let end = frame.line.last().map_or(0.0, |segment| segment.to);
    let segments = frame.line.iter().map(|segment| {
        let width = segment.to - segment.from;
        let word = format::visible(segment.text.trim_start());
        let text = (width * room > LETTER_PX * (word.chars().count() + 1) as f64).then_some(word);
        view! {
            <span
                class="segment"
                class:hit=segment.id == frame.draws
                data-token=segment.id.to_string()
                style=format!("left:{:.3}%;width:{:.3}%", segment.from * 100.0, width * 100.0)
                title=format!("{}: {}", format::visible(&segment.text), format::percent(width as f32))
            >
                {text}
            </span>
        }
    });
    let rest = (end < 0.999).then(|| {
        let style = format!("left:{:.3}%;width:{:.3}%", end * 100.0, (1.0 - end) * 100.0);
        let title = format!("all the others: {}", format::percent((1.0 - end) as f32));
        view! { <span class="segment rest" style=style title=title></span> }
    });
    view! {
        <div class="odds" role="img" aria-label=coin(frame)>
            <div class="segments">{segments.collect_view()}{rest}</div>
            <span class="coin" style=format!("left:{:.3}%", frame.coin * 100.0)></span>
        </div>
    }
}

fn coin(frame: &StagesFrame) -> String {
    let known = format!("The seed and the step’s number make the random number {:.4}. ", frame.coin);
    let falls = format!("On this line it falls on “{}”.", format::visible(&frame.draws_text));
    match frame.lanes.iter().find(|lane| lane.drawn) {
        Some(drawn) if drawn.id != frame.draws => {
            format!("{known}{falls} With the settings of the run it fell on “{}”.", format::visible(&drawn.text))
        }
        _ => known + &falls,
    }
}

/// What came out beside what was to be expected.
fn histogram(frame: &StagesFrame, draws: &Draws) -> impl IntoView + use<> {
    let expected = |lane: &inferscope_stage::Lane| lane.shares.last().copied().unwrap_or_default();
    let lanes: Vec<_> = frame.lanes.iter().filter(|lane| lane.cut_at.is_none()).collect();
    let widest = lanes.iter().map(|lane| expected(lane).max(draws.share(lane.id))).fold(1e-3f32, f32::max);
    let rows = lanes.iter().map(|lane| {
        let (share, expected) = (draws.share(lane.id), expected(lane));
        view! {
            <li data-part="outcome" data-token=lane.id.to_string() data-share=share.to_string()>
                <span class="token">{format::visible(&lane.text)}</span>
                <span class="track">
                    <span class="before" style=format!("transform:scaleX({:.4})", expected / widest)></span>
                    <span class="after" style=format!("transform:scaleX({:.4})", share / widest)></span>
                </span>
                <span class="share">{format!("{} of {}", format::percent(share), format::percent(expected))}</span>
            </li>
        }
    });
    let largest = lanes.iter().map(|lane| (draws.share(lane.id) - expected(lane)).abs()).fold(0.0, f32::max);
    view! {
        <ol class="bars">{rows.collect_view()}</ol>
        <p class="hint">
            {format!("Drawn share (narrow bars) of the odds (wide bars). The largest difference is {:.1} points.", largest * 100.0)}
        </p>
    }
}

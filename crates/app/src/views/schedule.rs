//! Who runs where in the batch, step by step, and how the other way of batching did.

use inferscope_stage::{
    Event, Moment, Status, format,
    serving::{ScheduleFrame, ServingSums, Turn, name},
};
use inferscope_trace::{Batching, ServingTrace};
use leptos::prelude::*;

use super::{blocks::HUES, term::term};
use crate::{signal::Memo, widget::Widget};

pub fn view(widget: Widget) -> impl IntoView {
    let serving = widget.serving;
    let longest = Memo::new(move |()| {
        let steps = |trace: &Option<ServingTrace>| trace.as_ref().map_or(0, |trace| trace.steps.len());
        serving.trace.with(steps).max(serving.twin.with(steps)).max(24)
    });
    let frame = Memo::new(move |()| {
        let moment = widget.moment();
        serving.trace.with(|trace| trace.as_ref().map(|trace| ScheduleFrame::new(trace, moment)))
    });
    let twin = Memo::new(move |()| {
        let moment = twin_moment(widget);
        serving.twin.with(|trace| trace.as_ref().map(|trace| ScheduleFrame::new(trace, moment)))
    });
    view! {
        <section class="panel schedule" data-part="schedule" aria-labelledby="schedule-title">
            <h3 id="schedule-title">"Places in the "{term(widget, "batch", "batch")}", step by step"</h3>
            {settings(widget)}
            <h4>{move || title(serving.settings.get().batching, &serving.trace.get())}</h4>
            <div data-part="places">{move || frame.with(|frame| chart(widget, frame.as_ref(), longest.get(), true))}</div>
            <Show when=move || serving.twin.with(Option::is_some)>
                <h4>{move || serving.twin.with(|twin| twin.as_ref().map(|twin| format!("The same requests, {}", way(twin.settings.batching))))}</h4>
                <div data-part="twin-places">{move || twin.with(|frame| chart(widget, frame.as_ref(), longest.get(), false))}</div>
                {move || comparison(widget)}
            </Show>
            <ul class="legend">
                <li><span class="swatch turn prefill" aria-hidden="true"></span><span>"prefill: several positions in one step"</span></li>
                <li><span class="swatch turn" aria-hidden="true"></span><span>"decode: one position"</span></li>
                <li><span class="swatch idle" aria-hidden="true"></span><span>"nobody in this place"</span></li>
                <li><span class="swatch brim" aria-hidden="true"></span><span>"the request has ended"</span></li>
            </ul>
        </section>
    }
}

/// The other way may take longer: when this one has ended it is shown to its own end.
pub fn twin_moment(widget: Widget) -> Moment {
    let ended = widget.player.with(|player| player.status == Status::Done);
    if ended { Moment::end_of(usize::MAX - 1) } else { widget.moment() }
}

fn way(batching: Batching) -> &'static str {
    match batching {
        Batching::Static => "in closed batches (static)",
        Batching::Continuous => "let in whenever a place is free (continuous)",
    }
}

fn short_way(batching: Batching) -> &'static str {
    match batching {
        Batching::Static => "static",
        Batching::Continuous => "continuous",
    }
}

fn title(set: Batching, trace: &Option<ServingTrace>) -> String {
    let ran = trace.as_ref().map_or(set, |trace| trace.settings.batching);
    format!("Requests {}", way(ran))
}

fn settings(widget: Widget) -> impl IntoView {
    let settings = widget.serving.settings;
    let is = move |batching| settings.with(|it| it.batching == batching);
    view! {
        <div class="picks">
            <label class="field inline">
                <span class="label">{term(widget, "continuous-batching", "Batching")}</span>
                <select name="batching" on:change=move |event| {
                    let batching = if event_target_value(&event) == "static" { Batching::Static } else { Batching::Continuous };
                    settings.update(|it| it.batching = batching);
                }>
                    <option value="continuous" prop:selected=move || is(Batching::Continuous)>"continuous"</option>
                    <option value="static" prop:selected=move || is(Batching::Static)>"static"</option>
                </select>
            </label>
            <label class="slider">
                <span class="label">"Places"</span>
                <input type="range" name="max_batch" min="1" max="8" step="1" prop:value=move || settings.get().max_batch.to_string()
                    on:input=move |event| if let Ok(places) = event_target_value(&event).parse() { settings.update(|it| it.max_batch = places) } />
                <output>{move || settings.get().max_batch}</output>
            </label>
            <label class="slider">
                <span class="label">{term(widget, "chunked-prefill", "Prompt in parts of")}</span>
                <input type="range" name="chunk" min="0" max="16" step="1" prop:value=move || settings.get().chunk.to_string()
                    on:input=move |event| if let Ok(chunk) = event_target_value(&event).parse() { settings.update(|it| it.chunk = chunk) } />
                <output>{move || match settings.get().chunk { 0 => "all".to_string(), n => n.to_string() }}</output>
            </label>
        </div>
    }
}

/// A row a place, a column a step.
fn chart(widget: Widget, frame: Option<&ScheduleFrame>, longest: usize, seeks: bool) -> impl IntoView + use<> {
    let places = frame.map_or_else(
        || vec![Vec::new(); widget.serving.settings.with(|settings| settings.max_batch)],
        |frame| frame.places.clone(),
    );
    let shown = frame.map_or(0, |frame| frame.shown);
    let share = |steps: usize| format!("{:.3}%", steps as f64 / longest as f64 * 100.0);
    let rows = places.into_iter().enumerate().map(|(place, turns)| {
        let bars = spans(&turns).into_iter().map(|(first, last, ends)| {
            let style = format!("left:{};width:{}", share(first.step), share(last - first.step + 1));
            let what = if first.prefill { "prefill" } else { "decode" };
            let title = format!("request {}, {what}, step {} to {last}", name(first.request), first.step);
            let label = (!first.prefill).then(|| name(first.request));
            view! {
                <span
                    class="turn"
                    class:prefill=first.prefill
                    class:ends=ends
                    data-request=name(first.request)
                    data-hue=(first.request % HUES).to_string()
                    style=style
                    title=title
                    on:click=move |_| if seeks { widget.dispatch(Event::Seek(Some(last))) }
                >{label}</span>
            }
        });
        view! {
            <div class="place" data-part="place">
                <span class="tick">{place + 1}</span>
                <div class="track-of-turns"><span class="run" style=format!("width:{}", share(shown))></span>{bars.collect_view()}</div>
            </div>
        }
    });
    view! { <div class="places" role="img" aria-label=describe(frame)>{rows.collect_view()}</div> }
}

fn describe(frame: Option<&ScheduleFrame>) -> String {
    frame.map_or("No step yet".into(), |frame| {
        format!("{} places over {} steps; a place stood empty {} times", frame.places.len(), frame.shown, frame.idle)
    })
}

/// Turns of one request that follow each other, prefill and decode apart: the first, the last step, and whether it ended there.
fn spans(turns: &[Turn]) -> Vec<(Turn, usize, bool)> {
    let mut spans: Vec<(Turn, usize, bool)> = Vec::new();
    for turn in turns {
        match spans.last_mut() {
            Some((first, last, ends))
                if first.request == turn.request && first.prefill == turn.prefill && *last + 1 == turn.step =>
            {
                (*last, *ends) = (turn.step, turn.last);
            }
            _ => spans.push((*turn, turn.step, turn.last)),
        }
    }
    spans
}

fn comparison(widget: Widget) -> impl IntoView {
    let whole = |it: &ServingTrace| {
        let end = if it.finished { Moment::end_of(it.steps.len().saturating_sub(1)) } else { widget.moment() };
        let frame = ScheduleFrame::new(it, end);
        let turns = frame.shown * frame.places.len();
        let idle = if turns == 0 { 0.0 } else { frame.idle as f32 / turns as f32 };
        (short_way(it.settings.batching), ServingSums::of(it, end), idle)
    };
    let both = widget
        .serving
        .trace
        .with(|trace| widget.serving.twin.with(|twin| Some([whole(trace.as_ref()?), whole(twin.as_ref()?)])));
    both.map(|both| {
        let rows = both.map(|(way, sums, idle)| {
            view! {
                <tr data-way=way data-steps=sums.steps.to_string() data-idle=idle.to_string()>
                    <th scope="row">{way}</th>
                    <td>{sums.steps}</td>
                    <td>{sums.tokens}</td>
                    <td>{format!("{:.2}", sums.tokens as f64 / sums.steps.max(1) as f64)}</td>
                    <td>{format::percent(idle)}</td>
                    <td>{sums.tokens_per_second().map_or("–".into(), |rate| format::grouped(rate.round() as u64))}</td>
                </tr>
            }
        });
        view! {
            <div class="sideways"><table class="numbers" data-part="batching-comparison">
                <thead><tr>
                    <th scope="col">"batching"</th><th scope="col">"steps"</th><th scope="col">"tokens"</th>
                    <th scope="col">"tokens a step"</th><th scope="col">"places empty"</th>
                    <th scope="col">{term(widget, "throughput", "tokens/s")}</th>
                </tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table></div>
            <p class="hint">
                <span class="tag counted">"counted"</span>" but for the last column, which is "<span class="tag measured">"measured"</span>
                " on this device. Each request’s tokens are the same either way."
            </p>
            <p class="hint">
                "On a processor a step’s time grows with the batch, so an empty place costs little and both ways may be as fast. Where a \
                 step takes as long half empty as full, as on an accelerator that waits for its memory, tokens a step is what counts; \
                 the table of costs below has such a chip’s step times."
            </p>
        }
    })
}

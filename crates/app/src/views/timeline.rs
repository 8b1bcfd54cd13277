//! The timeline: the prefill bar and a tick a decode step, to the scale of measured time.

use inferscope_stage::{Event, TimeScale, TimelineFrame, TimelineStep, TraceEvents, format};
use inferscope_trace::Phase;
use leptos::prelude::*;

use super::term::term;
use crate::{
    api, dom,
    signal::{Memo, RwSignal},
    widget::Widget,
};

pub fn view(widget: Widget) -> impl IntoView {
    let scale = RwSignal::new(TimeScale::Linear);
    let frame = Memo::new(move |()| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().and_then(|trace| TimelineFrame::new(trace, moment, scale.get())))
    });
    view! {
        <section class="panel timeline" data-part="timeline" aria-labelledby="timeline-title">
            <h3 id="timeline-title">{term(widget, "prefill", "Prefill")}" and "{term(widget, "decode", "decode")}", on the engine's clock"</h3>
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! { <p class="hint">"Prefill and decode appear here, to scale."</p> }
            >
                <svg class="bars" viewBox="0 0 1000 44" preserveAspectRatio="none" role="group" aria-label="Steps">
                    {move || frame.get().map(|frame| {
                        let current = frame.current;
                        frame.steps.into_iter().map(|step| tick(widget, step, current)).collect_view()
                    })}
                </svg>
                <ul class="legend">
                    <li><span class="swatch prefill" aria-hidden="true"></span>"prefill"</li>
                    <li><span class="swatch decode" aria-hidden="true"></span>"a decode step"</li>
                    <li><span class="swatch now" aria-hidden="true"></span>"the step on screen"</li>
                </ul>
                <dl class="facts">
                    <div>
                        <dt>{term(widget, "ttft", "time to first token")}</dt>
                        <dd data-part="ttft">{move || fact(frame, |frame| Some(frame.time_to_first_token))}</dd>
                    </div>
                    <div>
                        <dt>{term(widget, "tpot", "per token")}" after that (median)"</dt>
                        <dd data-part="tpot">{move || fact(frame, |frame| frame.time_per_token)}</dd>
                    </div>
                    <div>
                        <dt>"decode "{term(widget, "throughput", "speed")}</dt>
                        <dd>{move || frame.with(|frame| {
                            let speed = frame.as_ref().and_then(|frame| frame.tokens_per_second);
                            speed.map_or("–".into(), |speed| format!("{} tokens/s", format::grouped(speed.round() as u64)))
                        })}</dd>
                    </div>
                    <div>
                        <dt>"all steps"</dt>
                        <dd>{move || fact(frame, |frame| Some(frame.total))}</dd>
                    </div>
                </dl>
                <p class="hint">
                    <span class="tag measured">"measured"</span>
                    " Computing time only: the picture is slower so that you can follow it."
                    {move || (scale.get() == TimeScale::Log).then_some(" Widths are logarithms now, to make short steps visible: they do not add up.")}
                </p>
                <div class="buttons">
                    <label class="field inline check">
                        <input
                            type="checkbox"
                            name="log_time"
                            prop:checked=move || scale.get() == TimeScale::Log
                            on:change=move |event| {
                                scale.set(if event_target_checked(&event) { TimeScale::Log } else { TimeScale::Linear });
                            }
                        />
                        <span>"Logarithmic"</span>
                    </label>
                    <button
                        type="button"
                        class="quiet"
                        data-action="save-trace"
                        title="A file of trace events, for ui.perfetto.dev or a browser’s tracing page"
                        on:click=move |_| save(widget)
                    >
                        "Save for Perfetto"
                    </button>
                </div>
            </Show>
        </section>
    }
}

fn save(widget: Widget) {
    let events = widget.trace.with_untracked(|trace| trace.as_ref().map(|trace| api::to_js(&TraceEvents::new(trace))));
    if let Some(events) = events {
        dom::save_json("inferscope-trace.json", &events);
    }
}

fn fact(frame: Memo<Option<TimelineFrame>>, pick: fn(&TimelineFrame) -> Option<f64>) -> String {
    frame.with(|frame| frame.as_ref().and_then(pick).map_or("–".into(), format::milliseconds))
}

fn tick(widget: Widget, step: TimelineStep, current: usize) -> impl IntoView {
    let index = step.index;
    let phase = match step.phase {
        Phase::Prefill => "prefill",
        Phase::Decode => "decode",
    };
    // Neighbours stay apart, and the shortest stays visible.
    let width = (step.width * 1000.0 - 1.0).max(1.5);
    let title = format!(
        "step {index}, {phase}: {} position{} in {}",
        step.positions,
        if step.positions == 1 { "" } else { "s" },
        format::milliseconds(step.milliseconds)
    );
    view! {
        <rect
            class=phase
            class:reached=step.reached
            class:current={index == current && step.reached}
            data-step=index.to_string()
            x=format!("{:.2}", step.x * 1000.0)
            width=format!("{width:.2}")
            y=if step.phase == Phase::Prefill { "4" } else { "12" }
            height=if step.phase == Phase::Prefill { "36" } else { "20" }
            on:click=move |_| widget.dispatch(Event::Seek(Some(index)))
        >
            <title>{title}</title>
        </rect>
    }
}

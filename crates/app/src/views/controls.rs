//! The transport: run, step, back, reset, speed, the scrubber, and what decides the next run.

use inferscope_stage::{
    Event, Pace, Plan, Status,
    scenes::{Panel, Source},
};
use inferscope_trace::Request;
use leptos::prelude::*;

use super::{prompt::excess, quiz};
use crate::{dom, signal::Memo, widget::Widget};

const SPEEDS: &[(&str, &str)] = &[
    ("0.25", "very slow (¼)"),
    ("0.5", "slow (½)"),
    ("1", "normal"),
    ("2", "fast (2 ×)"),
    ("4", "very fast (4 ×)"),
    ("max", "maximum"),
];

pub fn view(widget: Widget) -> impl IntoView {
    let status = Memo::new(move |()| widget.player.with(|player| player.status));
    let main_label = move || match status.get() {
        Status::Loading => "Loading …",
        Status::Running => "Pause",
        Status::Paused => "Continue",
        Status::Done => "Run again",
        Status::Idle | Status::Ready | Status::Error => "Run",
    };
    let shown = Memo::new(move |()| widget.player.with(|player| player.moment.steps_shown()));
    let recorded = Memo::new(move |()| widget.player.with(|player| player.recorded));
    view! {
        <section class="controls" aria-label="Controls">
            <div class="buttons">
                <button
                    type="button"
                    class="primary"
                    data-action=move || if status.get() == Status::Running { "pause".to_string() } else { "run".to_string() }
                    disabled={move || status.get() != Status::Running && excess(widget) > 0}
                    on:click=move |_| widget.press_main()
                >
                    <span class="icon" aria-hidden="true">
                        {move || if status.get() == Status::Running { "❚❚".to_string() } else { "▶".to_string() }}
                    </span>
                    {move || main_label().to_string()}
                </button>
                <button
                    type="button"
                    data-action="back"
                    title="One step back (left arrow)"
                    disabled=move || shown.get() == 0
                    on:click=move |_| widget.dispatch(Event::Back)
                >
                    "Back"
                </button>
                <button
                    type="button"
                    data-action="step"
                    title="One step on (right arrow)"
                    disabled={move || excess(widget) > 0 || status.get() == Status::Done}
                    on:click=move |_| widget.dispatch(Event::Step)
                >
                    "Step"
                </button>
                <button
                    type="button"
                    data-action="reset"
                    title="Forget this run"
                    disabled=move || recorded.get() == 0 && status.get() != Status::Running
                    on:click=move |_| widget.dispatch(Event::Reset)
                >
                    "Reset"
                </button>
            </div>
            <label class="field inline">
                <span class="label">"Pace"</span>
                <select data-part="speed" on:change=move |event| set_speed(widget, &event_target_value(&event))>
                    {SPEEDS
                        .iter()
                        .map(|&(value, label)| {
                            view! { <option value=value prop:selected=move || is_speed(widget, value)>{label}</option> }
                        })
                        .collect_view()}
                </select>
            </label>
            {(widget.scene.source == Source::Session && !widget.scene.panels.contains(&Panel::Layout)).then(|| view! { <label class="field inline check">
                <input
                    type="checkbox"
                    name="cache"
                    prop:checked=move || widget.settings.with(|settings| settings.cache)
                    on:change=move |event| {
                        let on = event_target_checked(&event);
                        widget.settings.update(|settings| settings.cache = on);
                    }
                />
                <span>"Use KV cache"</span>
            </label> })}
            {widget.scene.panels.contains(&Panel::Cache).then(|| quiz::switch(widget))}
            {(widget.scene.source != Source::Server).then(|| view! { <label class="field inline">
                <span class="label">"New tokens"</span>
                <input
                    type="number"
                    name="max_new_tokens"
                    min="1"
                    max="4096"
                    inputmode="numeric"
                    prop:value=move || widget.settings.with(|settings| settings.max_new_tokens).to_string()
                    on:change=move |event| {
                        let tokens = event_target_value(&event).parse().unwrap_or(48usize).clamp(1, 4096);
                        widget.settings.update(|settings| settings.max_new_tokens = tokens);
                    }
                />
            </label> })}
            <label class="scrub">
                <span class="label" data-part="place">{move || place(widget)}</span>
                <input
                    type="range"
                    data-part="scrubber"
                    min="0"
                    aria-label="Steps of this run"
                    prop:max=move || planned(widget).to_string()
                    prop:value=move || shown.get().to_string()
                    disabled=move || recorded.get() == 0
                    on:input=move |event| {
                        let steps: usize = event_target_value(&event).parse().unwrap_or(0);
                        widget.dispatch(Event::Seek(steps.checked_sub(1)));
                    }
                />
            </label>
            <Show when=move || pending_change(widget)>
                <p class="hint" data-part="pending-change">
                    "What you changed applies to the next run. "
                    <button type="button" class="link" on:click=move |_| {
                        widget.dispatch(Event::Reset);
                        widget.press_main();
                    }>
                        "Run again now"
                    </button>
                </p>
            </Show>
        </section>
    }
}

/// Steps that the scrubber stands for: those of the whole run, as far as they can be known while it goes on.
fn planned(widget: Widget) -> usize {
    let (recorded, finished) = widget.player.with(|player| (player.recorded, player.finished));
    let planned = widget.trace.with(|trace| trace.as_ref().map_or(0, |trace| Plan::of(trace).steps()));
    if finished { recorded } else { recorded.max(planned) }
}

fn set_speed(widget: Widget, value: &str) {
    let speed = dom::number(value);
    if let Some(speed) = speed {
        widget.speed.set(speed as f32);
    }
    widget.dispatch(Event::SetPace(if speed.is_some() { Pace::Timed } else { Pace::Max }));
}

fn is_speed(widget: Widget, value: &str) -> bool {
    let max = widget.player.with(|player| player.pace == Pace::Max);
    match dom::number(value) {
        Some(speed) => !max && widget.speed.get() == speed as f32,
        None => max,
    }
}

/// Where in the run the screen is.
fn place(widget: Widget) -> String {
    let player = widget.player.get();
    let shown = player.moment.steps_shown();
    match (player.recorded, shown) {
        (0, _) => "No step yet".into(),
        (_, 0) => "Before the first step".into(),
        (recorded, _) if widget.scene.source == Source::Pair => format!("Round {} of {}", shown - 1, recorded - 1),
        (recorded, _) if widget.scene.source == Source::Server => format!("Step {shown} of {recorded}"),
        (_, 1) => "Step 0: prefill".into(),
        (recorded, shown) => format!("Step {} of {}: decode", shown - 1, recorded - 1),
    }
}

/// The run on screen was not made with what the controls say now.
fn pending_change(widget: Widget) -> bool {
    let settings = widget.settings.get();
    let prompt = widget.prompt.get();
    let other_queue = widget.serving.trace.with(|trace| {
        trace.as_ref().is_some_and(|trace| {
            let asked = |request: &Request| (request.prompt.clone(), request.max_new_tokens, request.arrives);
            let queue = widget.serving.queue.with(|queue| queue.iter().map(asked).collect::<Vec<_>>());
            trace.settings != widget.serving.settings.get()
                || trace.requests.iter().map(asked).collect::<Vec<_>>() != queue
        })
    });
    let other_pair = widget.speculation.with(|trace| {
        trace.as_ref().is_some_and(|trace| {
            let ran = &trace.settings;
            trace.prompt.text != prompt || (ran.seed, ran.max_new_tokens) != (settings.seed, settings.max_new_tokens)
        })
    });
    other_queue
        || other_pair
        || widget.trace.with(|trace| {
            trace.as_ref().is_some_and(|trace| {
                let ran = &trace.settings;
                trace.prompt.text != prompt
                    || (ran.cache, ran.seed, ran.max_new_tokens)
                        != (settings.cache, settings.seed, settings.max_new_tokens)
                    || ran.layout != settings.layout
            })
        })
}

//! The engine line: which engine runs, why, and a switch.

use inferscope_stage::Request;
use inferscope_trace::BackendKind;
use leptos::prelude::*;

use crate::widget::Widget;

const NOTHING_YET: &str = "The model runs in your browser; nothing is sent anywhere.";

/// What stands here until an engine is there to be told of.
pub fn nothing_yet() -> impl IntoView {
    view! { <div class="engine"><span data-part="engine" data-kind="none">{NOTHING_YET}</span></div> }
}

pub fn view(widget: Widget) -> impl IntoView {
    view! {
        <div class="engine">
            <span data-part="engine" data-kind=move || kind_name(serving(widget))>{move || line(widget)}</span>
            <label class="field inline">
                <span class="label">"Engine"</span>
                <select
                    name="backend"
                    on:change=move |event| {
                        if let Some(request) = Request::parse(&event_target_value(&event)) {
                            widget.set_request(request);
                        }
                    }
                >
                    {[(Request::Auto, "automatic"), (Request::Webgpu, "WebGPU"), (Request::Cpu, "CPU")]
                        .map(|(request, label)| {
                            view! {
                                <option value=request.as_str() prop:selected=move || widget.request.get() == request>
                                    {label}
                                </option>
                            }
                        })}
                </select>
            </label>
        </div>
    }
}

fn kind_name(kind: Option<BackendKind>) -> &'static str {
    match kind {
        Some(BackendKind::Cpu) => "cpu",
        Some(BackendKind::Webgpu) => "webgpu",
        None => "none",
    }
}

/// The engine of the run on screen, or the one that would take the next run.
fn serving(widget: Widget) -> Option<BackendKind> {
    let ran = widget.trace.with(|trace| trace.as_ref().map(|trace| trace.backend.kind));
    ran.or(widget.engine.with(|engine| engine.kind))
}

fn line(widget: Widget) -> String {
    let next = widget.engine.get();
    let name = |kind| match kind {
        BackendKind::Cpu => "CPU",
        BackendKind::Webgpu => "WebGPU",
    };
    let ran = widget.trace.with(|trace| trace.as_ref().map(|trace| trace.backend.clone()));
    match (ran, next.kind) {
        (Some(ran), Some(kind)) if kind != ran.kind => {
            format!("This run: {} engine. The next: {}, {}.", name(ran.kind), name(kind), unstopped(&next.reason))
        }
        (Some(ran), _) => format!("Runs in your browser on the {} engine: {}.", name(ran.kind), unstopped(&ran.reason)),
        (None, Some(kind)) => {
            format!("Runs in your browser on the {} engine: {}.", name(kind), unstopped(&next.reason))
        }
        (None, None) => NOTHING_YET.into(),
    }
}

/// A sentence that is about to be followed by a full stop.
fn unstopped(reason: &str) -> &str {
    reason.trim_end_matches('.')
}

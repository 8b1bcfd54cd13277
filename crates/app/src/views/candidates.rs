//! The next token's distribution and the sampler's controls.

use inferscope_sampler::{RULES, Rule, Scale};
use inferscope_stage::{Bar, CandidatesFrame, format, predicted_step};
use leptos::prelude::*;

use crate::widget::Widget;

const BARS: usize = 10;

pub fn view(widget: Widget) -> impl IntoView {
    let step = Memo::new(move |_| {
        let moment = widget.moment();
        widget.trace.with(|trace| trace.as_ref().and_then(|trace| predicted_step(trace, moment)))
    });
    let sampling = Memo::new(move |_| widget.settings.with(|settings| settings.sampling.clone()));
    let frame = Memo::new(move |_| {
        let step = step.get()?;
        widget.trace.with(|trace| sampling.with(|sampling| CandidatesFrame::new(trace.as_ref()?, step, sampling, BARS)))
    });
    view! {
        <section class="panel candidates" aria-labelledby="candidates-title">
            <h3 id="candidates-title">"The next token"</h3>
            <div class="sliders">
                {RULES.iter().map(|rule| slider(widget, *rule)).collect_view()}
                {seed(widget)}
            </div>
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! { <p class="hint">"The model's choices appear here with the first step."</p> }
            >
                <ol class="bars" data-part="candidates">
                    {(0..=BARS).map(|index| row(frame, index)).collect_view()}
                </ol>
                <p class="hint" data-part="candidates-summary">{move || frame.get().map(|frame| summary(&frame))}</p>
            </Show>
        </section>
    }
}

fn row(frame: Memo<Option<CandidatesFrame>>, index: usize) -> impl IntoView {
    let bar = Memo::new(move |_| frame.with(|frame| frame.as_ref().and_then(|frame| frame.bars.get(index).cloned())));
    let with = move |read: fn(&Bar) -> String| bar.with(|bar| bar.as_ref().map(read).unwrap_or_default());
    let scale = move |share: fn(&Bar) -> f32| {
        bar.with(|bar| format!("transform:scaleX({:.4})", bar.as_ref().map_or(0.0, share)))
    };
    view! {
        <Show when=move || bar.with(Option::is_some)>
            <li
                data-part="candidate"
                data-token=move || with(|bar| bar.id.to_string())
                data-before=move || with(|bar| bar.before.to_string())
                data-probability=move || with(|bar| bar.after.to_string())
                data-kept=move || with(|bar| bar.cut_by.is_none().to_string())
                class:cut=move || bar.with(|bar| bar.as_ref().is_some_and(|bar| bar.cut_by.is_some()))
                class:drawn=move || bar.with(|bar| bar.as_ref().is_some_and(|bar| bar.drawn))
                title=move || with(|bar| format!(
                    "token {}, rank {}, logit {:.3}: {} before, {} after",
                    bar.id, bar.rank + 1, bar.logit, format::percent(bar.before), format::percent(bar.after)
                ))
            >
                <span class="token">{move || with(|bar| format::visible(&bar.text))}</span>
                <span class="track">
                    <span class="before" style=move || scale(|bar| bar.before)></span>
                    <span class="after" style=move || scale(|bar| bar.after)></span>
                </span>
                <span class="share">{move || with(|bar| match bar.cut_by {
                    Some(rule) => format!("cut: {}", rule.to_lowercase()),
                    None => format::percent(bar.after),
                })}</span>
            </li>
        </Show>
    }
}

fn summary(frame: &CandidatesFrame) -> String {
    let cut = match frame.vocab_size - frame.kept {
        0 => format!("All {} tokens of the vocabulary stay in.", format::grouped(frame.vocab_size as u64)),
        _ => format!("{} of {} tokens stay in.", frame.kept, format::grouped(frame.vocab_size as u64)),
    };
    let spread = format!(
        "Entropy {:.2} nats: as open as a draw between {:.1} equal choices.",
        frame.entropy, frame.effective_choices
    );
    let what_if = match (frame.hypothetical, frame.bars.iter().find(|bar| bar.drawn)) {
        (true, Some(drawn)) if drawn.id != frame.would_draw => format!(
            " These settings differ from those that drew “{}”; with the same random number they draw “{}”.",
            format::visible(&drawn.text),
            format::visible(&frame.would_draw_text)
        ),
        (true, Some(drawn)) => {
            format!(" Other settings drew this token; these draw “{}” as well.", format::visible(&drawn.text))
        }
        _ => String::new(),
    };
    format!("{cut} {spread}{what_if}")
}

/// A control for one rule of the sampler's registry. Log controls move along the exponent.
fn slider(widget: Widget, rule: &'static dyn Rule) -> impl IntoView {
    let control = Memo::new(move |_| {
        let vocab_size = widget.loaded.with(|loaded| loaded.as_ref().map_or(1024, |loaded| loaded.model.vocab_size));
        rule.control(vocab_size)
    });
    let value = Memo::new(move |_| {
        let value = widget.settings.with(|settings| settings.sampling.get(rule.id()));
        control.with(|control| control.clamp(value.unwrap_or(control.neutral)))
    });
    // The slider's own scale: the value itself, or 0 to 1000 along its logarithm.
    let is_log = move || control.with(|control| control.scale == Scale::Log);
    let to_slider = move |value: f64| {
        control.with(|control| match control.scale {
            Scale::Linear => value,
            Scale::Log => 1000.0 * (value / control.min).ln() / (control.max / control.min).ln(),
        })
    };
    let from_slider = move |place: f64| {
        control.with_untracked(|control| {
            let value = match control.scale {
                Scale::Linear => place,
                Scale::Log => control.min * (control.max / control.min).powf(place / 1000.0),
            };
            control.clamp((value / control.step).round() * control.step)
        })
    };
    let written = move || {
        let decimals = control.with(|control| if control.step >= 1.0 { 0 } else { 2 });
        format!("{:.*}", decimals, value.get())
    };
    view! {
        <label class="slider" title=rule.explain()>
            <span class="label">{rule.label()}</span>
            <input
                type="range"
                name=rule.id()
                min=move || if is_log() { 0.0 } else { control.get().min }
                max=move || if is_log() { 1000.0 } else { control.get().max }
                step=move || if is_log() { "any".to_string() } else { control.get().step.to_string() }
                aria-valuetext=written
                prop:value=move || to_slider(value.get()).to_string()
                on:input=move |event| {
                    if let Ok(place) = event_target_value(&event).parse::<f64>() {
                        widget.set_rule(rule.id(), from_slider(place));
                    }
                }
            />
            <output data-rule=rule.id()>{written}</output>
        </label>
    }
}

fn seed(widget: Widget) -> impl IntoView {
    let reseed = move |_| {
        if let Ok(seed) = getrandom::u32() {
            widget.settings.update(|settings| settings.seed = seed % 10_000);
        }
    };
    view! {
        <div class="slider seed">
            <label for="seed" class="label">"Seed"</label>
            <input
                id="seed"
                type="number"
                name="seed"
                min="0"
                inputmode="numeric"
                prop:value=move || widget.settings.with(|settings| settings.seed)
                on:change=move |event| {
                    if let Ok(seed) = event_target_value(&event).parse() {
                        widget.settings.update(|settings| settings.seed = seed);
                    }
                }
            />
            <button type="button" class="quiet" title="Another seed for the next run" on:click=reseed>"New"</button>
        </div>
    }
}

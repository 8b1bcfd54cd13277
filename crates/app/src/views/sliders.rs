//! The sampler's controls: one for each rule of its registry, and the seed.

use inferscope_sampler::{RULES, Rule, Scale};
use leptos::prelude::*;

use super::term::term;
use crate::{dom, signal::Memo, widget::Widget};

pub fn view(widget: Widget) -> impl IntoView {
    view! {
        <div class="sliders">
            {RULES.iter().map(|rule| slider(widget, *rule)).collect_view()}
            {seed(widget)}
        </div>
    }
}

/// A control for one rule of the sampler's registry. Log controls move along the exponent.
fn slider(widget: Widget, rule: &'static dyn Rule) -> impl IntoView {
    let control = Memo::new(move |()| {
        let vocab_size = widget.loaded.with(|loaded| loaded.as_ref().map_or(1024, |loaded| loaded.model.vocab_size));
        rule.control(vocab_size)
    });
    let value = Memo::new(move |()| {
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
            <span class="label">{term(widget, &rule.id().replace('_', "-"), rule.label())}</span>
            <input
                type="range"
                name=rule.id()
                min=move || if is_log() { 0.0 } else { control.get().min }
                max=move || if is_log() { 1000.0 } else { control.get().max }
                step=move || if is_log() { "any".to_string() } else { control.get().step.to_string() }
                aria-valuetext=written
                prop:value=move || to_slider(value.get()).to_string()
                on:input=move |event| {
                    if let Some(place) = dom::number(&event_target_value(&event)) {
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
            <label for="seed" class="label">{term(widget, "seed", "Seed")}</label>
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

//! A step's candidates on their way through the sampler: a row a candidate, a column a stage.

use inferscope_sampler::rule;
use inferscope_stage::{Lane, PRESETS, Preset, Stage, StagesFrame, format};
use leptos::prelude::*;

use super::{shown_step, sliders, term::term};
use crate::{
    signal::{Memo, RwSignal},
    widget::Widget,
};

const LANES: usize = 12;

/// The least share that the logarithmic scale shows.
const FLOOR: f32 = 1e-6;

pub fn view(widget: Widget) -> impl IntoView {
    let step = shown_step(widget);
    let logarithmic = RwSignal::new(false);
    let sampling = Memo::new(move |()| widget.settings.with(|settings| settings.sampling.clone()));
    let frame = Memo::new(move |()| {
        let step = step.get()?;
        widget.trace.with(|trace| sampling.with(|sampling| StagesFrame::new(trace.as_ref()?, step, sampling, LANES)))
    });
    view! {
        <section class="panel stages" data-part="stages" aria-labelledby="stages-title">
            <div class="head">
                <h3 id="stages-title">"From scores to odds"</h3>
                <p class="hint" data-part="stages-step">{move || frame.with(|frame| frame.as_ref().map(|frame| place(widget, frame)))}</p>
                <label class="field inline check">
                    <input
                        type="checkbox"
                        name="log"
                        prop:checked=move || logarithmic.get()
                        on:change=move |event| logarithmic.set(event_target_checked(&event))
                    />
                    <span>"Logarithmic bars"</span>
                </label>
            </div>
            {presets(widget)}
            {sliders::view(widget)}
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! {
                    <p class="hint">"Press Run: the story is written to its end, and then the step that was the most open stands here."</p>
                }
            >
                {move || frame.get().map(|frame| table(widget, &frame, logarithmic.get()))}
                <p class="hint" data-part="stages-summary">{move || frame.with(|frame| frame.as_ref().map(summary))}</p>
            </Show>
        </section>
    }
}

fn place(widget: Widget, frame: &StagesFrame) -> String {
    let before = widget.trace.with(|trace| {
        let trace = trace.as_ref()?;
        let end = trace.prompt.tokens.len() + frame.step;
        let words: String = (end.saturating_sub(4)..end)
            .filter_map(|position| trace.token_at(position))
            .filter(|id| trace.vocabulary.pieces.get(*id as usize).is_some_and(|piece| !piece.control))
            .map(|id| trace.vocabulary.label(id))
            .collect();
        Some(words)
    });
    format!("step {}, what comes after “…{}”", frame.step, before.unwrap_or_default())
}

fn presets(widget: Widget) -> impl IntoView {
    let vocab_size =
        move || widget.loaded.with(|loaded| loaded.as_ref().map_or(1024, |loaded| loaded.model.vocab_size));
    let chosen = Memo::new(move |()| {
        let vocab_size = vocab_size();
        widget.settings.with(|settings| PRESETS.iter().position(|preset| preset.is(&settings.sampling, vocab_size)))
    });
    let choose = move |preset: &'static Preset| {
        for (id, value) in preset.sampling(vocab_size()).0 {
            widget.set_rule(&id, value);
        }
    };
    view! {
        <div class="presets">
            <div class="buttons" role="group" aria-label="Ready-made settings">
                {PRESETS
                    .iter()
                    .enumerate()
                    .map(|(index, preset)| view! {
                        <button
                            type="button"
                            data-preset=preset.id
                            aria-pressed=move || (chosen.get() == Some(index)).to_string()
                            on:click=move |_| choose(preset)
                        >
                            {preset.title}
                        </button>
                    })
                    .collect_view()}
            </div>
            <p class="hint">{move || chosen.get().map_or("Settings of your own.", |index| PRESETS[index].sentence)}</p>
        </div>
    }
}

fn table(widget: Widget, frame: &StagesFrame, logarithmic: bool) -> impl IntoView + use<> {
    let heads = frame.stages.iter().map(|stage| {
        let explain =
            rule(stage.id).map_or("The model’s own odds: the softmax of its scores.", |rule| rule.explain());
        view! {
            <th scope="col" title=explain class:neutral=stage.neutral>
                <span>{stage_term(widget, stage)}</span>
                <span class="value">{stage.value.clone()}</span>
            </th>
        }
    });
    let shares = frame.lanes.iter().flat_map(|lane| lane.shares.iter().copied());
    let widest = shares.fold(FLOOR, f32::max);
    let rows = frame.lanes.iter().map(|lane| row(lane, &frame.stages, widest, logarithmic));
    let foot = |label: AnyView, write: fn(&Stage) -> String| {
        let cells = frame.stages.iter().map(|stage| view! { <td>{write(stage)}</td> }).collect_view();
        view! { <tr><th scope="row">{label}</th><td class="logit"></td>{cells}</tr> }
    };
    view! {
        <div class="sideways">
            <table class="lanes">
                <thead>
                    <tr>
                        <th scope="col">"token"</th>
                        <th scope="col" class="logit">{term(widget, "logit", "score")}</th>
                        {heads.collect_view()}
                    </tr>
                </thead>
                <tbody>{rows.collect_view()}</tbody>
                <tfoot>
                    {foot("tokens left".into_any(), |stage| format::grouped(stage.kept as u64))}
                    {foot("cut here".into_any(), |stage| if stage.removed > 0.0 { format::percent(stage.removed) } else { "–".into() })}
                    {foot(term(widget, "entropy", "equal choices").into_any(), |stage| format!("{:.1}", stage.effective_choices))}
                </tfoot>
            </table>
        </div>
    }
}

/// A rule's heading leads to its entry; the first column, before any rule, to that of the softmax.
fn stage_term(widget: Widget, stage: &Stage) -> impl IntoView + use<> {
    let id = rule(stage.id).map_or("softmax".into(), |rule| rule.id().replace('_', "-"));
    term(widget, &id, stage.label)
}

/// Bars are as long as their share is of the `widest`; on the logarithmic scale the widest possible is a share of 1.
fn row(lane: &Lane, stages: &[Stage], widest: f32, logarithmic: bool) -> impl IntoView + use<> {
    let cells = lane.shares.iter().enumerate().map(|(index, &share)| {
        if lane.cut_at.is_some_and(|cut| index > cut) {
            return view! { <td class="gone"></td> }.into_any();
        }
        if lane.cut_at == Some(index) {
            let rule = stages[index].label;
            return view! { <td class="cut"><span class="hatch"></span><span class="share">{format!("cut: {}", rule.to_ascii_lowercase())}</span></td> }.into_any();
        }
        let length = if logarithmic { 1.0 - (share.max(FLOOR).log10() / FLOOR.log10()) } else { share / widest };
        view! {
            <td>
                <span class="track"><span class="after" style=format!("transform:scaleX({length:.4})")></span></span>
                <span class="share">{format::percent(share)}</span>
            </td>
        }
        .into_any()
    });
    view! {
        <tr
            data-part="lane"
            data-token=lane.id.to_string()
            data-share=lane.shares.last().copied().unwrap_or_default().to_string()
            data-cut=lane.cut_at.map(|stage| stages[stage].id)
            class:drawn=lane.drawn
            title=format!("token {}, rank {}", lane.id, lane.rank + 1)
        >
            <th scope="row" class="token">{format::visible(&lane.text)}</th>
            <td class="logit">{format!("{:.2}", lane.logit)}</td>
            {cells.collect_view()}
        </tr>
    }
}

fn summary(frame: &StagesFrame) -> String {
    let (first, last) = (&frame.stages[0], &frame.stages[frame.stages.len() - 1]);
    let others = format!("{} more tokens are not listed. ", format::grouped(frame.others as u64));
    let spread = format!(
        "The model’s own odds are as open as a draw between {:.1} equal choices ({:.2} nats); after the rules it is {:.1} ({:.2} \
         nats).",
        first.effective_choices, first.entropy, last.effective_choices, last.entropy
    );
    others + &spread
}

//! The next token's distribution.

use inferscope_stage::{Bar, CandidatesFrame, format};
use leptos::prelude::*;

use super::{shown_step, sliders, term::term};
use crate::{signal::Memo, widget::Widget};

const BARS: usize = 10;

pub fn view(widget: Widget) -> impl IntoView {
    let step = shown_step(widget);
    let sampling = Memo::new(move |()| widget.settings.with(|settings| settings.sampling.clone()));
    let frame = Memo::new(move |()| {
        let step = step.get()?;
        widget.trace.with(|trace| sampling.with(|sampling| CandidatesFrame::new(trace.as_ref()?, step, sampling, BARS)))
    });
    view! {
        <section class="panel candidates" aria-labelledby="candidates-title">
            <h3 id="candidates-title">"The next "{term(widget, "token", "token")}</h3>
            {sliders::view(widget)}
            <Show
                when=move || frame.with(Option::is_some)
                fallback=|| view! { <p class="hint">"The model's choices appear here with the first step."</p> }
            >
                <ol class="bars" data-part="candidates">
                    {(0..=BARS).map(|index| row(widget, frame, index)).collect_view()}
                </ol>
                <p class="hint">"Wide and pale: the model’s own odds. Narrow and dark: what the settings make of them. Choose another token to go on from this step with it: the cache is cut back to here, and the run as it was is kept as a branch."</p>
                <p class="hint" data-part="candidates-summary">{move || frame.get().map(|frame| summary(&frame))}</p>
            </Show>
        </section>
    }
}

fn row(widget: Widget, frame: Memo<Option<CandidatesFrame>>, index: usize) -> impl IntoView {
    let bar = Memo::new(move |()| frame.with(|frame| frame.as_ref().and_then(|frame| frame.bars.get(index).cloned())));
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
                <button
                    type="button"
                    class="token"
                    data-action="branch"
                    title="Go on from here with this token instead"
                    disabled=move || bar.with(|bar| bar.as_ref().is_none_or(|bar| bar.drawn))
                    on:click=move |_| {
                        let step = frame.with_untracked(|frame| frame.as_ref().map(|frame| frame.step));
                        let token = bar.with_untracked(|bar| bar.as_ref().map(|bar| bar.id));
                        if let Some((step, token)) = step.zip(token) {
                            widget.branch(step, token);
                            // The button pressed is drawn anew; whoever uses the keyboard goes on from the one that pauses.
                            widget.focus_main();
                        }
                    }
                >
                    {move || with(|bar| format::visible(&bar.text))}
                </button>
                <span class="track">
                    <span class="before" style=move || scale(|bar| bar.before)></span>
                    <span class="after" style=move || scale(|bar| bar.after)></span>
                </span>
                <span class="share">{move || with(|bar| match bar.cut_by {
                    Some(rule) => format!("cut: {}", rule.to_ascii_lowercase()),
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

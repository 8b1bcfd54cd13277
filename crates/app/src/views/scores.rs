//! What dropping and rounding do to how well the model foresees a text it was not trained on.

use inferscope_stage::{Status, format};
use inferscope_trace::CacheLayout;
use leptos::prelude::*;

use super::term::term;
use crate::widget::{HELD_OUT, Widget};

pub fn view(widget: Widget) -> impl IntoView {
    let scores = widget.scores;
    let can =
        move || widget.player.with(|player| !matches!(player.status, Status::Running | Status::Loading | Status::Idle));
    view! {
        <section class="panel scores" data-part="scores" aria-labelledby="scores-title">
            <h3 id="scores-title">"What it costs in "{term(widget, "cross-entropy", "loss")}</h3>
            <button type="button" data-action="score" disabled=move || !can() on:click=move |_| widget.score()>
                "Read a new story with each"
            </button>
            <p class="hint">
                "The model reads a story that it was not trained on, and at every token it is noted how likely it found the one that \
                 came. The mean surprise is the loss: lower is better."
            </p>
            {move || table(widget)}
            <details>
                <summary>"The story"</summary>
                <p class="story-text">{HELD_OUT.trim()}</p>
            </details>
            {move || scores.with(|scores| scores.all.iter().all(|it| it.nats.is_some()) && !scores.all.is_empty()).then(|| view! {
                <p class="hint">{sinks_words(widget)}"All of this is about one small model: how much rounding a large one bears, and how much it leans on its first tokens, is another measurement."</p>
            })}
        </section>
    }
}

/// What the measurement says of sinks, at equal bytes.
fn sinks_words(widget: Widget) -> Option<&'static str> {
    let of = |sinks, window| {
        widget.scores.with(|scores| {
            scores.all.iter().find(|it| it.layout == CacheLayout::Window { sinks, window }).and_then(|it| it.nats)
        })
    };
    let (with, without) = (of(4, 60)?, of(0, 64)?);
    Some(if with > without {
        "With the same number of columns the window does better here without sinks: this model does not need them. "
    } else {
        "With the same number of columns the window does better here with sinks. "
    })
}

fn words(layout: CacheLayout) -> String {
    match layout {
        CacheLayout::Window { sinks, window } => format!("{sinks} sinks and a window of {window}"),
        CacheLayout::Quantised { bits } => format!("everything, in {bits} bits"),
        _ => "everything, as it is".into(),
    }
}

fn table(widget: Widget) -> Option<impl IntoView + use<>> {
    let scores = widget.scores.get();
    if scores.all.is_empty() {
        return None;
    }
    let model = widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| loaded.model.clone()))?;
    let own = widget.settings.with(|settings| settings.layout);
    let whole = scores.all.iter().find(|it| it.layout == CacheLayout::Contiguous).and_then(|it| it.nats);
    let rows = scores.all.iter().map(|score| {
        let bytes = score.layout.bytes(&model, model.context as u64);
        let more = score.nats.zip(whole).map(|(nats, whole)| nats - whole);
        view! {
            <tr data-layout=words(score.layout) data-nats=score.nats.map(|nats| nats.to_string()) class:chosen={score.layout == own}>
                <th scope="row">{words(score.layout)}</th>
                <td>{format::bytes(bytes)}</td>
                <td>{score.nats.map_or("…".into(), |nats| format!("{nats:.3}"))}</td>
                <td>{more.filter(|_| score.layout != CacheLayout::Contiguous).map(|more| format!("{more:+.3}"))}</td>
            </tr>
        }
    });
    Some(view! {
        <div class="sideways"><table class="numbers">
            <thead><tr>
                <th scope="col">"kept"</th>
                <th scope="col">{format!("cache at {}", model.context)}</th>
                <th scope="col">"loss, nats"</th>
                <th scope="col">"more"</th>
            </tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table></div>
        <p class="hint">
            <span class="tag measured">"measured"</span>{format!(" over {} tokens; the bytes are ", scores.tokens)}
            <span class="tag counted">"counted"</span>"."
        </p>
    })
}

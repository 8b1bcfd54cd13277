//! The same prompt on models that differ in how many query heads share a KV head.

use inferscope_stage::{Status, format};
use inferscope_trace::{CacheLayout, ModelInfo};
use leptos::prelude::*;

use super::term::term;
use crate::{
    signal::Memo,
    widget::{GroupRun, Progress, Widget, siblings},
};

pub fn view(widget: Widget) -> impl IntoView {
    let can =
        move || widget.player.with(|player| !matches!(player.status, Status::Running | Status::Loading | Status::Idle));
    view! {
        <section class="panel groups" data-part="groups" aria-labelledby="groups-title">
            <h3 id="groups-title">"Who shares a KV head: "{term(widget, "mha", "multi-head")}", "{term(widget, "gqa", "grouped")}
                " and "{term(widget, "mqa", "multi-query")}</h3>
            <p>
                "Three models of one shape, trained alike on the same stories. They differ in one thing: how many of the eight query \
                 heads read the same keys and values. The fewer KV heads, the smaller the cache of every token."
            </p>
            <div class="buttons">
                <button type="button" data-action="run-groups" disabled=move || !can() on:click=move |_| widget.run_groups()>
                    "Run the prompt on all three"
                </button>
                <span class="hint">"The other two are a megabyte each, and are fetched when you press."</span>
            </div>
            <div class="cards">
                {siblings().enumerate().map(|(index, row)| {
                    let run = Memo::new(move |()| widget.groups.with(|runs| runs.get(index).map(shown)));
                    view! {
                        <article data-model=row.id>
                            <h4>{row.title}</h4>
                            {diagram(row.heads)}
                            <dl>
                                <div><dt>"cache, a token (f32)"</dt><dd data-part="token-bytes">{move || token_bytes(widget, row.heads).map_or("–".into(), format::bytes)}" "<span class="tag counted">"counted"</span></dd></div>
                                <div><dt>"loss on stories not seen"</dt><dd data-part="held-out">{format!("{:.3} nats ", row.held_out)}<span class="tag measured" title="On the file that ships, over 200 held-out stories: see its card in docs/models">"measured"</span></dd></div>
                                <div><dt>"a decode step here"</dt><dd>{move || run.with(|run| run.as_ref().and_then(|run| run.step.clone()).unwrap_or_else(|| "–".into()))}</dd></div>
                            </dl>
                            <p class="written" data-part="group-text">{move || run.with(|run| run.as_ref().map(|run| run.text.clone()))}</p>
                        </article>
                    }
                }).collect_view()}
            </div>
        </section>
    }
}

#[derive(Clone, PartialEq)]
struct Shown {
    text: String,
    step: Option<String>,
}

fn shown(run: &GroupRun) -> Shown {
    let text = match (&run.progress, &run.loaded) {
        (Progress::Failed(message), _) => message.clone(),
        (Progress::Waiting, _) | (_, None) => "The model is on its way …".into(),
        (_, Some(loaded)) => loaded.vocabulary.text(run.prompt.last().copied(), &run.tokens),
    };
    let mut times = run.milliseconds.clone();
    times.sort_by(f64::total_cmp);
    let step = times.get(times.len() / 2).map(|time| format!("{} (median, measured)", format::milliseconds(*time)));
    Shown { text, step }
}

/// Of a model with the shape of the one on the page, but for its heads; unknown while that is none of these.
fn token_bytes(widget: Widget, (n_heads, n_kv_heads): (usize, usize)) -> Option<u64> {
    let page = widget.loaded.with(|loaded| loaded.as_ref().map(|loaded| loaded.model.clone()))?;
    siblings().any(|row| row.id == page.id).then(|| {
        let shape = ModelInfo { n_heads, n_kv_heads, head_dim: page.dim / n_heads, ..(*page).clone() };
        CacheLayout::Contiguous.column_bytes(&shape)
    })
}

/// Query heads above, KV heads below, and who reads whom.
fn diagram((n_heads, n_kv_heads): (usize, usize)) -> impl IntoView {
    let (width, top, bottom) = (232.0, 16.0, 70.0);
    let x = |index: usize, count: usize| (index as f64 + 0.5) / count as f64 * width;
    let group = n_heads / n_kv_heads;
    let lines = (0..n_heads).map(|head| {
        view! { <path class="reads" d=format!("M{:.1} {} L{:.1} {}", x(head, n_heads), top + 8.0, x(head / group, n_kv_heads), bottom - 9.0) /> }
    });
    let queries = (0..n_heads)
        .map(|head| view! { <circle class="query-head" cx=format!("{:.1}", x(head, n_heads)) cy=top r="8" /> });
    let keys = (0..n_kv_heads).map(|head| {
        let middle = x(head, n_kv_heads);
        view! {
            <rect class="key-head" x=format!("{:.1}", middle - 9.0) y=bottom - 9.0 width="9" height="18" />
            <rect class="value-head" x=format!("{middle:.1}") y=bottom - 9.0 width="9" height="18" />
        }
    });
    let label = format!("{n_heads} query heads read {n_kv_heads} KV head{}", if n_kv_heads == 1 { "" } else { "s" });
    let title = label.clone();
    view! {
        <svg viewBox=format!("0 0 {width} 84") role="img" aria-label=label>
            <title>{title}</title>
            {lines.collect_view()} {queries.collect_view()} {keys.collect_view()}
        </svg>
    }
}

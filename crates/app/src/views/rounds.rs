//! Speculative decoding: the round on screen, the rounds before it, and what they come to.

use inferscope_stage::{Author, Card, Event, Fate, RoundRow, SpeculativeFrame, Yield, format};
use inferscope_trace::Own;
use leptos::prelude::*;

use super::{sliders, term::term};
use crate::{signal::Memo, widget::Widget};

const MOST_GAMMA: usize = 8;

pub fn view(widget: Widget) -> impl IntoView {
    let frame = Memo::new(move |()| {
        let moment = widget.moment();
        widget.speculation.with(|trace| SpeculativeFrame::new(trace.as_ref()?, moment))
    });
    view! {
        <section class="panel story speculative" aria-label="Text">
            <p data-part="text">
                {move || match frame.get() {
                    None => view! { <span class="ghost">{move || widget.prompt.get()}</span> }.into_any(),
                    Some(frame) => frame.pieces.into_iter().map(|(text, author)| {
                        view! { <span class=author_class(author) title=author_words(author)>{text}</span> }
                    }).collect_view().into_any(),
                }}
            </p>
        </section>
        <section class="panel rounds" data-part="rounds" aria-labelledby="rounds-title">
            <h3 id="rounds-title">"A round of "{term(widget, "speculative-decoding", "speculation")}</h3>
            <div class="sliders">
                <label class="slider" title="How many tokens the draft proposes before the target looks">
                    <span class="label">"Proposals, γ"</span>
                    <input
                        type="range" name="gamma" min="1" max=MOST_GAMMA.to_string() step="1"
                        prop:value=move || widget.gamma.get().to_string()
                        on:input=move |event| if let Ok(gamma) = event_target_value(&event).parse() { widget.gamma.set(gamma) }
                    />
                    <output>{move || widget.gamma.get()}</output>
                </label>
            </div>
            <p data-part="round-caption">{move || match frame.get() {
                None => "Press Run: a small draft model guesses some tokens, and the large one looks at all of them at once.".into(),
                Some(frame) => frame.caption,
            }}</p>
            <div class="cards">
                {move || frame.get().map(|frame| {
                    let own = frame.own.clone().map(own_card);
                    view! { {frame.cards.iter().map(card).collect_view()} {own} }
                })}
            </div>
            <ul class="legend">
                <li><span class="swatch q" aria-hidden="true"></span><span>"q: how likely the "{term(widget, "draft-model", "draft")}" found it"</span></li>
                <li><span class="swatch p" aria-hidden="true"></span><span>"p: how likely the target finds it"</span></li>
                <li><span class="coin-mark" aria-hidden="true">"▲"</span><span>"the random number: the token is kept if it falls below p / q"</span></li>
            </ul>
            {sliders::view(widget)}
            <h4>"All rounds; the first is the prompt’s prefill"</h4>
            <ul class="legend history-legend">
                <li><i data-fate="accepted"></i><span>"kept"</span></li>
                <li><i data-fate="rejected"></i><span>"rejected"</span></li>
                <li><i data-fate="dropped"></i><span>"not looked at"</span></li>
                <li><i data-own="bonus"></i><span>"the target’s own token"</span></li>
                <li><span class="by-draft">"proposed and kept"</span></li>
                <li><span class="by-target">"written by the target"</span></li>
            </ul>
            <ol class="history" data-part="history">
                {move || frame.get().map(|frame| frame.rounds.iter().map(|row| history(widget, row)).collect_view())}
            </ol>
        </section>
    }
}

fn author_class(author: Author) -> &'static str {
    match author {
        Author::Prompt => "said",
        Author::Draft => "by-draft",
        Author::Target(_) => "by-target",
    }
}

fn author_words(author: Author) -> &'static str {
    match author {
        Author::Prompt => "the prompt",
        Author::Draft => "proposed by the draft, kept by the target",
        Author::Target(Own::First) => "the target’s first token, from the prompt’s prefill",
        Author::Target(Own::Replacement) => "drawn by the target in place of a rejected one",
        Author::Target(Own::Bonus) => "the target’s extra token: all proposals had passed",
    }
}

fn card(card: &Card) -> impl IntoView + use<> {
    let width = |share: f32| format!("width:{:.1}%", share * 100.0);
    let verdict = match card.fate {
        Fate::Proposed => "proposed",
        Fate::Accepted => "✓ kept",
        Fate::Rejected => "✗ rejected",
        Fate::Dropped => "not looked at",
    };
    // The line of the coin ends at 1; below p / q is kept.
    let coin = card.judged.map(|(coin, ratio)| {
        view! {
            <span class="line" role="img" aria-label=format!("random number {coin:.2}, kept below {:.2}", ratio.min(1.0))>
                <span class="below" style=format!("width:{:.1}%", ratio.min(1.0) * 100.0)></span>
                <span class="coin-mark" style=format!("left:{:.1}%", coin * 100.0)>"▲"</span>
            </span>
            <span class="hint">{format!("{coin:.2} {} {:.2}", if coin < ratio { "<" } else { "≥" }, ratio)}</span>
        }
    });
    view! {
        <article data-part="card" data-fate=card.fate.as_str()>
            <b class="token">{format::visible(&card.text)}</b>
            <span class="odds-bar"><span class="q" style=width(card.q)></span></span>
            <span class="share">{format!("q {}", format::percent(card.q))}</span>
            <span class="odds-bar"><span class="p" style=width(card.p.unwrap_or(0.0))></span></span>
            <span class="share">{card.p.map(|p| format!("p {}", format::percent(p)))}</span>
            {coin}
            <span class="verdict-word">{verdict}</span>
        </article>
    }
}

fn own_card((text, own): (String, Own)) -> impl IntoView {
    let why = match own {
        Own::First => "first token",
        Own::Replacement => "replacement",
        Own::Bonus => "bonus",
    };
    view! {
        <article data-part="own-card" class="own-token">
            <b class="token">{format::visible(&text)}</b>
            <span class="verdict-word">{format!("{why}, by the target")}</span>
        </article>
    }
}

fn history(widget: Widget, row: &RoundRow) -> impl IntoView + use<> {
    let index = row.index;
    let marks = row.fates.iter().map(|fate| view! { <i data-fate=fate.as_str()></i> }).collect_view();
    let own = match row.own {
        Own::Bonus => "bonus",
        Own::Replacement => "replacement",
        Own::First => "first",
    };
    let title = format!("round {index}: {} added", row.added);
    view! {
        <li data-part="round" data-added=row.added.to_string() class:current=row.current>
            <button type="button" class="chips-button" title=title on:click=move |_| widget.dispatch(Event::Seek(Some(index)))>
                {marks}<i data-own=own></i><span>{format!("+{}", row.added)}</span>
            </button>
        </li>
    }
}

/// What the rounds on screen come to, beside the formula.
pub fn sums(widget: Widget) -> impl IntoView {
    let sums = Memo::new(move |()| {
        let rounds = widget.player.with(|player| player.moment.steps_complete());
        widget.speculation.with(|trace| Yield::of(trace.as_ref()?, rounds))
    });
    view! {
        <section class="panel counters yield" data-part="yield" aria-labelledby="yield-title">
            <h3 id="yield-title">"What it comes to"</h3>
            {move || match sums.get() {
                None => view! { <p class="hint">"Numbers appear with the first round of proposals."</p> }.into_any(),
                Some(sums) => table(widget, &sums).into_any(),
            }}
        </section>
    }
}

fn table(widget: Widget, sums: &Yield) -> impl IntoView + use<> {
    let gamma = widget.gamma.get();
    let pass = widget.target_pass.get();
    let later = || "when the run has ended".to_string();
    let rows = [
        ("proposals judged".to_string(), sums.judged.to_string(), "counted"),
        ("share of them kept, α".into(), format::percent(sums.acceptance as f32), "counted"),
        (
            "tokens for each pass of the target that had proposals".into(),
            format!("{:.2}", sums.tokens_per_pass),
            "counted",
        ),
        (
            "by the formula (1 − α^(γ+1)) / (1 − α), with each round’s own γ".into(),
            format!("{:.2}", sums.expected),
            "counted",
        ),
        (
            "a pass of the draft, in passes of the target over one position, c (medians)".into(),
            pass.map_or_else(later, |pass| format!("{:.2}", sums.cost(pass))),
            "measured",
        ),
        (
            format!("faster than the target alone by the formula / (γ c + 1), with γ = {gamma}"),
            pass.map_or_else(later, |pass| format::times(sums.speed_up(gamma, pass))),
            "counted",
        ),
        (
            "faster than the target alone on this device".into(),
            pass.map_or_else(later, |pass| format::times(sums.measured_speed_up(pass))),
            "measured",
        ),
    ];
    let rows = rows.into_iter().map(|(label, value, mark)| {
        view! {
            <tr>
                <th scope="row">{label}</th>
                <td>{value}</td>
                <td class="mark"><span class=format!("tag {mark}")>{mark}</span></td>
            </tr>
        }
    });
    let slower = pass.is_some_and(|pass| sums.measured_speed_up(pass) < 1.0);
    let why = slower.then_some(
        "Here it is slower than the target alone. The formula takes for granted that a pass over several positions costs the \
         target no more than one over one. That holds where weights come from slow memory, as on an accelerator; on this \
         device arithmetic is the limit, and each position costs its share.",
    );
    view! {
        <table><tbody>{rows.collect_view()}</tbody></table>
        {why.map(|why| view! { <p class="verdict" data-part="slower">{why}</p> })}
        <p class="hint">
            "The text is drawn exactly as if the target had written it alone: a token is kept with probability min(1, p / q), and what \
             replaces a rejected one comes from max(0, p − q). The "{term(widget, "acceptance-rate", "acceptance rate")}
            " is how alike the two models are."
        </p>
    }
}

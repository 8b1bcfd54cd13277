//! The tree of runs that came from this one by choosing another token.

use inferscope_stage::BranchRow;
use leptos::prelude::*;

use super::term::term;
use crate::{signal::Memo, widget::Widget};

pub fn view(widget: Widget) -> impl IntoView {
    let rows = Memo::new(move |()| widget.branch_rows());
    view! {
        <Show when=move || rows.with(|rows| !rows.is_empty())>
            <section class="panel branches" data-part="branches" aria-labelledby="branches-title">
                <h3 id="branches-title">{term(widget, "branch", "Branches")}</h3>
                <ol>{move || rows.get().into_iter().map(|it| row(widget, it)).collect_view()}</ol>
            </section>
        </Show>
    }
}

fn row(widget: Widget, row: BranchRow) -> impl IntoView {
    let index = row.index;
    let title = match (row.step, &row.instead) {
        (Some(step), Some((new, old))) => format!("step {step}: “{new}” instead of “{old}”"),
        _ => "the first run".into(),
    };
    let reused = match row.reused {
        Some(columns) => format!("{columns} columns of the cache reused, none computed again"),
        None => String::new(),
    };
    view! {
        <li data-part="branch" data-index=index.to_string() data-reused=row.reused.map(|columns| columns.to_string()) style=format!("--depth:{}", row.depth)>
            <button
                type="button"
                aria-current=row.current.then_some("true")
                on:click=move |_| widget.show_branch(index)
            >
                <span class="title">{title}</span>
                <span class="text">{row.text}</span>
                <span class="hint">{reused}</span>
            </button>
        </li>
    }
}

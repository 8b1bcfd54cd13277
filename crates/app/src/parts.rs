//! A *part* is a file of its own with the code of some views, its *pieces*, and their style sheets: they are fetched when a scene is to show them.
//! What the first run of the `generate` scene needs is no part, but comes with the app.

#[cfg(feature = "split")]
use leptos::wasm_split::wasm_split;
use leptos::{prelude::*, wasm_split::SplitLoaderError};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use inferscope_stage::{Status, scenes::Source};
use inferscope_trace::Reply;

use crate::{
    signal::{Memo, effect},
    views::*,
    widget::Widget,
};

/// What a part brings along.
#[derive(Clone, Copy)]
pub struct Code {
    /// The view of one of its pieces.
    show: fn(Widget, Piece) -> AnyView,
    /// Takes an engine's reply, if it is to something that the pieces asked for.
    hear: fn(Widget, &Reply),
}

/// How far a part is.
#[derive(Clone, Copy, Default)]
pub enum Fetch {
    #[default]
    Unasked,
    Coming,
    Here(Code),
    Failed,
}

/// How far a widget's parts are.
#[derive(Clone, Copy, Default)]
pub struct Parts([Fetch; Part::COUNT]);

macro_rules! parts {
    ($($part:ident in $file:ident hears [$($hear:ident),*] { $($piece:ident: $view:path,)+ })+) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum Part {
            $($part,)+
        }

        impl Part {
            const ALL: &[Self] = &[$(Self::$part),+];
            const COUNT: usize = Self::ALL.len();
        }

        #[derive(Clone, Copy)]
        pub enum Piece {
            $($($piece,)+)+
        }

        impl Piece {
            fn part(self) -> Part {
                match self {
                    $($(Self::$piece)|+ => Part::$part,)+
                }
            }
        }

        $(
            #[cfg_attr(feature = "split", wasm_split($file, wasm_split_path = leptos::wasm_split, fallible))]
            fn $file() -> Result<Code, SplitLoaderError> {
                fn show(widget: Widget, piece: Piece) -> AnyView {
                    match piece {
                        $(Piece::$piece => $view(widget).into_any(),)+
                        _ => ().into_any(),
                    }
                }
                #[allow(unused_variables, reason = "one part has nothing to hear")]
                fn hear(widget: Widget, reply: &Reply) {
                    $(widget.$hear(reply);)*
                }
                Ok(Code { show, hear })
            }
        )+

        async fn fetch(part: Part) -> Result<Code, SplitLoaderError> {
            match part {
                $(Part::$part => fetched!($file()),)+
            }
        }
    };
}

/// A build in one piece has nothing to wait for.
macro_rules! fetched {
    ($part:expr) => {{
        let code = $part;
        #[cfg(feature = "split")]
        let code = code.await;
        code
    }};
}

parts! {
    // What the `generate` scene has to say of a run, once there is one.
    Later in later hears [] {
        Branches: branches::view,
        Candidates: candidates::view,
        CellDetails: cache::details,
        Counters: counters::view,
        Footer: footer,
        Growth: growth::view,
        Heads: heads::view,
        Quiz: quiz::view,
        Roofline: roofline::view,
        Timeline: timeline::view,
    }
    Sessions in sessions hears [hear_of_groups, hear_of_contrast, hear_of_scores] {
        Contrast: contrast::view,
        Draw: draw::view,
        Groups: groups::view,
        Layout: layout::view,
        Memory: memory::view,
        Scores: scores::view,
        Search: search::view,
        Stages: stages::view,
    }
    Batches in batches hears [hear_of_rounds, hear_of_serving] {
        BatchCost: batch_cost::view,
        Blocks: blocks::view,
        Requests: requests::view,
        Rounds: rounds::view,
        Schedule: schedule::view,
        Yield: rounds::sums,
    }
}

impl Part {
    /// The looks of its pieces, in the order in which one overrules another.
    fn styles(self) -> &'static [&'static str] {
        match self {
            Self::Later => &["later.css"],
            Self::Sessions | Self::Batches => &["later.css", "scenes.css"],
        }
    }
}

/// Notes how far a part is; false if the widget has left the page.
fn set(widget: Widget, part: Part, fetch: Fetch) -> bool {
    widget.parts.try_update(|parts| parts.0[part as usize] = fetch).is_some()
}

/// Fetches a part, unless that was begun before.
fn want(widget: Widget, part: Part) {
    if widget.parts.with_untracked(|parts| matches!(parts.0[part as usize], Fetch::Unasked)) {
        set(widget, part, Fetch::Coming);
        let styles = part.styles().iter().map(|file| widget.load_style(file)).collect::<js_sys::Array>();
        spawn_local(async move {
            let fetch = fetch(part).await.map_or(Fetch::Failed, Fetch::Here);
            let _ = JsFuture::from(js_sys::Promise::all(&styles)).await;
            // A run may have waited for it.
            if set(widget, part, fetch) {
                widget.reconsider();
            }
        });
    }
}

/// Takes an engine's reply to the parts that are here.
pub fn hear(widget: Widget, reply: &Reply) {
    for fetch in widget.parts.with_untracked(|parts| parts.0) {
        if let Fetch::Here(code) = fetch {
            (code.hear)(widget, reply);
        }
    }
}

/// Whether the code is here without which a run of the scene would not be understood.
pub fn can_run(widget: Widget) -> bool {
    widget.scene.source == Source::Session || is_here(widget, Part::Batches)
}

/// Has the parts that could not be fetched fetched again.
pub fn fetch_again(widget: Widget) {
    for part in Part::ALL.iter().copied().filter(|part| failed(widget, *part)) {
        set(widget, part, Fetch::Unasked);
        want(widget, part);
    }
}

fn failed(widget: Widget, part: Part) -> bool {
    matches!(fetch_of(widget, part), Fetch::Failed)
}

fn is_here(widget: Widget, part: Part) -> bool {
    matches!(fetch_of(widget, part), Fetch::Here(_))
}

fn fetch_of(widget: Widget, part: Part) -> Fetch {
    widget.parts.with(|parts| parts.0[part as usize])
}

pub fn any_failed(widget: Widget) -> bool {
    Part::ALL.iter().any(|part| failed(widget, *part))
}

/// A piece, or until it is here what `meanwhile` shows. The engine, the model and the first token come before what the first run
/// does not need.
pub fn piece(widget: Widget, piece: Piece, meanwhile: fn() -> AnyView) -> AnyView {
    let part = piece.part();
    let due = move || {
        let (status, recorded) = widget.player.with(|player| (player.status, player.recorded));
        let first_token_due = recorded == 0 && matches!(status, Status::Idle | Status::Loading | Status::Running);
        part != Part::Later || !first_token_due
    };
    effect(move || {
        if due() {
            want(widget, part);
        }
    });
    // Only this part matters, and once it is here its pieces stay as they are.
    let here = Memo::new(move |()| is_here(widget, part));
    view! {
        {move || {
            here.get();
            match widget.parts.with_untracked(|parts| parts.0[part as usize]) {
                Fetch::Here(code) => (code.show)(widget, piece),
                _ => meanwhile(),
            }
        }}
    }
    .into_any()
}

/// A panel that keeps its place until it is here.
pub fn panel(widget: Widget, name: Piece) -> AnyView {
    piece(widget, name, || {
        view! { <section class="panel coming" aria-busy="true"><p class="hint">"Loading …"</p></section> }.into_any()
    })
}

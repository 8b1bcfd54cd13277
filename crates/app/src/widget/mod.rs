//! The *widget* is one element on a page: its signals, and the one place where events enter the player and where the
//! player's actions leave for an engine. Views read the signals and call the methods; they never talk to an engine.

mod branches;
mod clock;
mod contrast;
mod engines;
mod groups;
mod models;
mod promises;
mod quiz;
mod reader;
mod scores;
mod serving;
mod speculation;

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use inferscope_stage::{
    Action, Branches, Event, Moment, Pace, Player, Request, Selection, Status,
    facts::Part,
    most_open_step,
    scenes::{Arrive, Panel, Scene, Source},
};
use inferscope_trace::{
    BackendKind, CacheLayout, Fault, ModelId, Request as ServingRequest, ServingSettings, ServingTrace, SessionId,
    Settings, SpeculationTrace, TokenId, Trace,
};
use leptos::prelude::*;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

use self::models::Import;
pub use self::{
    contrast::{Continuation, Contrast},
    groups::{GroupRun, Progress, siblings},
    models::OwnModel,
    quiz::Quiz,
    scores::{HELD_OUT, Scores},
    serving::Serving,
    speculation::DRAFT,
};
use crate::{
    api,
    dom::{self, Settle},
    hub::{Hub, Loaded},
    models::MODELS,
    parts::Parts,
    signal::RwSignal,
};

/// Milliseconds from one picture to the next at maximum pace.
const RUSH_PAINT_MS: i32 = 80;

/// Which engine serves and why, as the reader is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineLine {
    pub kind: Option<BackendKind>,
    pub reason: String,
}

/// Everything the views read. Each signal has one writer: this module.
#[derive(Clone, Copy)]
pub struct Widget {
    pub scene: &'static Scene,
    pub player: RwSignal<Player>,
    pub trace: RwSignal<Option<Trace>>,
    /// The last runs that came to their end: without the cache, and with it.
    pub kept: RwSignal<[Option<Trace>; 2]>,
    pub prompt: RwSignal<String>,
    /// The prompt's tokens, once an engine has split it.
    pub prompt_tokens: RwSignal<Option<Vec<TokenId>>>,
    pub settings: RwSignal<Settings>,
    pub selection: RwSignal<Selection>,
    pub request: RwSignal<Request>,
    pub quiz: Quiz,
    /// Runs that came from the one on screen or that it came from.
    pub branches: RwSignal<Branches>,
    /// What a probe of this device found: the part, and the engine it ran on.
    pub device: RwSignal<Option<(Part, BackendKind)>>,
    pub probing: RwSignal<bool>,
    /// One prefix written on with every preset.
    pub contrast: RwSignal<Option<Contrast>>,
    /// The run of a scene with a draft model, and how many tokens the draft proposes in a round.
    pub speculation: RwSignal<Option<SpeculationTrace>>,
    pub gamma: RwSignal<usize>,
    /// Milliseconds of the target's pass over one position, measured when a run with a draft has ended.
    pub target_pass: RwSignal<Option<f64>>,
    /// Of a scene that serves many requests.
    pub serving: Serving,
    /// The same prompt on the models that differ in their KV heads.
    pub groups: RwSignal<Vec<GroupRun>>,
    /// What layouts of the cache cost, once measured.
    pub scores: RwSignal<Scores>,
    /// Multiple of the normal speed.
    pub speed: RwSignal<f32>,
    /// The model that the next run is made with.
    pub model: RwSignal<ModelId>,
    /// The reader's own, once one was read.
    pub own: RwSignal<Option<OwnModel>>,
    /// The title of the model that is being read from the reader's files.
    pub importing: RwSignal<Option<String>>,
    /// Files are being dragged over the widget.
    pub dragging: RwSignal<bool>,
    /// The chosen model, or, until that is loaded, the one before.
    pub loaded: RwSignal<Option<Loaded>>,
    pub engine: RwSignal<EngineLine>,
    /// How far the files with the code of its other views are.
    pub parts: RwSignal<Parts>,
    pub problem: RwSignal<Option<Fault>>,
    /// Settings that could not be used as given.
    pub notice: RwSignal<Option<String>>,
    inner: StoredValue<Rc<Inner>, LocalStorage>,
}

struct Inner {
    host: web_sys::HtmlElement,
    /// Puts a style sheet beside the widget, and promises it.
    load_style: js_sys::Function,
    hub: Rc<Hub>,
    watch: Cell<u32>,
    /// The session on screen, and the engine it runs on.
    session: Cell<SessionId>,
    session_on: Cell<Option<BackendKind>>,
    /// An engine is wanted from now on.
    wanted: Cell<bool>,
    /// A session is to be opened as soon as an engine can.
    open_pending: Cell<bool>,
    tokenize_request: Cell<u32>,
    /// A probe that is under way, and the engine that was asked.
    probe_request: Cell<Option<(u32, BackendKind)>>,
    /// Rounds or steps that are made again before new ones count, after a move to another engine.
    replay: Cell<usize>,
    /// The queue that was last given to the engine.
    asked: RefCell<(Vec<ServingRequest>, ServingSettings)>,
    /// The engine that runs the groups, and whether their models are held.
    groups_on: Cell<Option<BackendKind>>,
    groups_retained: Cell<bool>,
    /// The session in which the queue is served the other way, and its record until it ends.
    twin: Cell<SessionId>,
    twin_steps: RefCell<Option<ServingTrace>>,
    /// Times of the target's steps without a draft, until all are there.
    alone: RefCell<Vec<f64>>,
    /// The pace at which the run is to be made again with the cache, when this one has ended.
    then_cached: Cell<Option<Pace>>,
    /// What the branches that are not on screen have of their own, by their index.
    branches: RefCell<Vec<branches::Kept>>,
    /// The scene was brought to where it stops once for the run on screen.
    arrived: Cell<bool>,
    /// Steps of a session that have come and are still to be taken in.
    arriving: Cell<(SessionId, usize)>,
    /// Looks back that the engine has yet to answer.
    looks: Cell<usize>,
    ticking: Cell<bool>,
    last_frame: Cell<f64>,
    /// Time saved up towards the next step, where motion is unwelcome.
    saved: Cell<f32>,
    paint_pending: Cell<bool>,
    /// The trace's steps as the step events carried them.
    step_objects: RefCell<js_sys::Array>,
    on_loaded: RefCell<Vec<Settle>>,
    on_done: RefCell<Option<Settle>>,
    import: RefCell<Option<Import>>,
    /// The chosen model is not loaded yet; what `loaded` says is of the one before.
    shape_due: Cell<bool>,
}

impl Widget {
    pub fn new(host: web_sys::HtmlElement, base: &str, load_style: js_sys::Function, scene: &'static Scene) -> Self {
        let inner = Inner {
            host,
            load_style,
            hub: Hub::of_page(base),
            watch: Cell::new(0),
            session: Cell::new(0),
            session_on: Cell::new(None),
            wanted: Cell::new(false),
            open_pending: Cell::new(false),
            tokenize_request: Cell::new(0),
            probe_request: Cell::new(None),
            replay: Cell::new(0),
            asked: RefCell::new((Vec::new(), Serving::new(scene.panels).settings.get_untracked())),
            groups_on: Cell::new(None),
            groups_retained: Cell::new(false),
            twin: Cell::new(0),
            twin_steps: RefCell::default(),
            alone: RefCell::default(),
            then_cached: Cell::new(None),
            branches: RefCell::default(),
            arrived: Cell::new(false),
            arriving: Cell::default(),
            looks: Cell::new(0),
            ticking: Cell::new(false),
            last_frame: Cell::new(0.0),
            saved: Cell::new(0.0),
            paint_pending: Cell::new(false),
            step_objects: RefCell::default(),
            on_loaded: RefCell::default(),
            on_done: RefCell::default(),
            import: RefCell::default(),
            shape_due: Cell::new(true),
        };
        inner.hub.retain(MODELS[0].id);
        if scene.source == Source::Pair {
            inner.hub.retain(DRAFT);
        }
        // A scene about what the cache keeps begins with one that does not keep everything.
        let windowed = scene.panels.contains(&Panel::Layout);
        let layout = if windowed { CacheLayout::Window { sinks: 4, window: 12 } } else { CacheLayout::default() };
        let settings = Settings { sampling: inferscope_sampler::default_sampling(), layout, ..Settings::default() };
        let widget = Self {
            scene,
            player: RwSignal::new(Player::default().on(Event::SetPace(scene.pace)).0),
            trace: RwSignal::new(None),
            kept: RwSignal::new([None, None]),
            prompt: RwSignal::new(String::new()),
            prompt_tokens: RwSignal::new(None),
            settings: RwSignal::new(settings),
            selection: RwSignal::new(Selection::default()),
            request: RwSignal::new(Request::Auto),
            quiz: Quiz::new(),
            branches: RwSignal::new(Branches::default()),
            device: RwSignal::new(None),
            probing: RwSignal::new(false),
            contrast: RwSignal::new(None),
            speculation: RwSignal::new(None),
            gamma: RwSignal::new(4),
            target_pass: RwSignal::new(None),
            serving: Serving::new(scene.panels),
            groups: RwSignal::new(Vec::new()),
            scores: RwSignal::new(Scores::default()),
            speed: RwSignal::new(1.0),
            model: RwSignal::new(MODELS[0].id.into()),
            own: RwSignal::new(None),
            importing: RwSignal::new(None),
            dragging: RwSignal::new(false),
            loaded: RwSignal::new(None),
            engine: RwSignal::new(EngineLine::default()),
            parts: RwSignal::new(Parts::default()),
            problem: RwSignal::new(None),
            notice: RwSignal::new(None),
            inner: StoredValue::new_local(Rc::new(inner)),
        };
        let inner = widget.inner();
        inner.watch.set(inner.hub.watch(move |event| widget.on_hub(event)));
        widget.reconsider();
        widget
    }

    fn inner(self) -> Rc<Inner> {
        self.inner.get_value()
    }

    /// Leaves the page: closes the session and hears no more of the hub.
    pub fn leave(self) {
        let inner = self.inner();
        inner.hub.unwatch(inner.watch.get());
        self.close_session();
        self.forget_branches();
        self.abort("The widget was removed.");
        self.leave_groups();
        if self.scene.source == Source::Pair {
            inner.hub.release(DRAFT);
        }
        self.release_models();
    }

    /// A list of the trace's steps as JavaScript objects.
    pub fn step_objects(self) -> js_sys::Array {
        self.inner().step_objects.borrow().slice(0, u32::MAX)
    }

    /// Where a file of ours lies, whatever page the widget is on.
    pub fn address(self, file: &str) -> String {
        self.inner().hub.address(file)
    }

    /// A promise of a style sheet of ours, which is then in force.
    pub fn load_style(self, file: &str) -> js_sys::Promise {
        let promise = self.inner().load_style.call1(&JsValue::UNDEFINED, &file.into());
        js_sys::Promise::resolve(&promise.unwrap_or_default())
    }

    pub fn status(self) -> Status {
        self.player.with_untracked(|player| player.status)
    }

    // Events in, actions out.

    pub fn dispatch(self, event: Event) {
        let before = self.status();
        let (player, action) = self.player.get_untracked().on(event);
        self.player.update_untracked(|current| *current = player);
        self.paint();
        match action {
            Action::None => {}
            Action::Load => {
                self.problem.set(None);
                self.inner().wanted.set(true);
                self.forgive();
                self.inner().hub.look_for_webgpu();
                self.reconsider();
            }
            Action::Open => {
                self.problem.set(None);
                if player.recorded == 0 {
                    self.forget_serving();
                }
                self.close_session();
                if player.recorded == 0 {
                    self.quiz.withdraw();
                    self.forget_branches();
                    self.inner().arrived.set(false);
                    if before == Status::Error {
                        self.forgive();
                    }
                    self.keep_for_comparison();
                    self.trace.set(None);
                    self.speculation.set(None);
                    self.serving.trace.set(None);
                    self.selection.update(|selection| selection.focus = None);
                }
                self.inner().open_pending.set(true);
                self.reconsider();
            }
            Action::RequestStep => self.request_step(),
            Action::Clear => {
                self.keep_for_comparison();
                self.clear();
                self.abort("The run was reset.");
            }
        }
        let after = self.status();
        if before != after {
            api::fire_state_change(&self.inner().host, after);
            if before == Status::Loading {
                self.settle_loaded(after);
            }
            if after == Status::Done {
                self.settle_done();
                self.arrive();
                self.go_on_with_the_cache();
            }
        }
        self.keep_ticking();
        self.look_back();
    }

    /// Goes to where the scene stops after a run.
    fn arrive(self) {
        if self.scene.arrive == Arrive::MostOpenStep && !self.inner().arrived.replace(true) {
            let open = self.trace.with_untracked(|trace| trace.as_ref().and_then(most_open_step));
            self.dispatch(Event::Seek(open.map(|(step, _)| step)));
        }
    }

    /// Puts the run on screen away.
    fn clear(self) {
        self.forget_serving();
        self.speculation.set(None);
        self.close_session();
        self.forget_branches();
        self.inner().open_pending.set(false);
        self.trace.set(None);
        self.problem.set(None);
        self.selection.update(|selection| (selection.cell, selection.focus) = (None, None));
    }

    /// Tells the views of a change. At maximum pace they hear of it now and then, however many steps went by: painting
    /// takes longer than a step, and a page that painted at every frame would have time for nothing else.
    fn paint(self) {
        let rushing = self.player.with_untracked(|player| player.pace == Pace::Max && player.status == Status::Running);
        if !rushing {
            self.player.notify();
        } else if !self.inner().paint_pending.replace(true) {
            spawn_local(async move {
                dom::pause(RUSH_PAINT_MS).await;
                dom::before_paint(move |_| self.paint_now());
            });
        }
    }

    /// Tells the views before the browser paints next, once however often this is called until then.
    fn paint_soon(self) {
        if !self.inner().paint_pending.replace(true) {
            dom::before_paint(move |_| self.paint_now());
        }
    }

    fn paint_now(self) {
        // The widget may have left the page meanwhile.
        let Some(inner) = self.inner.try_get_value() else { return };
        inner.paint_pending.set(false);
        match self.scene.source {
            Source::Session => self.trace.notify(),
            Source::Pair => self.speculation.notify(),
            Source::Server => self.serving.trace.notify(),
        }
        self.player.notify();
    }

    pub fn moment(self) -> Moment {
        self.player.with(|player| player.moment)
    }
}

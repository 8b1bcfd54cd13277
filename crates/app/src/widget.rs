//! The *widget* is one element on a page: its signals, and the one place where events enter the player and where the
//! player's actions leave for an engine. Views read the signals and call the methods; they never talk to an engine.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use inferscope_stage::{
    Action, Choice, Detail, Event, Moment, Pace, Player, Request, Selection, Status, StepJson, choose, duration_ms,
    scenes::Scene,
};
use inferscope_trace::{
    BackendInfo, BackendKind, Command, Fault, FaultKind, Observe, Prompt, Reply, SessionId, Settings, TokenId, Trace,
};
use leptos::prelude::*;

use crate::{
    api,
    dom::{self, Settle},
    hub::{Hub, HubEvent, Loaded},
};

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
    /// The last run that used the cache the other way.
    pub other: RwSignal<Option<Trace>>,
    pub prompt: RwSignal<String>,
    /// The prompt's tokens, once an engine has split it.
    pub prompt_tokens: RwSignal<Option<Vec<TokenId>>>,
    pub settings: RwSignal<Settings>,
    pub selection: RwSignal<Selection>,
    pub request: RwSignal<Request>,
    /// Multiple of the normal speed.
    pub speed: RwSignal<f32>,
    pub loaded: RwSignal<Option<Loaded>>,
    pub engine: RwSignal<EngineLine>,
    pub problem: RwSignal<Option<Fault>>,
    /// Settings that could not be used as given.
    pub notice: RwSignal<Option<String>>,
    inner: StoredValue<Rc<Inner>, LocalStorage>,
}

struct Inner {
    host: web_sys::HtmlElement,
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
    /// A look back is under way.
    looking: Cell<bool>,
    ticking: Cell<bool>,
    last_frame: Cell<f64>,
    /// Time saved up towards the next step, where motion is unwelcome.
    saved: Cell<f32>,
    paint_pending: Cell<bool>,
    on_loaded: RefCell<Vec<Settle>>,
    on_done: RefCell<Option<Settle>>,
}

impl Widget {
    pub fn new(host: web_sys::HtmlElement, base: &str, scene: &'static Scene) -> Self {
        let inner = Inner {
            host,
            hub: Hub::of_page(base),
            watch: Cell::new(0),
            session: Cell::new(0),
            session_on: Cell::new(None),
            wanted: Cell::new(false),
            open_pending: Cell::new(false),
            tokenize_request: Cell::new(0),
            looking: Cell::new(false),
            ticking: Cell::new(false),
            last_frame: Cell::new(0.0),
            saved: Cell::new(0.0),
            paint_pending: Cell::new(false),
            on_loaded: RefCell::default(),
            on_done: RefCell::default(),
        };
        let settings = Settings { sampling: inferscope_sampler::default_sampling(), ..Settings::default() };
        let widget = Self {
            scene,
            player: RwSignal::new(Player::default()),
            trace: RwSignal::new(None),
            other: RwSignal::new(None),
            prompt: RwSignal::new(String::new()),
            prompt_tokens: RwSignal::new(None),
            settings: RwSignal::new(settings),
            selection: RwSignal::new(Selection::default()),
            request: RwSignal::new(Request::Auto),
            speed: RwSignal::new(1.0),
            loaded: RwSignal::new(None),
            engine: RwSignal::new(EngineLine::default()),
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
        self.abort("The widget was removed.");
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
                self.inner().hub.forgive();
                self.inner().hub.look_for_webgpu();
                self.reconsider();
            }
            Action::Open => {
                self.problem.set(None);
                self.close_session();
                if player.recorded == 0 {
                    self.inner().hub.forgive();
                    self.keep_for_comparison();
                    self.trace.set(None);
                }
                self.inner().open_pending.set(true);
                self.reconsider();
            }
            Action::RequestStep => self.request_step(),
            Action::Clear => {
                self.close_session();
                self.inner().open_pending.set(false);
                self.keep_for_comparison();
                self.trace.set(None);
                self.problem.set(None);
                self.selection.update(|selection| selection.cell = None);
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
            }
        }
        self.keep_ticking();
        self.look_back();
    }

    /// Tells the views of a change. At maximum pace they hear of it once a frame, however many steps went by.
    fn paint(self) {
        let inner = self.inner();
        let rushing = self.player.with_untracked(|player| player.pace == Pace::Max && player.status == Status::Running);
        if !rushing {
            self.player.notify();
        } else if !inner.paint_pending.replace(true) {
            dom::before_paint(move |_| {
                self.inner().paint_pending.set(false);
                self.trace.notify();
                self.player.notify();
            });
        }
    }

    // Time.

    fn keep_ticking(self) {
        let inner = self.inner();
        if self.player.with_untracked(Player::is_moving) {
            if !inner.ticking.replace(true) {
                inner.last_frame.set(dom::now());
                dom::before_paint(move |now| self.on_frame(now));
            }
        } else {
            inner.saved.set(0.0);
        }
    }

    fn on_frame(self, now: f64) {
        let inner = self.inner();
        inner.ticking.set(false);
        let player = self.player.get_untracked();
        if !player.is_moving() {
            return;
        }
        // A page in the background gets no frames; what passed meanwhile does not count.
        let elapsed = (now - inner.last_frame.get()).clamp(0.0, 100.0) as f32;
        let step = self.trace.with_untracked(|trace| {
            trace.as_ref().and_then(|trace| trace.steps.get(player.moment.step)).map(|step| duration_ms(step))
        });
        let share = elapsed * self.speed.get_untracked() / step.unwrap_or(1000.0);
        if dom::prefers_reduced_motion() {
            let saved = inner.saved.get() + share;
            inner.saved.set(if saved >= 1.0 { 0.0 } else { saved });
            if saved < 1.0 {
                return self.keep_ticking_from(now);
            }
            self.dispatch(Event::Tick(1.0));
        } else {
            self.dispatch(Event::Tick(share));
        }
        inner.last_frame.set(now);
    }

    fn keep_ticking_from(self, now: f64) {
        self.keep_ticking();
        self.inner().last_frame.set(now);
    }

    // Engines.

    /// Looks at what the engines can do now: starts those that should be, loads, opens what waits to be opened.
    pub fn reconsider(self) {
        let inner = self.inner();
        let hub = &inner.hub;
        let request = self.request.get_untracked();
        let choice = choose(request, &hub.probe(), &hub.status(BackendKind::Cpu), &hub.status(BackendKind::Webgpu));
        let line = EngineLine { kind: choice.kind, reason: choice.reason.clone() };
        if self.engine.with_untracked(|old| *old != line) {
            self.engine.set(line);
        }
        let loaded = hub.loaded();
        if self.loaded.with_untracked(|old| *old != loaded) {
            self.loaded.set(loaded);
        }
        if !inner.wanted.get() {
            return;
        }
        if self.prompt_tokens.with_untracked(Option::is_none) {
            self.tokenize();
        }
        if !choice.start.is_empty() {
            // Starting changes a status, and the hub tells of that: this runs again.
            for kind in choice.start {
                hub.start(kind);
            }
            return;
        }
        if choice.failed {
            let waits = self.status() == Status::Loading || inner.open_pending.get();
            if waits {
                inner.open_pending.set(false);
                self.fail(Fault { kind: FaultKind::Network, message: choice.reason });
            }
        } else if choice.kind.is_some() {
            if self.status() == Status::Loading {
                self.dispatch(Event::Loaded);
            }
            if inner.open_pending.replace(false) {
                self.open(choice);
            }
        }
    }

    fn open(self, choice: Choice) {
        let Some(kind) = choice.kind else { return };
        let inner = self.inner();
        let session = inner.hub.fresh_id();
        inner.session.set(session);
        inner.session_on.set(Some(kind));
        // A run that moves to another engine goes on from the tokens it has.
        let resumed = self.trace.with_untracked(|trace| {
            trace.as_ref().map(|trace| (trace.prompt.text.clone(), trace.settings.clone(), trace.generated(usize::MAX)))
        });
        let (prompt, settings, generated) =
            resumed.unwrap_or_else(|| (self.prompt.get_untracked(), self.settings.get_untracked(), Vec::new()));
        if !generated.is_empty() {
            let backend = self.backend(kind, choice.reason);
            self.trace.update(|trace| {
                if let Some(trace) = trace {
                    trace.backend = backend;
                }
            });
        }
        inner.hub.send(kind, &Command::Open { session, prompt, generated, settings });
    }

    fn backend(self, kind: BackendKind, reason: String) -> BackendInfo {
        BackendInfo { kind, reason, adapter: self.inner().hub.adapter(kind) }
    }

    fn request_step(self) {
        let inner = self.inner();
        let Some(kind) = inner.session_on.get() else { return };
        // At maximum pace nobody can look; what is looked at afterwards is read then.
        let watched = self.player.with_untracked(|player| player.pace == Pace::Timed);
        let observe = Observe { attention: watched, kv: watched };
        let sampling = self.settings.with_untracked(|settings| settings.sampling.clone());
        inner.hub.send(kind, &Command::Step { session: inner.session.get(), sampling, observe });
    }

    fn close_session(self) {
        let inner = self.inner();
        let session = inner.session.replace(0);
        if let Some(kind) = inner.session_on.take() {
            inner.hub.send(kind, &Command::Close { session });
        }
        inner.looking.set(false);
    }

    fn on_hub(self, event: &HubEvent) {
        let inner = self.inner();
        match event {
            HubEvent::Changed => self.reconsider(),
            HubEvent::Lost(kind) => {
                if inner.session_on.get() == Some(*kind) {
                    inner.session_on.set(None);
                    inner.session.set(0);
                    inner.looking.set(false);
                    self.dispatch(Event::Moved);
                }
            }
            HubEvent::Reply(reply) => self.on_reply(reply),
        }
    }

    fn on_reply(self, reply: &Reply) {
        let inner = self.inner();
        let mine = |session: &SessionId| *session != 0 && *session == inner.session.get();
        match reply {
            Reply::Tokenized { request, tokens } if *request == inner.tokenize_request.get() => {
                self.prompt_tokens.set(Some(tokens.clone()));
            }
            Reply::Opened { session, prompt } if mine(session) => {
                if self.trace.with_untracked(Option::is_none) {
                    self.begin_trace(prompt.clone());
                }
                self.dispatch(Event::Opened);
            }
            Reply::Stepped { session, step, finish } if mine(session) => {
                self.trace.update_untracked(|trace| {
                    if let Some(trace) = trace {
                        trace.steps.push(Arc::new(step.clone()));
                        trace.finish = *finish;
                    }
                });
                if self.player.with_untracked(|player| player.pace == Pace::Timed) || finish.is_some() {
                    self.trace.notify();
                }
                if let Some(loaded) = inner.hub.loaded() {
                    api::fire_step(&inner.host, &StepJson::new(&loaded.vocabulary, step, Detail::default()));
                }
                self.dispatch(Event::Stepped { finished: finish.is_some() });
            }
            Reply::Inspected { session, step, attention, kv } if mine(session) => {
                inner.looking.set(false);
                self.trace.update(|trace| {
                    if let Some(trace) = trace {
                        inferscope_stage::merge(trace, *step, attention.clone(), kv.clone());
                    }
                });
                self.look_back();
            }
            Reply::Failed { session: Some(session), fault } if mine(session) => {
                inner.looking.set(false);
                self.fail(fault.clone());
            }
            _ => {}
        }
    }

    fn begin_trace(self, tokens: Vec<TokenId>) {
        let inner = self.inner();
        let (Some(kind), Some(loaded)) = (inner.session_on.get(), inner.hub.loaded()) else { return };
        let reason = self.engine.with_untracked(|engine| engine.reason.clone());
        self.trace.set(Some(Trace {
            model: loaded.model,
            vocabulary: loaded.vocabulary,
            backend: self.backend(kind, reason),
            settings: self.settings.get_untracked(),
            prompt: Prompt { text: self.prompt.get_untracked(), tokens },
            steps: Vec::new(),
            finish: None,
        }));
    }

    fn keep_for_comparison(self) {
        let last = self.trace.with_untracked(|trace| trace.clone().filter(|trace| trace.finish.is_some()));
        if last.is_some() {
            self.other.set(last);
        }
    }

    /// Reads what the picture on screen lacks, piece by piece, while nothing else is asked of the engine.
    fn look_back(self) {
        let inner = self.inner();
        let player = self.player.get_untracked();
        let rushing = player.status == Status::Running && player.pace == Pace::Max;
        if rushing || player.moment.steps_shown() == 0 || inner.looking.get() {
            return;
        }
        let lacking = self.trace.with_untracked(|trace| {
            trace.as_ref().and_then(|trace| inferscope_stage::missing(trace, player.moment.step))
        });
        if let (Some((step, observe)), Some(kind)) = (lacking, inner.session_on.get()) {
            inner.looking.set(true);
            inner.hub.send(kind, &Command::Inspect { session: inner.session.get(), step, observe });
        }
    }

    pub fn fail(self, fault: Fault) {
        self.problem.set(Some(fault.clone()));
        self.dispatch(Event::Failed);
        let inner = self.inner();
        api::fire_error(&inner.host, &fault);
        let error = api::error_of(&fault);
        for settle in inner.on_loaded.take() {
            settle.reject(&error);
        }
        if let Some(settle) = inner.on_done.take() {
            settle.reject(&error);
        }
    }

    // Promises of the API.

    /// A promise that is kept when an engine is ready.
    pub fn loaded_promise(self) -> js_sys::Promise {
        let (promise, settle) = dom::deferred();
        self.inner().on_loaded.borrow_mut().push(settle);
        promise
    }

    /// A promise that is kept with the trace when the run ends.
    pub fn done_promise(self) -> js_sys::Promise {
        let (promise, settle) = dom::deferred();
        self.inner().on_done.replace(Some(settle));
        promise
    }

    fn settle_loaded(self, after: Status) {
        if after != Status::Error {
            for settle in self.inner().on_loaded.take() {
                settle.resolve(&wasm_bindgen::JsValue::UNDEFINED);
            }
        }
    }

    fn settle_done(self) {
        let inner = self.inner();
        let trace = api::trace_of(self, Detail::default());
        api::fire_done(&inner.host, &trace);
        if let Some(settle) = inner.on_done.take() {
            settle.resolve(&trace);
        }
    }

    pub fn abort(self, why: &str) {
        if let Some(settle) = self.inner().on_done.take() {
            settle.reject(&api::abort_error(why));
        }
    }

    // What the reader does.

    pub fn set_prompt(self, text: String) {
        if self.prompt.with_untracked(|old| *old == text) {
            return;
        }
        self.prompt.set(text);
        self.tokenize();
    }

    fn tokenize(self) {
        let inner = self.inner();
        let Some(kind) = inner.hub.any_ready() else {
            self.prompt_tokens.set(None);
            return;
        };
        let request = inner.hub.fresh_id();
        inner.tokenize_request.set(request);
        inner.hub.send(kind, &Command::Tokenize { request, text: self.prompt.get_untracked() });
    }

    /// The rule's value, or the nearest one in its range.
    pub fn set_rule(self, id: &str, value: f64) {
        let vocab_size =
            self.loaded.with_untracked(|loaded| loaded.as_ref().map_or(usize::MAX, |it| it.model.vocab_size));
        if let Some(rule) = inferscope_sampler::rule(id) {
            let value = rule.clamp(value, vocab_size);
            self.settings.update(|settings| {
                settings.sampling.0.insert(id.to_string(), value);
            });
        }
    }

    /// Tells the reader about a setting that was not taken.
    pub fn note(self, sentence: String) {
        self.notice.set(Some(sentence));
    }

    pub fn set_request(self, request: Request) {
        self.request.set(request);
        self.reconsider();
    }

    /// One button: run, pause, go on, run again.
    pub fn press_main(self) {
        match self.status() {
            Status::Running => self.dispatch(Event::Pause),
            Status::Paused => self.dispatch(Event::Play),
            _ => {
                self.abort("Another run began.");
                self.dispatch(Event::Run(self.player.with_untracked(|player| player.pace)));
            }
        }
    }

    pub fn moment(self) -> Moment {
        self.player.with(|player| player.moment)
    }
}

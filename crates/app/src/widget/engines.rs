//! The widget's dealings with engines: which one serves, what it is asked, and what its replies do to the trace.

use std::sync::Arc;

use inferscope_stage::{
    Choice, EngineStatus, Event, Pace, Status, choose,
    facts::this_device,
    scenes::{Panel, Source},
};
use inferscope_trace::{
    BackendInfo, BackendKind, CacheLayout, Command, Fault, FaultKind, Finish, Observe, Prompt, Reply, Rows, Sampling,
    SessionId, Step, Subject, TokenId, Trace,
};

use leptos::prelude::GetValue;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::{JsFuture, spawn_local};

use super::{DRAFT, EngineLine, Widget};
use crate::{api, hub::HubEvent, parts};

impl Widget {
    /// Looks at what the engines can do now: starts those that should be, loads, opens what waits to be opened.
    pub fn reconsider(self) {
        self.see_to_import();
        self.go_on_with_groups();
        let inner = self.inner();
        let hub = &inner.hub;
        let model = self.model.get_untracked();
        let choice = self.choice_for(&model);
        let line = EngineLine { kind: choice.kind, reason: choice.reason.clone() };
        if self.engine.with_untracked(|old| *old != line) {
            self.engine.set(line);
        }
        if inner.shape_due.get()
            && let Some(loaded) = hub.loaded(&model)
        {
            self.take_shape(loaded);
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
                hub.start(kind, &model);
            }
            return;
        }
        if choice.failed {
            let waits = self.status() == Status::Loading || inner.open_pending.get();
            if waits {
                inner.open_pending.set(false);
                self.fail(self.why_failed(&model, choice));
            }
        } else if let Some(kind) = choice.kind {
            if !self.companion_is_ready(kind) || !parts::can_run(self) {
                return;
            }
            if self.status() == Status::Loading {
                self.dispatch(Event::Loaded);
            }
            if inner.open_pending.replace(false) {
                self.open(choice);
            }
        }
    }

    /// A scene with a draft model needs both: has the engine load the draft too, and says whether it has.
    fn companion_is_ready(self, kind: BackendKind) -> bool {
        if self.scene.source != Source::Pair {
            return true;
        }
        let hub = &self.inner().hub;
        match hub.status(kind, DRAFT) {
            EngineStatus::Ready { .. } => true,
            EngineStatus::Off => {
                hub.start(kind, DRAFT);
                false
            }
            EngineStatus::Starting => false,
            EngineStatus::Failed(message) => {
                let waits = self.status() == Status::Loading || self.inner().open_pending.replace(false);
                if waits {
                    let fault = hub.fault(kind, DRAFT);
                    self.fail(fault.unwrap_or(Fault { kind: FaultKind::Internal, message }));
                }
                false
            }
        }
    }

    /// The engine for a model, as things stand.
    pub(super) fn choice_for(self, model: &str) -> Choice {
        let hub = &self.inner().hub;
        let status = |kind| hub.status(kind, model);
        choose(self.request.get_untracked(), &hub.probe(), &status(BackendKind::Cpu), &status(BackendKind::Webgpu))
    }

    /// What to tell of a choice that failed. The CPU engine is the last that any choice tries.
    pub(super) fn why_failed(self, model: &str, choice: Choice) -> Fault {
        let fault = self.inner().hub.fault(BackendKind::Cpu, model);
        fault.unwrap_or(Fault { kind: FaultKind::Internal, message: choice.reason })
    }

    pub(super) fn open(self, choice: Choice) {
        let Some(kind) = choice.kind else { return };
        match self.scene.source {
            Source::Session => {}
            Source::Pair => return self.open_pair(kind),
            Source::Server => return self.open_server(kind),
        }
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
        let model = self.model.get_untracked();
        // A session is opened when its first step is wanted, and one message less is a frame less until the first token.
        let first = Some((self.sampling(), self.observe()));
        inner.hub.send(kind, &Command::Open { session, model, prompt, generated, settings, first });
    }

    pub(super) fn backend(self, kind: BackendKind, reason: String) -> BackendInfo {
        BackendInfo { kind, reason, adapter: self.inner().hub.adapter(kind) }
    }

    pub(super) fn request_step(self) {
        let inner = self.inner();
        let Some(kind) = inner.session_on.get() else { return };
        let session = inner.session.get();
        let (of, arriving) = inner.arriving.get();
        if of == session && arriving > 0 {
            return;
        }
        match self.scene.source {
            Source::Session => {}
            Source::Pair => {
                let sampling = self.sampling();
                let gamma = self.gamma.get_untracked();
                return inner.hub.send(kind, &Command::Round { session, sampling, gamma });
            }
            Source::Server => return inner.hub.send(kind, &Command::ServeStep { session }),
        }
        let (sampling, observe) = (self.sampling(), self.observe());
        let rushing = self.player.with_untracked(|player| player.pace == Pace::Max && player.is_playing());
        let command = match rushing {
            true => Command::Rush { session, sampling, observe },
            false => Command::Step { session, sampling, observe },
        };
        inner.hub.send(kind, &command);
    }

    fn sampling(self) -> Sampling {
        self.settings.with_untracked(|settings| settings.sampling.clone())
    }

    /// What is looked at in a step. At maximum pace nobody can look; what is looked at afterwards is read then.
    fn observe(self) -> Observe {
        let timed = self.player.with_untracked(|player| player.pace == Pace::Timed);
        // A windowed cache drops what one might want to look at afterwards.
        let drops = self.settings.with_untracked(|settings| matches!(settings.layout, CacheLayout::Window { .. }));
        let watched = timed || (drops && self.scene.panels.contains(&Panel::Cache));
        Observe { attention: if watched { Rows::Last } else { Rows::None }, kv: watched }
    }

    pub(super) fn close_session(self) {
        let inner = self.inner();
        let session = inner.session.replace(0);
        if let Some(kind) = inner.session_on.take() {
            inner.hub.send(kind, &Command::Close { session });
        }
        inner.looks.set(0);
    }

    pub(super) fn on_hub(self, event: &HubEvent) {
        let inner = self.inner();
        match event {
            HubEvent::Changed => self.reconsider(),
            HubEvent::Lost(kind) => {
                self.lose_branch_sessions(*kind);
                self.lose_groups(*kind);
                if inner.probe_request.get().is_some_and(|(_, asked)| asked == *kind) {
                    inner.probe_request.set(None);
                    self.probing.set(false);
                    self.serving.measuring.set(false);
                }
                if inner.session_on.get() == Some(*kind) {
                    inner.session_on.set(None);
                    inner.session.set(0);
                    inner.looks.set(0);
                    self.dispatch(Event::Moved);
                }
            }
            HubEvent::Reply(reply) => self.on_reply(reply),
        }
    }

    /// Steps that came together are taken in one by one, each in a microtask of its own: what a page's script does about one
    /// of them it does before the next, as if each had come by itself.
    fn on_rushed(self, session: SessionId, steps: Vec<Step>, finish: Option<Finish>) {
        spawn_local(async move {
            for (step, after) in steps.iter().zip((0..steps.len()).rev()) {
                // The widget may have left the page meanwhile.
                let Some(inner) = self.inner.try_get_value() else { return };
                inner.arriving.set((session, after));
                self.on_stepped(session, step, finish.filter(|_| after == 0));
                let _ = JsFuture::from(js_sys::Promise::resolve(&JsValue::UNDEFINED)).await;
            }
        });
    }

    /// The engine ran a step of the session on screen, or of one that left it.
    fn on_stepped(self, session: SessionId, step: &Step, finish: Option<Finish>) {
        let inner = self.inner();
        let mine = || session != 0 && session == inner.session.get();
        if !mine() {
            if let Some(index) = self.left_branch(session) {
                self.on_left_stepped(index, step, finish);
            }
            return;
        }
        self.trace.update_untracked(|trace| {
            if let Some(trace) = trace {
                trace.steps.push(Arc::new(step.clone()));
                trace.finish = finish;
            }
        });
        if self.player.with_untracked(|player| player.pace == Pace::Timed) || finish.is_some() {
            self.trace.notify();
        }
        let vocabulary = self.trace.with_untracked(|trace| trace.as_ref().map(|trace| trace.vocabulary.clone()));
        if let Some(vocabulary) = vocabulary {
            let object = api::step_object(&vocabulary, step);
            inner.step_objects.borrow().push(&object);
            api::fire_step(&inner.host, &object);
        }
        // Whoever heard of the step may have put another run on screen.
        if mine() {
            self.dispatch(Event::Stepped { finished: finish.is_some() });
        }
    }

    pub(super) fn on_reply(self, reply: &Reply) {
        let inner = self.inner();
        let mine = |session: &SessionId| *session != 0 && *session == inner.session.get();
        match reply {
            Reply::Tokenized { request, tokens } if *request == inner.tokenize_request.get() => {
                self.prompt_tokens.set(Some(tokens.clone()));
            }
            Reply::Probed { request, flops, bytes } => {
                if let Some((_, kind)) = inner.probe_request.get().filter(|(asked, _)| asked == request) {
                    inner.probe_request.set(None);
                    self.probing.set(false);
                    self.device.set(Some((this_device(*flops, *bytes), kind)));
                }
            }
            Reply::Opened { session, prompt, first } if mine(session) => {
                match self.scene.source {
                    Source::Session if self.trace.with_untracked(Option::is_none) => self.begin_trace(prompt.clone()),
                    Source::Session => {}
                    Source::Pair | Source::Server => parts::hear(self, reply),
                }
                inner.arriving.set((*session, usize::from(first.is_some())));
                self.dispatch(Event::Opened);
                if let Some((step, finish)) = first {
                    inner.arriving.take();
                    self.on_stepped(*session, step, *finish);
                }
            }
            Reply::Branched { session, columns, finish } if mine(session) => self.on_branched(*columns, *finish),
            Reply::Branched { session, columns, finish } => match self.left_branch(*session) {
                Some(index) => self.on_left_branched(index, *columns, *finish),
                None => parts::hear(self, reply),
            },
            Reply::Stepped { session, step, finish } if mine(session) || self.left_branch(*session).is_some() => {
                self.on_stepped(*session, step, *finish);
            }
            Reply::Rushed { session, steps, finish } => self.on_rushed(*session, steps.clone(), *finish),
            Reply::Inspected { session, step, attention, kv } if mine(session) => {
                inner.looks.set(inner.looks.get().saturating_sub(1));
                self.trace.update_untracked(|trace| {
                    if let Some(trace) = trace {
                        inferscope_stage::merge(trace, *step, attention.clone(), kv.clone());
                    }
                });
                self.paint_soon();
                self.look_back();
            }
            Reply::Failed { subject: Subject::Session(session), fault } if mine(session) => {
                inner.looks.set(0);
                self.fail(fault.clone());
            }
            _ => parts::hear(self, reply),
        }
    }

    /// Tells the page's scripts of a round or a step, and the views unless they are told later anyway.
    pub(super) fn tell_of_step(self, object: &wasm_bindgen::JsValue, last: bool) {
        let inner = self.inner();
        if self.player.with_untracked(|player| player.pace == Pace::Timed) || last {
            match self.scene.source {
                Source::Session => self.trace.notify(),
                Source::Pair => self.speculation.notify(),
                Source::Server => self.serving.trace.notify(),
            }
        }
        inner.step_objects.borrow().push(object);
        api::fire_step(&inner.host, object);
    }

    pub(super) fn begin_trace(self, tokens: Vec<TokenId>) {
        let inner = self.inner();
        let loaded = inner.hub.loaded(&self.model.get_untracked());
        let (Some(kind), Some(loaded)) = (inner.session_on.get(), loaded) else { return };
        let reason = self.engine.with_untracked(|engine| engine.reason.clone());
        inner.step_objects.take();
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

    pub(super) fn keep_for_comparison(self) {
        if self.is_branch() {
            return;
        }
        let ended = self.trace.with_untracked(|trace| trace.clone().filter(|trace| trace.finish.is_some()));
        if let Some(trace) = ended {
            let way = usize::from(trace.settings.cache);
            self.kept.update(|kept| kept[way] = Some(trace));
        }
    }

    /// The run's session is still there to be asked.
    pub fn can_look_back(self) -> bool {
        let rushing = self.player.with(|player| player.status == Status::Running && player.pace == Pace::Max);
        !rushing && self.inner().session_on.get().is_some()
    }

    /// Measures what this device gives to the engine that serves now.
    pub fn probe(self) {
        let inner = self.inner();
        let model = self.model.get_untracked();
        let serving = inner.session_on.get().or_else(|| inner.hub.any_ready(&model));
        if let Some(kind) = serving {
            let request = inner.hub.fresh_id();
            inner.probe_request.set(Some((request, kind)));
            self.probing.set(true);
            inner.hub.send(kind, &Command::Probe { request });
        }
    }

    /// Reads the attention of every step so far.
    pub fn look_at_all(self) {
        let inner = self.inner();
        let Some(kind) = inner.session_on.get() else { return };
        let step = self.player.with_untracked(|player| player.moment.step);
        let looks = self.trace.with_untracked(|trace| {
            trace.as_ref().map(|trace| inferscope_stage::missing_attention(trace, step)).unwrap_or_default()
        });
        inner.looks.set(inner.looks.get() + looks.len());
        for (step, observe) in looks {
            inner.hub.send(kind, &Command::Inspect { session: inner.session.get(), step, observe });
        }
    }

    /// Shows the attention of the token at `position`, both ways; of the newest one again if it was that already, or if there
    /// is none.
    pub fn focus_on(self, position: Option<usize>) {
        self.selection.update(|it| it.focus = position.filter(|_| it.focus != position));
        self.look_back();
    }

    /// Reads what the picture on screen lacks.
    pub(super) fn look_back(self) {
        let inner = self.inner();
        let player = self.player.get_untracked();
        let rushing = player.status == Status::Running && player.pace == Pace::Max;
        // Only where somebody can see it.
        if !self.scene.panels.contains(&Panel::Cache)
            || rushing
            || player.moment.steps_shown() == 0
            || inner.looks.get() > 0
        {
            return;
        }
        let focus = self.selection.with_untracked(|selection| selection.focus);
        let missing = self.trace.with_untracked(|trace| {
            let missing = |trace| inferscope_stage::missing(trace, player.moment.step, focus);
            trace.as_ref().map(missing).unwrap_or_default()
        });
        let Some(kind) = inner.session_on.get() else { return };
        inner.looks.set(missing.len());
        for (step, observe) in missing {
            inner.hub.send(kind, &Command::Inspect { session: inner.session.get(), step, observe });
        }
    }
}

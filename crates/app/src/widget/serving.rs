//! Many requests on one model: what is asked of the engine, what its steps do to the record, and the *twin*: the same queue
//! served the other way in the background, to hold this one against.

use std::sync::Arc;

use inferscope_sampler::default_sampling;
use inferscope_stage::{
    Event,
    scenes::Panel,
    serving::{other_batching, other_memory, usual_queue},
};
use inferscope_trace::{
    BackendKind, Batching, Command, Memory, Reply, Request, ServingSettings, ServingStep, ServingTrace, SessionId,
    TokenId,
};

use super::Widget;
use crate::{api, signal::RwSignal};

/// What the reader has set, and what came of it.
#[derive(Clone, Copy)]
pub struct Serving {
    pub trace: RwSignal<Option<ServingTrace>>,
    /// The other way, once it has ended.
    pub twin: RwSignal<Option<ServingTrace>>,
    pub settings: RwSignal<ServingSettings>,
    pub queue: RwSignal<Vec<Request>>,
    /// The slot whose block the reader points at.
    pub slot: RwSignal<Option<usize>>,
    /// A decode step's milliseconds at several batch sizes, once measured; and whether that is under way.
    pub costs: RwSignal<Vec<(usize, f64)>>,
    pub measuring: RwSignal<bool>,
}

impl Serving {
    /// A scene that shows the memory has little of it; one that shows the schedule has enough.
    pub fn new(panels: &[Panel]) -> Self {
        let tight = panels.contains(&Panel::Blocks);
        let settings = ServingSettings {
            slots: if tight { 160 } else { 512 },
            memory: Memory::Paged { block: 8, sharing: tight },
            batching: Batching::Continuous,
            max_batch: if tight { 8 } else { 3 },
            chunk: 0,
        };
        Self {
            trace: RwSignal::new(None),
            twin: RwSignal::new(None),
            settings: RwSignal::new(settings),
            queue: RwSignal::new(usual_queue(&default_sampling())),
            slot: RwSignal::new(None),
            costs: RwSignal::new(Vec::new()),
            measuring: RwSignal::new(false),
        }
    }
}

impl Widget {
    pub(super) fn open_server(self, kind: BackendKind) {
        let inner = self.inner();
        let session = inner.hub.fresh_id();
        inner.session.set(session);
        inner.session_on.set(Some(kind));
        let known = self.serving.trace.with_untracked(|trace| {
            trace.as_ref().map(|trace| (trace.steps.len(), trace.requests.clone(), trace.settings))
        });
        let sampling = self.settings.with_untracked(|settings| settings.sampling.clone());
        let asked = || {
            let requests = self.serving.queue.get_untracked();
            requests.into_iter().map(|request| Request { sampling: sampling.clone(), ..request }).collect()
        };
        let (steps, requests, settings) = known.unwrap_or_else(|| (0, asked(), self.serving.settings.get_untracked()));
        inner.replay.set(steps);
        inner.asked.replace((requests.clone(), settings));
        let model = self.model.get_untracked();
        inner.hub.send(kind, &Command::Serve { session, model, requests, settings });
    }

    /// What an engine replies to a queue that it serves, or to the measuring of batches.
    pub fn hear_of_serving(self, reply: &Reply) {
        let inner = self.inner();
        let (mine, twin) = (inner.session.get(), inner.twin.get());
        match reply {
            Reply::Serving { session, prompts } if [mine, twin].contains(session) && *session != 0 => {
                self.on_serving(*session, prompts.clone());
            }
            Reply::ServeStepped { session, step, finished } if *session == mine => self.on_served(step, *finished),
            Reply::ServeStepped { session, step, finished } if *session == twin => {
                self.on_twin_served(*session, step, *finished);
            }
            Reply::BatchesMeasured { request, points }
                if inner.probe_request.get().is_some_and(|(asked, _)| asked == *request) =>
            {
                inner.probe_request.set(None);
                self.serving.measuring.set(false);
                self.serving.costs.set(points.clone());
            }
            _ => {}
        }
    }

    fn other_way(self, settings: ServingSettings) -> ServingSettings {
        if self.scene.panels.contains(&Panel::Blocks) {
            ServingSettings { memory: other_memory(settings.memory, 8), ..settings }
        } else {
            ServingSettings { batching: other_batching(settings.batching), ..settings }
        }
    }

    /// The engine has taken the queue in, for the run on screen or for its twin.
    fn on_serving(self, session: SessionId, prompts: Vec<Vec<TokenId>>) {
        let inner = self.inner();
        let Some(kind) = inner.session_on.get() else { return };
        let Some(loaded) = inner.hub.loaded(&self.model.get_untracked()) else { return };
        let reason = self.engine.with_untracked(|engine| engine.reason.clone());
        let (requests, settings) = inner.asked.borrow().clone();
        let twin = session != inner.session.get();
        let trace = ServingTrace {
            model: loaded.model,
            vocabulary: loaded.vocabulary,
            backend: self.backend(kind, reason),
            settings: if twin { self.other_way(settings) } else { settings },
            requests: requests.clone(),
            prompts,
            steps: Vec::new(),
            finished: false,
        };
        if twin {
            inner.twin_steps.replace(Some(trace));
            inner.hub.send(kind, &Command::ServeStep { session });
            return;
        }
        if self.serving.trace.with_untracked(Option::is_none) {
            inner.step_objects.take();
            self.serving.trace.set(Some(trace));
            self.serving.twin.set(None);
            let (twin, model) = (inner.hub.fresh_id(), self.model.get_untracked());
            inner.twin.set(twin);
            let settings = self.other_way(settings);
            inner.hub.send(kind, &Command::Serve { session: twin, model, requests, settings });
        }
        self.dispatch(Event::Opened);
    }

    fn on_served(self, step: &ServingStep, finished: bool) {
        let inner = self.inner();
        if inner.replay.get() > 0 {
            inner.replay.set(inner.replay.get() - 1);
            return self.request_step();
        }
        self.serving.trace.update_untracked(|trace| {
            if let Some(trace) = trace {
                trace.steps.push(Arc::new(step.clone()));
                trace.finished = finished;
            }
        });
        self.tell_of_step(&api::to_js(step), finished);
        self.dispatch(Event::Stepped { finished });
    }

    fn on_twin_served(self, session: SessionId, step: &ServingStep, finished: bool) {
        let inner = self.inner();
        let Some(kind) = inner.session_on.get() else { return };
        let mut twin = inner.twin_steps.borrow_mut();
        let Some(trace) = twin.as_mut() else { return };
        trace.steps.push(Arc::new(step.clone()));
        trace.finished = finished;
        if finished {
            self.serving.twin.set(twin.take());
            inner.twin.set(0);
            inner.hub.send(kind, &Command::Close { session });
        } else {
            inner.hub.send(kind, &Command::ServeStep { session });
        }
    }

    /// The record of what was served is put away, and its twin with it.
    pub(super) fn forget_serving(self) {
        let inner = self.inner();
        if let (Some(kind), twin @ 1..) = (inner.session_on.get(), inner.twin.replace(0)) {
            inner.hub.send(kind, &Command::Close { session: twin });
        }
        inner.twin_steps.take();
        self.serving.trace.set(None);
        self.serving.twin.set(None);
        self.serving.slot.set(None);
    }

    /// Measures a decode step at several batch sizes on the engine that serves now.
    pub fn measure_batches(self) {
        let inner = self.inner();
        let model = self.model.get_untracked();
        if let Some(kind) = inner.session_on.get().or_else(|| inner.hub.any_ready(&model)) {
            let request = inner.hub.fresh_id();
            inner.probe_request.set(Some((request, kind)));
            self.serving.measuring.set(true);
            inner.hub.send(kind, &Command::MeasureBatches { request, model });
        }
    }
}

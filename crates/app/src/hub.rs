//! The *hub* keeps the page's engines, one worker of each kind at most, and the models they hold, all shared by every
//! widget on the page. It starts engines when asked, gives them the models that widgets use, takes those away that nobody
//! uses any more, and passes replies on. It does not choose among engines, nor among models.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use inferscope_stage::{EngineStatus, Probe};
use inferscope_trace::{
    BackendKind, Command, Fault, FaultKind, ModelId, ModelInfo, NamedFile, Reply, Subject, Vocabulary,
};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use crate::{few::Few, models, probe, worker::EngineWorker};

/// What a widget hears from the hub.
pub enum HubEvent {
    /// A status changed.
    Changed,
    Reply(Reply),
    /// The engine that ran is gone, with all its sessions.
    Lost(BackendKind),
}

/// A model as an engine that loaded it describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub model: Arc<ModelInfo>,
    pub vocabulary: Arc<Vocabulary>,
}

/// A model that some widget uses.
struct Model {
    /// How many times it is retained.
    users: usize,
    files: Files,
    loaded: Option<Loaded>,
}

#[derive(Default)]
enum Files {
    #[default]
    Wanted,
    Coming,
    Here(Rc<Vec<NamedFile>>),
}

enum Engine {
    Started(Started),
    /// Could not start, or was lost.
    Failed(Fault),
}

impl Engine {
    fn is_up(&self) -> bool {
        matches!(self, Self::Started(Started { up: true, .. }))
    }
}

struct Started {
    worker: EngineWorker,
    /// It has its device, and can take models.
    up: bool,
    adapter: Option<String>,
    models: Few<ModelId, Held>,
}

/// How far a model is on one engine.
enum Held {
    /// Its files or the engine are still to come.
    Wanted,
    Loading,
    Ready,
    Failed(Fault),
}

type Watcher = Rc<dyn Fn(&HubEvent)>;

#[derive(Default)]
struct State {
    /// None that is off.
    engines: Few<BackendKind, Engine>,
    models: Few<ModelId, Model>,
    /// Names of readers' models: of those that are here, and of those that an engine has yet to answer about, whose late
    /// replies must not be taken for another's.
    own_ids: Vec<ModelId>,
    probe: Probe,
    probing: bool,
    watchers: Vec<(u32, Watcher)>,
    next_id: u32,
}

impl State {
    fn started(&self, kind: BackendKind) -> Option<&Started> {
        match self.engines.get(&kind)? {
            Engine::Started(started) => Some(started),
            Engine::Failed(_) => None,
        }
    }

    fn started_mut(&mut self, kind: BackendKind) -> Option<&mut Started> {
        match self.engines.get_mut(&kind)? {
            Engine::Started(started) => Some(started),
            Engine::Failed(_) => None,
        }
    }

    fn all_started(&mut self) -> impl Iterator<Item = &mut Started> {
        self.engines.iter_mut().filter_map(|(_, engine)| match engine {
            Engine::Started(started) => Some(started),
            Engine::Failed(_) => None,
        })
    }
}

pub struct Hub {
    base: String,
    state: RefCell<State>,
}

thread_local! {
    static HUB: RefCell<Option<Rc<Hub>>> = const { RefCell::new(None) };
}

impl Hub {
    /// The page's hub; the files of engines and models lie under `base`, which ends in a slash.
    pub fn of_page(base: &str) -> Rc<Self> {
        HUB.with_borrow_mut(|hub| {
            hub.get_or_insert_with(|| Rc::new(Self { base: base.to_string(), state: RefCell::default() })).clone()
        })
    }

    /// Where a file of ours lies.
    pub fn address(&self, file: &str) -> String {
        format!("{}{file}", self.base)
    }

    /// A number that no other session or request of this page has.
    pub fn fresh_id(&self) -> u32 {
        let mut state = self.state.borrow_mut();
        state.next_id += 1;
        state.next_id
    }

    pub fn watch(&self, watcher: impl Fn(&HubEvent) + 'static) -> u32 {
        let id = self.fresh_id();
        self.state.borrow_mut().watchers.push((id, Rc::new(watcher)));
        id
    }

    pub fn unwatch(&self, id: u32) {
        self.state.borrow_mut().watchers.retain(|(other, _)| *other != id);
    }

    fn tell(&self, event: &HubEvent) {
        // Watchers may call back into the hub, so nothing stays borrowed meanwhile.
        let watchers: Vec<Watcher> = self.state.borrow().watchers.iter().map(|(_, watcher)| watcher.clone()).collect();
        for watcher in watchers {
            watcher(event);
        }
    }

    // Models.

    /// Keeps a model that ships, or one that is kept already, for one more user.
    pub fn retain(&self, id: &str) {
        let mut state = self.state.borrow_mut();
        let fresh = || Model { users: 0, files: Files::Wanted, loaded: None };
        state.models.get_or_insert_with(id.into(), fresh).users += 1;
    }

    /// Keeps a model of the reader's, made of these files, for one user. Returns its name on this page: `title`, or
    /// `title` with a number if that is taken.
    pub fn adopt(&self, title: &str, files: Vec<NamedFile>) -> ModelId {
        let mut state = self.state.borrow_mut();
        let numbered = (2..).map(|number| format!("{title}-{number}"));
        let id = std::iter::once(title.to_string())
            .chain(numbered)
            .find(|id| models::row(id).is_none() && !state.own_ids.contains(id))
            .expect("there is no end of numbers");
        state.own_ids.push(id.clone());
        state.models.insert(id.clone(), Model { users: 1, files: Files::Here(Rc::new(files)), loaded: None });
        id
    }

    /// One user fewer. What nobody uses leaves the engines and the page.
    pub fn release(&self, id: &str) {
        let mut state = self.state.borrow_mut();
        let Some(model) = state.models.get_mut(id) else { return };
        model.users -= 1;
        if model.users > 0 {
            return;
        }
        state.models.remove(id);
        let mut answer_due = false;
        for engine in state.all_started() {
            let held = engine.models.remove(id);
            answer_due |= matches!(held, Some(Held::Loading));
            if let Some(Held::Loading | Held::Ready) = held {
                engine.worker.send(&Command::Forget { model: id.into() });
            }
        }
        if !answer_due {
            state.own_ids.retain(|own| own != id);
        }
    }

    pub fn loaded(&self, model: &str) -> Option<Loaded> {
        self.state.borrow().models.get(model)?.loaded.clone()
    }

    // Engines.

    /// How far the engine of `kind` is with a model.
    pub fn status(&self, kind: BackendKind, model: &str) -> EngineStatus {
        let state = self.state.borrow();
        let started = match state.engines.get(&kind) {
            None => return EngineStatus::Off,
            Some(Engine::Failed(fault)) => return EngineStatus::Failed(fault.message.clone()),
            Some(Engine::Started(started)) => started,
        };
        match started.models.get(model) {
            None => EngineStatus::Off,
            Some(Held::Wanted | Held::Loading) => EngineStatus::Starting,
            Some(Held::Ready) => EngineStatus::Ready { adapter: started.adapter.clone() },
            Some(Held::Failed(fault)) => EngineStatus::Failed(fault.message.clone()),
        }
    }

    /// Why the engine of `kind` cannot run a model.
    pub fn fault(&self, kind: BackendKind, model: &str) -> Option<Fault> {
        match self.state.borrow().engines.get(&kind)? {
            Engine::Failed(fault) => Some(fault.clone()),
            Engine::Started(started) => match started.models.get(model)? {
                Held::Failed(fault) => Some(fault.clone()),
                _ => None,
            },
        }
    }

    pub fn adapter(&self, kind: BackendKind) -> Option<String> {
        self.state.borrow().started(kind).and_then(|engine| engine.adapter.clone())
    }

    pub fn probe(&self) -> Probe {
        self.state.borrow().probe.clone()
    }

    /// An engine that has the model, whichever: good enough to split a text into tokens.
    pub fn any_ready(&self, model: &str) -> Option<BackendKind> {
        [BackendKind::Cpu, BackendKind::Webgpu]
            .into_iter()
            .find(|kind| matches!(self.status(*kind, model), EngineStatus::Ready { .. }))
    }

    pub fn send(&self, kind: BackendKind, command: &Command) {
        if let Some(engine) = self.state.borrow().started(kind) {
            engine.worker.send(command);
        }
    }

    /// Makes engines that failed, and those that failed with this model, worth another try.
    pub fn forgive(&self, model: &str) {
        let mut state = self.state.borrow_mut();
        state.engines.retain(|_, engine| matches!(engine, Engine::Started(_)));
        for engine in state.all_started() {
            engine.models.retain(|id, held| id != model || !matches!(held, Held::Failed(_)));
        }
    }

    /// Has the engine of `kind` load a model that is retained, once; starts the engine and fetches the files if need be.
    pub fn start(self: &Rc<Self>, kind: BackendKind, model: &str) {
        if self.status(kind, model) != EngineStatus::Off {
            return;
        }
        let hub = self.clone();
        let boot = || match EngineWorker::start(&self.base, kind, move |reply| hub.on_reply(kind, reply)) {
            Ok(worker) => Engine::Started(Started { worker, up: false, adapter: None, models: Few::default() }),
            Err(fault) => Engine::Failed(fault),
        };
        let mut loading = false;
        if let Engine::Started(engine) = self.state.borrow_mut().engines.get_or_insert_with(kind, boot) {
            if let Some((given, promise)) = engine.worker.take_given() {
                engine.models.insert(given.clone(), Held::Loading);
                self.clone().see_to(kind, given, promise);
            }
            loading = matches!(engine.models.get_or_insert_with(model.into(), || Held::Wanted), Held::Loading);
        }
        if !loading {
            self.fetch_files(model);
            self.give(kind);
        }
        self.tell(&HubEvent::Changed);
    }

    /// If the page's element could not give an engine a model, it is loaded as any other.
    fn see_to(self: Rc<Self>, kind: BackendKind, model: ModelId, given: js_sys::Promise) {
        spawn_local(async move {
            if JsFuture::from(given).await.is_ok_and(|given| given.is_truthy()) {
                return;
            }
            {
                let mut state = self.state.borrow_mut();
                let held = state.started_mut(kind).and_then(|engine| engine.models.get_mut(&model));
                let Some(held @ Held::Loading) = held else { return };
                *held = Held::Wanted;
            }
            self.fetch_files(&model);
            self.give(kind);
        });
    }

    fn fetch_files(self: &Rc<Self>, id: &str) {
        let Some(row) = models::row(id) else { return };
        {
            let mut state = self.state.borrow_mut();
            let Some(model) = state.models.get_mut(id) else { return };
            if !matches!(model.files, Files::Wanted) {
                return;
            }
            model.files = Files::Coming;
        }
        let hub = self.clone();
        spawn_local(async move {
            let fetched = models::fetch(&hub.base, row).await;
            match fetched {
                Ok(files) => {
                    if let Some(model) = hub.state.borrow_mut().models.get_mut(row.id) {
                        model.files = Files::Here(Rc::new(files));
                    }
                    hub.give(BackendKind::Cpu);
                    hub.give(BackendKind::Webgpu);
                }
                Err(fault) => {
                    {
                        let mut state = hub.state.borrow_mut();
                        if let Some(model) = state.models.get_mut(row.id) {
                            model.files = Files::Wanted;
                        }
                        for engine in state.all_started() {
                            if let Some(held @ Held::Wanted) = engine.models.get_mut(row.id) {
                                *held = Held::Failed(fault.clone());
                            }
                        }
                    }
                    hub.tell(&HubEvent::Changed);
                }
            }
        });
    }

    /// Has an engine that is up load the models wanted of it whose files are here.
    fn give(&self, kind: BackendKind) {
        let mut state = self.state.borrow_mut();
        let State { engines, models, .. } = &mut *state;
        let Some(Engine::Started(engine)) = engines.get_mut(&kind).filter(|engine| engine.is_up()) else { return };
        for (id, held) in engine.models.iter_mut().filter(|(_, held)| matches!(held, Held::Wanted)) {
            if let Some(Model { files: Files::Here(files), .. }) = models.get(id) {
                engine.worker.send(&Command::Load { model: id.clone(), files: files.to_vec() });
                *held = Held::Loading;
            }
        }
    }

    fn on_reply(self: &Rc<Self>, kind: BackendKind, reply: Reply) {
        match reply {
            Reply::Booted { adapter } => {
                if let Some(engine) = self.state.borrow_mut().started_mut(kind) {
                    engine.up = true;
                    engine.adapter = adapter.map(|adapter| adapter.description);
                }
                self.give(kind);
            }
            Reply::Ready { model, vocabulary } => {
                {
                    let mut state = self.state.borrow_mut();
                    let held = state.started_mut(kind).and_then(|engine| engine.models.get_mut(&model.id));
                    // Nobody may want it any more.
                    let Some(held) = held else { return };
                    *held = Held::Ready;
                    if let Some(known) = state.models.get_mut(&model.id) {
                        let loaded = || Loaded { model: Arc::new(model), vocabulary: Arc::new(vocabulary) };
                        known.loaded.get_or_insert_with(loaded);
                    }
                }
                self.tell(&HubEvent::Changed);
            }
            Reply::Failed { subject, fault } => self.on_failed(kind, subject, fault),
            other => self.tell(&HubEvent::Reply(other)),
        }
    }

    fn on_failed(self: &Rc<Self>, kind: BackendKind, subject: Subject, fault: Fault) {
        let up = self.state.borrow().started(kind).is_some_and(|engine| engine.up);
        // After a mistake of its own an engine is not to be trusted; a fresh one is a click away.
        if !up || matches!(fault.kind, FaultKind::Device | FaultKind::Internal) {
            return self.fail(kind, &fault);
        }
        if let Subject::Model(id) = &subject {
            let mut state = self.state.borrow_mut();
            let held = state.started_mut(kind).and_then(|engine| engine.models.get_mut(id));
            if let Some(held @ Held::Loading) = held {
                *held = Held::Failed(fault);
                drop(state);
                return self.tell(&HubEvent::Changed);
            }
        }
        self.tell(&HubEvent::Reply(Reply::Failed { subject, fault }));
    }

    /// Ends the engine of `kind`, if it was there at all.
    fn fail(&self, kind: BackendKind, fault: &Fault) {
        let old = match self.state.borrow_mut().engines.get_mut(&kind) {
            Some(engine @ Engine::Started(_)) => std::mem::replace(engine, Engine::Failed(fault.clone())),
            _ => return,
        };
        let ran = old.is_up();
        // A worker may not be dropped by its own message handler while that runs.
        spawn_local(async move { drop(old) });
        self.tell(&HubEvent::Changed);
        if ran {
            self.tell(&HubEvent::Lost(kind));
        }
    }

    /// Asks the browser for a WebGPU adapter, once, and tells when it has answered.
    pub fn look_for_webgpu(self: &Rc<Self>) {
        if std::mem::replace(&mut self.state.borrow_mut().probing, true) {
            return;
        }
        let hub = self.clone();
        spawn_local(async move {
            let probe = probe::look().await;
            hub.state.borrow_mut().probe = probe;
            hub.tell(&HubEvent::Changed);
        });
    }
}

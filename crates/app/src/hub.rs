//! The *hub* keeps the page's engines: one worker of each kind at most, shared by every widget on the page. It starts
//! them when asked, gives them the model, and passes their replies on. It does not choose among them.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc};

use inferscope_stage::{EngineStatus, Probe};
use inferscope_trace::{BackendKind, Command, Fault, FaultKind, ModelInfo, Reply, Vocabulary};
use js_sys::Promise;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};

use crate::{
    dom,
    models::{self, MODELS, ModelFiles},
    worker::EngineWorker,
};

/// What a widget hears from the hub.
pub enum HubEvent {
    /// A status changed.
    Changed,
    Reply(Reply),
    /// The engine that ran is gone, with all its sessions.
    Lost(BackendKind),
}

/// The model as an engine that loaded it describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    pub model: Arc<ModelInfo>,
    pub vocabulary: Arc<Vocabulary>,
}

#[derive(Default)]
struct Slot {
    status: EngineStatus,
    worker: Option<EngineWorker>,
    booted: bool,
    adapter: Option<String>,
}

#[derive(Default)]
enum Files {
    #[default]
    Wanted,
    Coming,
    Here(ModelFiles),
}

type Watcher = Rc<dyn Fn(&HubEvent)>;

#[derive(Default)]
struct State {
    slots: HashMap<BackendKind, Slot>,
    probe: Probe,
    probing: bool,
    files: Files,
    loaded: Option<Loaded>,
    watchers: Vec<(u32, Watcher)>,
    next_id: u32,
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

    pub fn status(&self, kind: BackendKind) -> EngineStatus {
        self.state.borrow().slots.get(&kind).map(|slot| slot.status.clone()).unwrap_or_default()
    }

    pub fn adapter(&self, kind: BackendKind) -> Option<String> {
        self.state.borrow().slots.get(&kind).and_then(|slot| slot.adapter.clone())
    }

    pub fn probe(&self) -> Probe {
        self.state.borrow().probe.clone()
    }

    pub fn loaded(&self) -> Option<Loaded> {
        self.state.borrow().loaded.clone()
    }

    /// An engine that is ready, whichever: good enough to split a text into tokens.
    pub fn any_ready(&self) -> Option<BackendKind> {
        [BackendKind::Cpu, BackendKind::Webgpu]
            .into_iter()
            .find(|kind| matches!(self.status(*kind), EngineStatus::Ready { .. }))
    }

    pub fn send(&self, kind: BackendKind, command: &Command) {
        if let Some(worker) = self.state.borrow().slots.get(&kind).and_then(|slot| slot.worker.as_ref()) {
            worker.send(command);
        }
    }

    /// Makes engines that failed worth another try.
    pub fn forgive(&self) {
        let mut state = self.state.borrow_mut();
        for slot in state.slots.values_mut() {
            if matches!(slot.status, EngineStatus::Failed(_)) {
                *slot = Slot::default();
            }
        }
    }

    /// Starts fetching the model and the engine of `kind`, once.
    pub fn start(self: &Rc<Self>, kind: BackendKind) {
        if self.status(kind) != EngineStatus::Off {
            return;
        }
        let hub = self.clone();
        let worker = EngineWorker::start(&self.base, kind, move |reply| hub.on_reply(kind, reply));
        let slot = match worker {
            Ok(worker) => Slot { status: EngineStatus::Starting, worker: Some(worker), ..Slot::default() },
            Err(fault) => Slot { status: EngineStatus::Failed(fault.message), ..Slot::default() },
        };
        self.state.borrow_mut().slots.insert(kind, slot);
        self.fetch_files();
        self.tell(&HubEvent::Changed);
    }

    fn fetch_files(self: &Rc<Self>) {
        if !matches!(self.state.borrow().files, Files::Wanted) {
            return;
        }
        self.state.borrow_mut().files = Files::Coming;
        let hub = self.clone();
        spawn_local(async move {
            match models::fetch(&hub.base, &MODELS[0]).await {
                Ok(files) => {
                    hub.state.borrow_mut().files = Files::Here(files);
                    hub.give_model(BackendKind::Cpu);
                    hub.give_model(BackendKind::Webgpu);
                }
                Err(fault) => {
                    hub.state.borrow_mut().files = Files::Wanted;
                    hub.fail(BackendKind::Cpu, &fault);
                    hub.fail(BackendKind::Webgpu, &fault);
                }
            }
        });
    }

    /// Loads the model into an engine that has booted, once both are there.
    fn give_model(&self, kind: BackendKind) {
        let state = self.state.borrow();
        if let (Some(slot), Files::Here(files)) = (state.slots.get(&kind), &state.files)
            && slot.booted
            && slot.status == EngineStatus::Starting
            && let Some(worker) = &slot.worker
        {
            worker.send(&Command::Load {
                model_id: files.id.into(),
                checkpoint: files.checkpoint.to_vec(),
                tokenizer: files.tokenizer.to_vec(),
            });
        }
    }

    fn on_reply(self: &Rc<Self>, kind: BackendKind, reply: Reply) {
        match reply {
            Reply::Booted { adapter } => {
                if let Some(slot) = self.state.borrow_mut().slots.get_mut(&kind) {
                    slot.booted = true;
                    slot.adapter = adapter.map(|adapter| adapter.description);
                }
                self.give_model(kind);
            }
            Reply::Ready { model, vocabulary } => {
                {
                    let mut state = self.state.borrow_mut();
                    state.loaded.get_or_insert(Loaded { model: Arc::new(model), vocabulary: Arc::new(vocabulary) });
                    if let Some(slot) = state.slots.get_mut(&kind) {
                        slot.status = EngineStatus::Ready { adapter: slot.adapter.clone() };
                    }
                }
                self.tell(&HubEvent::Changed);
            }
            Reply::Failed { session, fault } => {
                let starting = self.status(kind) == EngineStatus::Starting;
                // After a mistake of its own an engine is not to be trusted; a fresh one is a click away.
                let gone = matches!(fault.kind, FaultKind::Device | FaultKind::Internal);
                if starting || gone {
                    self.fail(kind, &fault);
                } else {
                    self.tell(&HubEvent::Reply(Reply::Failed { session, fault }));
                }
            }
            other => self.tell(&HubEvent::Reply(other)),
        }
    }

    /// Ends the engine of `kind`, if it was there at all.
    fn fail(&self, kind: BackendKind, fault: &Fault) {
        let before = self.status(kind);
        if matches!(before, EngineStatus::Off | EngineStatus::Failed(_)) {
            return;
        }
        let status = EngineStatus::Failed(fault.message.clone());
        let old = self.state.borrow_mut().slots.insert(kind, Slot { status, ..Slot::default() });
        // A worker may not be dropped by its own message handler while that runs.
        spawn_local(async move { drop(old) });
        self.tell(&HubEvent::Changed);
        if matches!(before, EngineStatus::Ready { .. }) {
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
            let probe = probe_webgpu().await;
            hub.state.borrow_mut().probe = probe;
            hub.tell(&HubEvent::Changed);
        });
    }
}

/// Milliseconds between one look for an adapter and the next. Right after a browser has started, or its graphics process
/// has started again, the first look can find nothing where a later one finds an adapter.
const LOOK_AGAIN_AFTER: [i32; 3] = [250, 750, 2000];

async fn probe_webgpu() -> Probe {
    let gpu = dom::get(&dom::window().navigator(), "gpu");
    let Ok(request) = dom::get(&gpu, "requestAdapter").dyn_into::<js_sys::Function>() else {
        return Probe::Unsupported;
    };
    let mut found = request_adapter(&gpu, &request).await;
    for pause in LOOK_AGAIN_AFTER {
        if found.is_none() {
            dom::pause(pause).await;
            found = request_adapter(&gpu, &request).await;
        }
    }
    let Some(adapter) = found else { return Probe::NoAdapter };
    let info = dom::get(&adapter, "info");
    let text = |key| dom::get(&info, key).as_string().filter(|text| !text.is_empty());
    let name = text("description").or_else(|| match (text("vendor"), text("architecture")) {
        (Some(vendor), Some(architecture)) => Some(format!("{vendor} {architecture}")),
        (vendor, architecture) => vendor.or(architecture),
    });
    let name = name.unwrap_or_else(|| "a graphics adapter without a name".into());
    // The flag moved from the adapter to its info; browsers have it in one place or the other.
    let software = [&info, &adapter].into_iter().any(|object| dom::get(object, "isFallbackAdapter").is_truthy());
    if software { Probe::Software(name) } else { Probe::Hardware(name) }
}

async fn request_adapter(gpu: &JsValue, request: &js_sys::Function) -> Option<JsValue> {
    let promise = request.call0(gpu).ok()?.dyn_into::<Promise>().ok()?;
    JsFuture::from(promise).await.ok().filter(JsValue::is_object)
}

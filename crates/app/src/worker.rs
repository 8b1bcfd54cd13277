//! An *engine worker* is an engine in a thread of its own. Commands go in and replies come out as bytes.

use inferscope_trace::{BackendKind, Command, Fault, FaultKind, ModelId, Reply, Subject, decode, encode};
use js_sys::{Array, Promise, Uint8Array};
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use wasm_bindgen_futures::spawn_local;
use web_sys::{ErrorEvent, MessageEvent, WorkerOptions, WorkerType};

use crate::dom;

pub struct EngineWorker {
    worker: web_sys::Worker,
    /// A model that it is given by the page's element, and a promise of whether that went well.
    given: Option<(ModelId, Promise)>,
    _on_message: Closure<dyn Fn(MessageEvent)>,
    _on_error: Closure<dyn Fn(ErrorEvent)>,
}

impl EngineWorker {
    /// Starts the engine of `kind` whose files lie under `base`. Whatever goes wrong arrives as a `Failed` reply.
    pub fn start(base: &str, kind: BackendKind, on_reply: impl Fn(Reply) + Clone + 'static) -> Result<Self, Fault> {
        let name = match kind {
            BackendKind::Cpu => "cpu",
            BackendKind::Webgpu => "webgpu",
        };
        let url = format!("{base}engine/worker.js?kind={name}");
        let (worker, said, given) = match dom::begun(&url) {
            Some(begun) => {
                let model = dom::get(&begun, "model").as_string();
                let given = model.map(|model| (model, dom::get(&begun, "given").unchecked_into()));
                (dom::get(&begun, "worker").unchecked_into(), dom::get(&begun, "said").unchecked_into(), given)
            }
            None => (new_worker(&url)?, Array::new(), None),
        };
        let reply = on_reply.clone();
        let hear = move |data: JsValue| {
            let decoded = match data.dyn_ref::<Uint8Array>() {
                Some(bytes) => decode::<Reply>(&bytes.to_vec()).map_err(|error| error.to_string()),
                None => Err(dom::get(&data, "error").as_string().unwrap_or_else(|| "The engine failed.".into())),
            };
            reply(decoded.unwrap_or_else(|message| failed(FaultKind::Internal, message)));
        };
        let later = hear.clone();
        // Whoever starts a worker is not ready yet to hear of it.
        spawn_local(async move { said.iter().for_each(later) });
        let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| hear(event.data()));
        let on_error = Closure::<dyn Fn(ErrorEvent)>::new(move |event: ErrorEvent| {
            event.prevent_default();
            let cause = dom::get(&event, "message").as_string().filter(|message| !message.is_empty());
            let cause = cause.unwrap_or_else(|| "its files could not be fetched".into());
            on_reply(failed(FaultKind::Internal, format!("The {name} engine stopped: {cause}.")));
        });
        worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        Ok(Self { worker, given, _on_message: on_message, _on_error: on_error })
    }

    /// A model that it is given without a command, once, and a promise of whether that went well.
    pub fn take_given(&mut self) -> Option<(ModelId, Promise)> {
        self.given.take()
    }

    pub fn send(&self, command: &Command) {
        let bytes = encode(command).expect("commands are plain data");
        let bytes = Uint8Array::from(bytes.as_slice());
        let transfer = Array::of1(&bytes.buffer());
        let _ = self.worker.post_message_with_transfer(&bytes, &transfer);
    }
}

impl Drop for EngineWorker {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

fn failed(kind: FaultKind, message: String) -> Reply {
    Reply::Failed { subject: Subject::Engine, fault: Fault { kind, message } }
}

/// A worker may only be made of a script from the page's own origin. When the widget comes from another one, a script
/// made on the spot imports it.
fn new_worker(url: &str) -> Result<web_sys::Worker, Fault> {
    let options = WorkerOptions::new();
    options.set_type(WorkerType::Module);
    let refused = |_: JsValue| Fault {
        kind: FaultKind::Internal,
        message: "This page does not allow workers, so the model cannot run here.".into(),
    };
    let origin = dom::window().location().origin().unwrap_or_default();
    if url.starts_with(&format!("{origin}/")) {
        return web_sys::Worker::new_with_options(url, &options).map_err(refused);
    }
    let script = format!("import {url:?};");
    let parts = Array::of1(&script.into());
    let bag = web_sys::BlobPropertyBag::new();
    bag.set_type("text/javascript");
    let blob = web_sys::Blob::new_with_str_sequence_and_options(&parts, &bag).map_err(refused)?;
    let blob_url = web_sys::Url::create_object_url_with_blob(&blob).map_err(refused)?;
    web_sys::Worker::new_with_options(&blob_url, &options).map_err(refused)
}

//! The *worker* is the engine's place in the browser: a module worker that takes commands as messages, works on them one
//! by one, and posts each reply. Everything that touches JavaScript is here and in `adapter`.

use std::cell::RefCell;

use inferscope_trace::{Command, Fault, FaultKind, NamedFile, Reply, Subject, encode};
use js_sys::{Array, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_sys::DedicatedWorkerGlobalScope;

use crate::engine::Engine;
use crate::fault::fault;
use crate::inbox::Inbox;

type WorkerEngine = Engine<fn() -> f64>;

#[derive(Default)]
struct Desk {
    inbox: Inbox,
    /// Away while a command is in hand, and until the device is there.
    engine: Option<WorkerEngine>,
    /// Whether the page has heard how the start went.
    booted: bool,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// Runs once, when the module is instantiated: before it returns, nothing else may be called.
#[wasm_bindgen(start)]
fn start() {
    run_constructors();
    std::panic::set_hook(Box::new(|panic| lose(fault_of_panic(panic))));
    spawn_local(boot());
}

/// Takes in one message: a command as bytes.
#[wasm_bindgen]
pub fn receive(message: &[u8]) {
    take_up(DESK.with_borrow_mut(|desk| desk.inbox.arrive(message)));
}

/// Takes in a model that does not come as a command: `files` are pairs of a name and an `ArrayBuffer`.
#[wasm_bindgen]
pub fn load(model: String, files: &Array) {
    let file = |pair: JsValue| {
        let pair: Array = pair.unchecked_into();
        NamedFile { name: pair.get(0).as_string().unwrap_or_default(), bytes: Uint8Array::new(&pair.get(1)).to_vec() }
    };
    let command = Command::Load { model, files: files.iter().map(file).collect() };
    take_up(DESK.with_borrow_mut(|desk| desk.inbox.take_in(Ok(command))));
}

/// Something is in the inbox, or was answered at once.
fn take_up(answered: Option<Reply>) {
    if let Some(reply) = answered {
        post(&reply);
    }
    work();
}

/// Runs the module's static constructors, once.
///
/// A crate below the GPU stack has some. A module that has constructors but never calls them is taken by the linker for
/// a *command*, and each of its exports is wrapped to run all of them again on every call from JavaScript, which made
/// decoding 15 times slower. Calling them here tells the linker not to.
fn run_constructors() {
    #[cfg(feature = "webgpu")]
    {
        unsafe extern "C" {
            fn __wasm_call_ctors();
        }
        // SAFETY: the linker defines this function for every module; it takes and returns nothing, and it is called
        // before anything that could depend on a constructor, and only once.
        unsafe { __wasm_call_ctors() };
    }
}

async fn boot() {
    match open_device().await {
        Ok((device, adapter)) => {
            let clock: fn() -> f64 = milliseconds;
            let engine = Engine::new(device, clock);
            DESK.with_borrow_mut(|desk| {
                desk.engine = Some(engine);
                desk.booted = true;
            });
            post(&Reply::Booted { adapter });
            work();
        }
        Err(fault) => lose(fault),
    }
}

#[cfg(feature = "cpu")]
async fn open_device() -> Result<(burn::tensor::Device, Option<inferscope_trace::AdapterInfo>), Fault> {
    Ok((burn::tensor::Device::flex(), None))
}

#[cfg(feature = "webgpu")]
async fn open_device() -> Result<(burn::tensor::Device, Option<inferscope_trace::AdapterInfo>), Fault> {
    let adapter = crate::adapter::describe().await?;
    let device = crate::adapter::open(lose).await?;
    Ok((device, Some(adapter)))
}

/// Starts on the next command, if the engine is free and one waits.
fn work() {
    let next = DESK.with_borrow_mut(|desk| {
        let engine = desk.engine.take()?;
        let arrival = desk.inbox.take();
        if arrival.is_none() {
            desk.engine = Some(engine);
            return None;
        }
        arrival.zip(Some(engine))
    });
    let Some((arrival, mut engine)) = next else { return };
    spawn_local(async move {
        let reply = engine.answer(arrival).await;
        let owed = DESK.with_borrow_mut(|desk| {
            desk.engine = Some(engine);
            desk.inbox.finish()
        });
        if owed {
            post(&reply);
        }
        work();
    });
}

/// Tells the engine that the browser threw an exception in the middle of its work, from which it cannot recover.
/// After a panic, which throws one too, this changes nothing.
#[wasm_bindgen]
pub fn fail(message: &str) {
    lose(fault(FaultKind::Internal, format!("the engine stopped: {message}")));
}

/// The engine cannot go on. Whoever waits for a reply is told so.
fn lose(fault: Fault) {
    let alone = Reply::Failed { subject: Subject::Engine, fault: fault.clone() };
    let replies = DESK.with(|desk| {
        // A panic may come while the desk is borrowed; then nothing can be read from it, but the page must still hear.
        let Ok(mut desk) = desk.try_borrow_mut() else { return vec![alone] };
        let owed = desk.inbox.lose(fault);
        if std::mem::replace(&mut desk.booted, true) { owed } else { [vec![alone], owed].concat() }
    });
    for reply in &replies {
        post(reply);
    }
}

fn fault_of_panic(panic: &std::panic::PanicHookInfo) -> Fault {
    let what = panic.payload_as_str().unwrap_or("no reason given");
    // The file's own name: the folders before it are those of the machine that built the module.
    let place = panic.location().map(|place| {
        let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
        format!(" ({file}, line {})", place.line())
    });
    let place = place.unwrap_or_default();
    fault(FaultKind::Internal, format!("the engine stopped because of a mistake in it: {what}{place}"))
}

fn post(reply: &Reply) {
    let bytes = encode(reply).expect("a reply is plain data and always has a form in bytes");
    let message = Uint8Array::from(bytes.as_slice());
    let transferred = Array::of1(&message.buffer());
    // Posting fails only for what cannot be cloned, which bytes always can.
    let _ = scope().post_message_with_transfer(&message, &transferred);
}

fn milliseconds() -> f64 {
    scope().performance().map_or(0.0, |performance| performance.now())
}

fn scope() -> DedicatedWorkerGlobalScope {
    js_sys::global().unchecked_into()
}

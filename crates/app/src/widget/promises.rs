//! The promises that the API gives, and what becomes of them.

use inferscope_stage::{Event, Status};
use inferscope_trace::Fault;

use super::Widget;
use crate::{api, dom};

impl Widget {
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

    pub(super) fn settle_loaded(self, after: Status) {
        if after != Status::Error {
            for settle in self.inner().on_loaded.take() {
                settle.resolve(&wasm_bindgen::JsValue::UNDEFINED);
            }
        }
    }

    pub(super) fn settle_done(self) {
        let inner = self.inner();
        let trace = api::leading_trace(self);
        api::fire_done(&inner.host, &trace);
        if let Some(settle) = inner.on_done.take() {
            settle.resolve(&trace);
        }
    }

    /// What was to come of the run on screen will not: its promise is broken, and so is the plan to run it the other way too.
    pub fn abort(self, why: &str) {
        if let Some(pace) = self.inner().then_cached.take() {
            self.dispatch(Event::SetPace(pace));
        }
        if let Some(settle) = self.inner().on_done.take() {
            settle.reject(&api::abort_error(why));
        }
    }
}

//! A *probe* is what the browser says about WebGPU on this machine.

use inferscope_stage::Probe;
use js_sys::Promise;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::dom;

/// Milliseconds between one look for an adapter and the next. Right after a browser has started, or its graphics process
/// has started again, the first look can find nothing where a later one finds an adapter.
const LOOK_AGAIN_AFTER: [i32; 3] = [250, 750, 2000];

pub async fn look() -> Probe {
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

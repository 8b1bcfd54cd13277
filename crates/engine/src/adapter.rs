//! The *adapter* is the GPU as the browser offers it; a *device* is our connection to it, which can be lost.

use burn::tensor::Device;
use inferscope_trace::{AdapterInfo, Fault, FaultKind};
use js_sys::{Function, Object, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::fault::fault;

/// Asks the browser which GPU answers, in its own words.
///
/// wgpu's own description is empty in browsers that tell a GPU's vendor and architecture only, so this asks again.
///
/// # Errors
/// A `Device` fault if the browser has no WebGPU, or no GPU answers.
pub async fn describe() -> Result<AdapterInfo, Fault> {
    let navigator = property(&js_sys::global(), "navigator");
    let gpu = property(&navigator, "gpu");
    if !gpu.is_truthy() {
        return Err(device_fault("this browser does not offer WebGPU"));
    }
    let options = Object::new();
    // The same wish as burn's, so that the same GPU answers.
    let _ = Reflect::set(&options, &"powerPreference".into(), &"high-performance".into());
    let adapter = request_adapter(&gpu, &options)
        .await
        .map_err(|error| device_fault(format!("the browser refused access to a GPU: {}", text_of(&error))))?;
    if !adapter.is_truthy() {
        return Err(device_fault("the browser offers WebGPU, but no GPU answered"));
    }
    let info = property(&adapter, "info");
    let part = |name| property(&info, name).as_string().filter(|text| !text.trim().is_empty());
    let description = part("description")
        .or_else(|| {
            let parts: Vec<String> =
                [part("vendor"), part("architecture"), part("device")].into_iter().flatten().collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        })
        .unwrap_or_else(|| "a GPU that the browser does not name".into());
    // Older browsers keep the flag on the adapter itself.
    let software = [&info, &adapter].iter().any(|object| property(object, "isFallbackAdapter").is_truthy());
    Ok(AdapterInfo { description, software })
}

/// Connects burn to the GPU. `on_loss` is called at most once, when the connection is gone for good.
///
/// # Errors
/// A `Device` fault if the GPU gives no device.
pub async fn open(on_loss: fn(Fault)) -> Result<Device, Fault> {
    let (device, setup) = Device::wgpu_options()
        .init_with_setup_async()
        .await
        .map_err(|error| device_fault(format!("the GPU could not be opened: {error}")))?;
    // In a browser this adds a listener and leaves burn's own in place.
    setup.device.set_device_lost_callback(move |_, message| {
        let reason = if message.trim().is_empty() { "the browser gives no reason" } else { message.trim() };
        on_loss(device_fault(format!("the GPU was lost: {reason}")));
    });
    Ok(device)
}

async fn request_adapter(gpu: &JsValue, options: &Object) -> Result<JsValue, JsValue> {
    let request: Function = property(gpu, "requestAdapter").dyn_into()?;
    let promise: Promise = request.call1(gpu, options)?.dyn_into()?;
    JsFuture::from(promise).await
}

/// A property's value, or undefined where there is none.
fn property(object: &JsValue, name: &str) -> JsValue {
    Reflect::get(object, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

fn text_of(error: &JsValue) -> String {
    property(error, "message").as_string().unwrap_or_else(|| "it gives no reason".into())
}

fn device_fault(message: impl std::fmt::Display) -> Fault {
    fault(FaultKind::Device, message)
}

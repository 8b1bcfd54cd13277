//! Small bridges to the browser that several modules need.

use std::{cell::RefCell, rc::Rc};

use js_sys::{Function, Promise, Reflect, Uint8Array};
use wasm_bindgen::{JsCast, JsValue, closure::Closure};
use wasm_bindgen_futures::JsFuture;

pub fn window() -> web_sys::Window {
    web_sys::window().expect("the app runs in a page")
}

thread_local! {
    static BEGUN: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// `begun` gives what the page's element has begun to load while the app itself was loading, by its address and once.
pub fn hand_over(begun: Function) {
    BEGUN.set(Some(begun));
}

/// What was begun at that address, if anything was.
pub fn begun(url: &str) -> Option<JsValue> {
    let found = BEGUN.with_borrow(|begun| begun.as_ref()?.call1(&JsValue::NULL, &url.into()).ok());
    found.filter(JsValue::is_truthy)
}

/// Begins a download, or takes one over; several can be under way at once, and each may be waited for or not.
pub fn start_fetch(url: &str) -> JsFuture {
    let promise = begun(url).unwrap_or_else(|| window().fetch_with_str(url).into());
    JsFuture::from(promise.unchecked_into::<Promise>())
}

/// The bytes of a download, or why there are none.
pub async fn fetched_bytes(download: JsFuture) -> Result<Vec<u8>, String> {
    let response = download.await.map_err(|_| "no connection".to_string())?;
    let response: web_sys::Response = response.unchecked_into();
    if !response.ok() {
        return Err(format!("the server answered {}", response.status()));
    }
    let broken = |_| "the connection broke".to_string();
    let buffer = JsFuture::from(response.array_buffer().map_err(broken)?.unchecked_into::<Promise>()).await;
    Ok(Uint8Array::new(&buffer.map_err(broken)?).to_vec())
}

/// The bytes of a file that the reader gave. An error means that the browser could not read it.
pub async fn bytes_of(file: &web_sys::File) -> Result<Vec<u8>, ()> {
    let buffer = JsFuture::from(file.array_buffer().unchecked_into::<Promise>()).await.map_err(drop)?;
    Ok(Uint8Array::new(&buffer).to_vec())
}

/// Calls `callback` with the time in milliseconds before the browser paints next.
pub fn before_paint(callback: impl FnOnce(f64) + 'static) {
    let callback = Closure::once_into_js(callback);
    let _ = window().request_animation_frame(callback.unchecked_ref());
}

/// Waits.
pub async fn pause(milliseconds: i32) {
    let promise = Promise::new(&mut |resolve, _| {
        let _ = window().set_timeout_with_callback_and_timeout_and_arguments_0(resolve.unchecked_ref(), milliseconds);
    });
    let _ = JsFuture::from(promise).await;
}

pub fn now() -> f64 {
    window().performance().map_or(0.0, |performance| performance.now())
}

fn media(query: &str) -> Option<web_sys::MediaQueryList> {
    window().match_media(query).ok().flatten()
}

pub fn prefers_reduced_motion() -> bool {
    media("(prefers-reduced-motion: reduce)").is_some_and(|query| query.matches())
}

/// Calls `callback` whenever the page changes between light and dark. Runs until the page goes.
pub fn on_theme_change(callback: impl Fn() + 'static) {
    if let Some(query) = media("(prefers-color-scheme: dark)") {
        let callback = Closure::<dyn Fn()>::new(callback);
        query.set_onchange(Some(callback.as_ref().unchecked_ref()));
        // The list and its handler live as long as the page does.
        std::mem::forget((query, callback));
    }
}

/// Tells the width of `element` now and whenever it changes, until the returned guard is dropped.
pub fn on_resize(element: &web_sys::Element, callback: impl Fn(f32) + 'static) -> ResizeGuard {
    let callback = Closure::<dyn Fn(js_sys::Array)>::new(move |entries: js_sys::Array| {
        let entry: web_sys::ResizeObserverEntry = entries.get(0).unchecked_into();
        callback(entry.content_rect().width() as f32);
    });
    let observer = web_sys::ResizeObserver::new(callback.as_ref().unchecked_ref()).expect("browsers with wasm have it");
    observer.observe(element);
    ResizeGuard { observer, _callback: callback }
}

pub struct ResizeGuard {
    observer: web_sys::ResizeObserver,
    _callback: Closure<dyn Fn(js_sys::Array)>,
}

impl Drop for ResizeGuard {
    fn drop(&mut self) {
        self.observer.disconnect();
    }
}

/// Offers a value as a JSON file to keep.
pub fn save_json(name: &str, value: &JsValue) {
    let Ok(json) = js_sys::JSON::stringify(value) else { return };
    let options = web_sys::BlobPropertyBag::new();
    options.set_type("application/json");
    let Ok(blob) = web_sys::Blob::new_with_str_sequence_and_options(&js_sys::Array::of1(&json), &options) else {
        return;
    };
    let Ok(address) = web_sys::Url::create_object_url_with_blob(&blob) else { return };
    let link = window().document().and_then(|document| document.create_element("a").ok());
    if let Some(link) = link.and_then(|link| link.dyn_into::<web_sys::HtmlAnchorElement>().ok()) {
        link.set_href(&address);
        link.set_download(name);
        link.click();
    }
    // The browser may begin to read it only after this.
    wasm_bindgen_futures::spawn_local(async move {
        pause(60_000).await;
        let _ = web_sys::Url::revoke_object_url(&address);
    });
}

/// The number that a text is. The browser reads it: Rust's own way brings a table of ten kilobytes along.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain =
        !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    plain.then(|| js_sys::Number::parse_float(text)).filter(|number| number.is_finite())
}

/// A value as JavaScript writes it.
pub fn written(value: &JsValue) -> String {
    js_sys::Object::from(value.clone()).to_string().into()
}

/// A property of a JavaScript object, or undefined.
pub fn get(object: &JsValue, key: &str) -> JsValue {
    Reflect::get(object, &key.into()).unwrap_or(JsValue::UNDEFINED)
}

/// A promise that is settled later, by whoever holds the `Settle`.
pub fn deferred() -> (Promise, Settle) {
    let slot = Rc::new(RefCell::new(None));
    let promise = Promise::new(&mut |resolve, reject| *slot.borrow_mut() = Some((resolve, reject)));
    let (resolve, reject) = slot.borrow_mut().take().expect("Promise calls its executor at once");
    (promise.unchecked_into(), Settle { resolve, reject })
}

pub struct Settle {
    resolve: js_sys::Function,
    reject: js_sys::Function,
}

impl Settle {
    pub fn resolve(self, value: &JsValue) {
        let _ = self.resolve.call1(&JsValue::UNDEFINED, value);
    }

    pub fn reject(self, reason: &JsValue) {
        let _ = self.reject.call1(&JsValue::UNDEFINED, reason);
    }
}

/// Scrolls no further than needed to bring the part of that name within a host's shadow root into sight, once it is there.
pub fn reveal(host: &web_sys::HtmlElement, part: &'static str) {
    let host = host.clone();
    before_paint(move |_| {
        let root = host.shadow_root();
        let found = root.and_then(|root| root.query_selector(&format!("[data-part={part}]")).ok().flatten());
        if let Some(element) = found {
            let nearest = web_sys::ScrollIntoViewOptions::new();
            nearest.set_block(web_sys::ScrollLogicalPosition::Nearest);
            element.scroll_into_view_with_scroll_into_view_options(&nearest);
        }
    });
}

/// Focuses an element, be it HTML or SVG.
pub fn focus(element: &web_sys::Element) -> Result<(), JsValue> {
    let focus = get(element, "focus").dyn_into::<js_sys::Function>()?;
    focus.call0(element).map(drop)
}

/// Focuses an element and leaves the page where it is scrolled to.
pub fn focus_without_scrolling(element: &web_sys::Element) -> Result<(), JsValue> {
    let options = js_sys::Object::new();
    Reflect::set(&options, &"preventScroll".into(), &true.into())?;
    let focus = get(element, "focus").dyn_into::<js_sys::Function>()?;
    focus.call1(element, &options).map(drop)
}

/// Scrolls an element's top to that of the window.
pub fn scroll_to(element: &web_sys::Element, smooth: bool) {
    let options = web_sys::ScrollIntoViewOptions::new();
    options.set_block(web_sys::ScrollLogicalPosition::Start);
    if smooth {
        options.set_behavior(web_sys::ScrollBehavior::Smooth);
    }
    element.scroll_into_view_with_scroll_into_view_options(&options);
}

pub fn window_height() -> f64 {
    window().inner_height().ok().and_then(|height| height.as_f64()).unwrap_or(f64::MAX)
}

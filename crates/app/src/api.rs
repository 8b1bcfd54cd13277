//! The *API* is what a page's own scripts see of a widget: attributes and settings in, events and promises out. The
//! element itself is a few lines of JavaScript that load this and pass everything on.

use inferscope_sampler::RULES;
use inferscope_stage::{
    Detail, Event, Pace, Request, Status, StepJson, TraceJson,
    scenes::{SCENES, Source, scene},
};
use inferscope_trace::{Fault, FaultKind, ServingSettings, Step, TRACE_VERSION, Vocabulary};
use js_sys::{Function, Object, Promise};
use leptos::prelude::*;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use crate::{dom, views, widget::Widget};

#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// A widget on a page.
#[wasm_bindgen]
pub struct Handle {
    widget: Widget,
    /// Unmounts when dropped.
    _mounted: Box<dyn std::any::Any>,
}

/// Shows a widget inside `parent`, an element within the shadow root of `host`. The files lie under `base`, which ends in
/// a slash. The host's attributes are its first settings. `load_style` puts a style sheet into the shadow root and gives
/// back a promise of it; `begun` gives what the element has begun to load, by its address.
#[wasm_bindgen]
pub fn mount(
    host: web_sys::HtmlElement,
    parent: web_sys::HtmlElement,
    base: &str,
    default_prompt: &str,
    load_style: Function,
    begun: Function,
) -> Handle {
    dom::hand_over(begun);
    let wanted = host.get_attribute("scene").unwrap_or_else(|| SCENES[0].id.into());
    let found = scene(&wanted);
    let owner = Owner::new();
    let widget = owner.with(|| Widget::new(host.clone(), base, load_style, found.unwrap_or(SCENES[0])));
    if found.is_none() {
        let known: Vec<&str> = SCENES.iter().map(|scene| scene.id).collect();
        widget.note(format!("There is no scene “{wanted}”; this is “{}”. Known: {}.", SCENES[0].id, known.join(", ")));
    }
    widget.set_prompt(default_prompt.into());
    for name in host.get_attribute_names().iter().filter_map(|name| name.as_string()) {
        if let Some(value) = host.get_attribute(&name) {
            set(widget, &name, &value.into());
        }
    }
    let unmount = leptos::mount::mount_to(parent, move || views::root(widget));
    Handle { widget, _mounted: Box::new((unmount, owner)) }
}

#[wasm_bindgen]
impl Handle {
    #[wasm_bindgen(getter)]
    pub fn state(&self) -> String {
        self.widget.status().as_str().into()
    }

    /// The trace with the leading candidates of each step; null before a run.
    #[wasm_bindgen(getter)]
    pub fn trace(&self) -> JsValue {
        leading_trace(self.widget)
    }

    /// The trace with `candidates` entries a step, or with the whole vocabulary if none is named.
    #[wasm_bindgen(js_name = fullTrace)]
    pub fn full_trace(&self, candidates: Option<usize>) -> JsValue {
        let detail = candidates.map_or(Detail::All, Detail::Leading);
        let trace = &self.widget.trace;
        trace
            .with_untracked(|trace| trace.as_ref().map_or(JsValue::NULL, |trace| to_js(&TraceJson::new(trace, detail))))
    }

    /// Resolves when an engine has the model and is warm.
    pub fn load(&self) -> Promise {
        match self.widget.status() {
            Status::Idle | Status::Loading | Status::Error => {
                let promise = self.widget.loaded_promise();
                self.widget.dispatch(Event::Load);
                promise
            }
            _ => Promise::resolve(&JsValue::UNDEFINED),
        }
    }

    /// Starts a run with these settings put over the present ones; resolves with the trace when it ends.
    pub fn run(&self, settings: JsValue) -> Promise {
        let widget = self.widget;
        let mut pace = widget.scene.pace;
        if settings.is_object() {
            let keys = Object::keys(settings.unchecked_ref::<Object>());
            let keys = keys.iter().filter_map(|key| key.as_string());
            // The others are for that model, and may not fit the one before.
            let (model, others): (Vec<String>, Vec<String>) = keys.partition(|key| key == "model");
            for key in model.into_iter().chain(others) {
                let value = dom::get(&settings, &key);
                match (key.as_str(), value.as_string().as_deref()) {
                    ("pace", Some("max")) => pace = Pace::Max,
                    ("pace", _) => pace = Pace::Timed,
                    _ if set(widget, &kebab_case(&key), &value) => {}
                    _ => widget.note(format!("run() knows no setting “{key}”; it went on without.")),
                }
            }
        }
        widget.abort("Another run began.");
        let promise = widget.done_promise();
        widget.dispatch(Event::Run(pace));
        promise
    }

    pub fn play(&self) {
        self.widget.dispatch(Event::Play);
    }

    pub fn pause(&self) {
        self.widget.dispatch(Event::Pause);
    }

    pub fn step(&self) {
        self.widget.dispatch(Event::Step);
    }

    pub fn back(&self) {
        self.widget.dispatch(Event::Back);
    }

    /// To the end of a recorded step; below 0, to the start.
    pub fn seek(&self, step: f64) {
        self.widget.dispatch(Event::Seek((step >= 0.0).then_some(step as usize)));
    }

    /// Goes on from a recorded step with another token; false if there is no such step or token.
    pub fn branch(&self, step: usize, token: u32) -> bool {
        self.widget.branch(step, token)
    }

    pub fn reset(&self) {
        self.widget.dispatch(Event::Reset);
    }

    /// Makes a model of files (an array or a `FileList`) and chooses it; resolves with its description.
    #[wasm_bindgen(js_name = loadModel)]
    pub fn load_model(&self, files: &JsValue) -> Promise {
        let files: Result<Vec<web_sys::File>, JsValue> =
            js_sys::Array::from(files).iter().map(JsCast::dyn_into).collect();
        match files {
            Ok(files) => self.widget.import_promise(files),
            Err(_) => Promise::reject(&js_sys::TypeError::new("loadModel() takes a list of files.").into()),
        }
    }

    /// The page changed an attribute; null when it was removed.
    #[wasm_bindgen(js_name = setAttribute)]
    pub fn set_attribute(&self, name: &str, value: JsValue) {
        set(self.widget, name, &value);
    }

    /// The element left the page.
    pub fn leave(&self) {
        self.widget.leave();
    }
}

/// `topK` as `top-k`.
fn kebab_case(name: &str) -> String {
    let mut out = String::new();
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            out.push('-');
        }
        out.push(char.to_ascii_lowercase());
    }
    out
}

/// Takes one setting by its attribute's name, and says whether there is such a setting. A value that cannot be used is
/// named to the reader, and the setting stays as it was.
fn set(widget: Widget, name: &str, value: &JsValue) -> bool {
    if value.is_null() || value.is_undefined() {
        return true;
    }
    let text = value.as_string().or_else(|| value.as_f64().map(|_| dom::written(value)));
    let text = text.or_else(|| value.as_bool().map(|on| if on { "on" } else { "off" }.to_string())).unwrap_or_default();
    let number = dom::number(&text);
    let whole = number.filter(|number| number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number));
    let rule = RULES.iter().find(|rule| rule.id().replace('_', "-") == name);
    let wrong = |expected: &str| widget.note(format!("{name}=“{text}” cannot be used: {expected}."));
    match name {
        "prompt" => widget.set_prompt(text),
        "max-new-tokens" => match whole.filter(|&tokens| tokens >= 1.0) {
            Some(tokens) => widget.settings.update(|settings| settings.max_new_tokens = tokens as usize),
            None => wrong("it takes a whole number from 1"),
        },
        "seed" => match whole {
            Some(seed) => widget.settings.update(|settings| settings.seed = seed as u32),
            None => wrong("it takes a whole number from 0 to 4294967295"),
        },
        "cache" => match text.as_str() {
            "on" | "off" => widget.settings.update(|settings| settings.cache = text == "on"),
            _ => wrong("it takes “on” or “off”"),
        },
        "model" => {
            if let Err(sentence) = widget.choose_model(&text) {
                widget.note(sentence);
            }
        }
        "backend" => match Request::parse(&text) {
            Some(request) => widget.set_request(request),
            None => wrong("it takes “auto”, “webgpu” or “cpu”"),
        },
        _ => {
            let Some(rule) = rule else { return false };
            match number {
                Some(number) => widget.set_rule(rule.id(), number),
                None => wrong("it takes a number"),
            }
        }
    }
    true
}

pub fn to_js(value: &impl Serialize) -> JsValue {
    value.serialize(&serde_wasm_bindgen::Serializer::json_compatible()).unwrap_or(JsValue::NULL)
}

/// The trace as JSON with the leading candidates of each step. The steps are the objects that the step events carried:
/// to make hundreds of them anew at the end of a run would hold up the page.
pub fn leading_trace(widget: Widget) -> JsValue {
    match widget.scene.source {
        Source::Session => {}
        Source::Pair => return speculation_json(widget),
        Source::Server => return serving_json(widget),
    }
    widget.trace.with_untracked(|trace| {
        let Some(trace) = trace else { return JsValue::NULL };
        let json = to_js(&TraceJson::without_steps(trace));
        let _ = js_sys::Reflect::set(&json, &"steps".into(), &widget.step_objects());
        json
    })
}

/// A run with a draft model: its prompt, text and token ids, and its rounds as the step events carried them.
fn speculation_json(widget: Widget) -> JsValue {
    #[derive(Serialize)]
    struct Json {
        version: u32,
        prompt: Vec<u32>,
        text: String,
        tokens: Vec<u32>,
    }
    let json = widget.speculation.with_untracked(|trace| {
        trace.as_ref().map(|trace| Json {
            version: TRACE_VERSION,
            prompt: trace.prompt.tokens.clone(),
            text: trace.text(),
            tokens: trace.generated(trace.rounds.len()),
        })
    });
    with_steps(widget, json, "rounds")
}

/// Many requests: what each wrote, and the steps as the step events carried them.
fn serving_json(widget: Widget) -> JsValue {
    #[derive(Serialize)]
    struct Asked {
        prompt: String,
        max_new_tokens: usize,
        seed: u32,
        arrives: usize,
        text: String,
        tokens: Vec<u32>,
    }
    #[derive(Serialize)]
    struct Json {
        version: u32,
        settings: ServingSettings,
        requests: Vec<Asked>,
    }
    let json = widget.serving.trace.with_untracked(|trace| {
        let trace = trace.as_ref()?;
        let asked = trace.requests.iter().enumerate().map(|(id, request)| {
            let tokens = trace.generated(id, trace.steps.len());
            Asked {
                prompt: request.prompt.clone(),
                max_new_tokens: request.max_new_tokens,
                seed: request.seed,
                arrives: request.arrives,
                text: trace.vocabulary.text(trace.prompts[id].last().copied(), &tokens),
                tokens,
            }
        });
        Some(Json { version: TRACE_VERSION, settings: trace.settings, requests: asked.collect() })
    });
    with_steps(widget, json, "steps")
}

fn with_steps(widget: Widget, json: Option<impl Serialize>, name: &str) -> JsValue {
    let Some(json) = json else { return JsValue::NULL };
    let json = to_js(&json);
    let _ = js_sys::Reflect::set(&json, &name.into(), &widget.step_objects());
    json
}

/// A step as JSON.
pub fn step_object(vocabulary: &Vocabulary, step: &Step) -> JsValue {
    to_js(&StepJson::new(vocabulary, step, Detail::default()))
}

// Events: they bubble and cross shadow roots, so that a page can listen anywhere above the element.

fn fire(host: &web_sys::HtmlElement, name: &str, detail: &JsValue) {
    let init = web_sys::CustomEventInit::new();
    init.set_bubbles(true);
    init.set_composed(true);
    init.set_detail(detail);
    if let Ok(event) = web_sys::CustomEvent::new_with_event_init_dict(name, &init) {
        let _ = host.dispatch_event(&event);
    }
}

pub fn fire_state_change(host: &web_sys::HtmlElement, status: Status) {
    let detail = Object::new();
    let _ = js_sys::Reflect::set(&detail, &"state".into(), &status.as_str().into());
    fire(host, "statechange", &detail);
}

pub fn fire_step(host: &web_sys::HtmlElement, step: &JsValue) {
    fire(host, "step", step);
}

pub fn fire_done(host: &web_sys::HtmlElement, trace: &JsValue) {
    fire(host, "done", trace);
}

pub fn fire_error(host: &web_sys::HtmlElement, fault: &Fault) {
    fire(host, "error", &error_of(fault));
}

/// A JavaScript error with the fault's sentence, and its kind in `kind`.
pub fn error_of(fault: &Fault) -> JsValue {
    let kind = match fault.kind {
        FaultKind::Model => "model",
        FaultKind::Input => "input",
        FaultKind::Device => "device",
        FaultKind::Network => "network",
        FaultKind::Internal => "internal",
    };
    let error = js_sys::Error::new(&fault.message);
    let _ = js_sys::Reflect::set(&error, &"kind".into(), &kind.into());
    error.into()
}

pub fn abort_error(why: &str) -> JsValue {
    web_sys::DomException::new_with_message_and_name(why, "AbortError").map_or_else(|error| error, JsValue::from)
}

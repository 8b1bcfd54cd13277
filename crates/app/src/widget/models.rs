//! The widget's dealings with models: which one is chosen, and the reading of the reader's own.

use inferscope_sampler::carry_over;
use inferscope_stage::{Event, ModelJson, Selection, Status, format};
use inferscope_trace::{Fault, FaultKind, MAX_IMPORT_BYTES, ModelId, NamedFile};
use leptos::prelude::*;
use wasm_bindgen_futures::spawn_local;

use super::Widget;
use crate::{
    api,
    dom::{self, Settle},
    hub::Loaded,
    models::{MODELS, row},
};

/// A model made of the reader's files. The widget keeps one, chosen or not.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnModel {
    pub id: ModelId,
    pub title: String,
}

/// The reader's files on their way to being a model.
pub(super) struct Import {
    ticket: u32,
    title: String,
    /// Once the files are read, and an engine is to load them.
    id: Option<ModelId>,
    /// The promise to tell, if somebody asked for one.
    settle: Option<Settle>,
}

impl Widget {
    /// Takes another model, by the name of one that ships or of the reader's own. Its run is the next one; what ran on the
    /// model before leaves the screen, since the views show one model at a time.
    ///
    /// # Errors
    /// When there is no model of that name; then nothing changes.
    pub fn choose_model(self, id: &str) -> Result<(), String> {
        let own = self.own.get_untracked();
        if row(id).is_none() && own.as_ref().is_none_or(|own| own.id != id) {
            let now = self.model.get_untracked();
            let known: Vec<&str> =
                MODELS.iter().map(|row| row.id).chain(own.as_ref().map(|own| own.id.as_str())).collect();
            return Err(format!("There is no model “{id}”; this is “{now}”. Known: {}.", known.join(", ")));
        }
        let before = self.model.get_untracked();
        if before == id {
            return Ok(());
        }
        let inner = self.inner();
        inner.hub.retain(id);
        self.clear();
        // A run that waits for a model waits for this one now.
        if self.status() != Status::Loading {
            self.abort("Another model was chosen.");
        }
        self.kept.set([None, None]);
        if !inner.shape_due.replace(true)
            && let Some(loaded) = self.loaded.get_untracked()
        {
            self.carry_settings(loaded.model.vocab_size, usize::MAX);
        }
        self.model.set(id.into());
        inner.hub.release(&before);
        if inner.wanted.get() {
            self.dispatch(Event::Changed);
        }
        Ok(())
    }

    /// The chosen model is loaded: what depends on its shape and vocabulary follows.
    pub(super) fn take_shape(self, loaded: Loaded) {
        let model = loaded.model.clone();
        self.inner().shape_due.set(false);
        self.carry_settings(usize::MAX, model.vocab_size);
        self.selection.update(|selection| {
            *selection = Selection {
                layer: selection.layer.filter(|&layer| layer < model.n_layers),
                head: selection.head.filter(|&head| head < model.n_heads),
                focus: None,
                cell: None,
            }
        });
        self.prompt_tokens.set(None);
        self.loaded.set(Some(loaded));
    }

    /// Between two models, while the size of the vocabulary is not known, settings are such as fit one of any size.
    fn carry_settings(self, from_vocab: usize, to_vocab: usize) {
        self.settings.update(|settings| settings.sampling = carry_over(&settings.sampling, from_vocab, to_vocab));
    }

    // The reader's own model.

    /// The same as `import`, with a promise that is kept with the model's description.
    pub fn import_promise(self, files: Vec<web_sys::File>) -> js_sys::Promise {
        let (promise, settle) = dom::deferred();
        self.start_import(files, Some(settle));
        promise
    }

    /// Makes a model of files and chooses it. What is on screen stays until then, and for good if no model comes of it.
    pub fn import(self, files: Vec<web_sys::File>) {
        self.start_import(files, None);
    }

    fn start_import(self, files: Vec<web_sys::File>, settle: Option<Settle>) {
        let inner = self.inner();
        self.drop_import("Other files were given.");
        self.problem.set(None);
        let ticket = inner.hub.fresh_id();
        let title = title_of(&files);
        inner.import.replace(Some(Import { ticket, title: title.clone(), id: None, settle }));
        let bytes = files.iter().map(|file| file.size()).sum::<f64>();
        if bytes > MAX_IMPORT_BYTES as f64 {
            let megabytes = |bytes: f64| format::fixed(bytes / 1e6, 1);
            return self.import_failed(Fault {
                kind: FaultKind::Model,
                message: format!(
                    "The files have {} MB together, and {} MB is the limit for a model that is to run here.",
                    megabytes(bytes),
                    megabytes(MAX_IMPORT_BYTES as f64)
                ),
            });
        }
        self.importing.set(Some(title.clone()));
        spawn_local(async move {
            let read = read_all(&files).await;
            // The widget may have left the page, and other files may have come.
            let Some(inner) = self.inner.try_get_value() else { return };
            if inner.import.borrow().as_ref().is_none_or(|import| import.ticket != ticket) {
                return;
            }
            match read {
                Err(fault) => self.import_failed(fault),
                Ok(files) => {
                    let id = inner.hub.adopt(&title, files);
                    if let Some(import) = inner.import.borrow_mut().as_mut() {
                        import.id = Some(id.clone());
                    }
                    inner.hub.forgive(&id);
                    inner.hub.look_for_webgpu();
                    self.reconsider();
                }
            }
        });
    }

    /// Brings files that were read to an engine, and hears what became of them.
    pub(super) fn see_to_import(self) {
        let inner = self.inner();
        let Some(id) = inner.import.borrow().as_ref().and_then(|import| import.id.clone()) else { return };
        let choice = self.choice_for(&id);
        if choice.failed {
            self.import_failed(self.why_failed(&id, choice));
        } else if choice.kind.is_some() {
            self.import_done();
        } else {
            for kind in choice.start {
                inner.hub.start(kind, &id);
            }
        }
    }

    fn import_done(self) {
        let inner = self.inner();
        let Some(Import { title, id: Some(id), settle, .. }) = inner.import.take() else { return };
        self.importing.set(None);
        let before = self.own.get_untracked();
        self.own.set(Some(OwnModel { id: id.clone(), title }));
        inner.wanted.set(true);
        let chosen = self.choose_model(&id);
        debug_assert_eq!(chosen, Ok(()), "the widget's own model is known to it");
        if let Some(before) = before {
            inner.hub.release(&before.id);
        }
        if let (Some(settle), Some(loaded)) = (settle, inner.hub.loaded(&id)) {
            settle.resolve(&api::to_js(&ModelJson::new(&loaded.model)));
        }
    }

    fn import_failed(self, fault: Fault) {
        let inner = self.inner();
        let Some(import) = inner.import.take() else { return };
        if let Some(id) = &import.id {
            inner.hub.release(id);
        }
        self.importing.set(None);
        self.problem.set(Some(fault.clone()));
        api::fire_error(&inner.host, &fault);
        if self.status() == Status::Idle {
            // The element said that it was loading when it fetched the app.
            api::fire_state_change(&inner.host, Status::Idle);
        }
        match import.settle {
            Some(settle) => settle.reject(&api::error_of(&fault)),
            // The reader may be looking at the model line, far below the sentence.
            None => dom::reveal(&inner.host, "problem"),
        }
    }

    fn drop_import(self, why: &str) {
        let inner = self.inner();
        if let Some(import) = inner.import.take() {
            if let Some(id) = &import.id {
                inner.hub.release(id);
            }
            if let Some(settle) = import.settle {
                settle.reject(&api::abort_error(why));
            }
        }
        self.importing.set(None);
    }

    pub(super) fn release_models(self) {
        let inner = self.inner();
        self.drop_import("The widget was removed.");
        inner.hub.release(&self.model.get_untracked());
        if let Some(own) = self.own.get_untracked() {
            inner.hub.release(&own.id);
        }
    }
}

/// What a reader would call the model: the name of the largest file, without its ending.
fn title_of(files: &[web_sys::File]) -> String {
    let largest = files.iter().max_by(|a, b| a.size().total_cmp(&b.size()));
    let name = largest.map(web_sys::File::name).unwrap_or_default();
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.into(),
        _ => name,
    }
}

async fn read_all(files: &[web_sys::File]) -> Result<Vec<NamedFile>, Fault> {
    let mut read = Vec::new();
    for file in files {
        let name = file.name();
        let bytes = dom::bytes_of(file).await.map_err(|()| Fault {
            kind: FaultKind::Model,
            message: format!("The file {name} could not be read; is it a folder?"),
        })?;
        read.push(NamedFile { name, bytes });
    }
    Ok(read)
}

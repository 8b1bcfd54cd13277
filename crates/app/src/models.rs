//! A *model row* says what a model that ships is called and where its files lie. A new model is a row here.

use inferscope_trace::{Fault, FaultKind, NamedFile};

use crate::dom;

#[derive(Debug)]
pub struct ModelRow {
    pub id: &'static str,
    /// For the reader to choose by.
    pub title: &'static str,
    /// What is special about it, in a sentence.
    pub description: &'static str,
    /// Query heads and KV heads, as the page says before the model is loaded.
    pub heads: (usize, usize),
    /// It has the main shape, and is compared with the others that have.
    pub sibling: bool,
    /// Mean surprise on 200 held-out stories in nats a token, of the file that ships: see its card in docs/models.
    pub held_out: f64,
    /// Addresses relative to the script of the element.
    pub files: &'static [&'static str],
}

/// Every model that ships; the first is the default.
pub const MODELS: &[ModelRow] = &[
    ModelRow {
        id: "story",
        title: "Grouped queries 8/4",
        description: "One million weights that know small children’s stories. Every two query heads share one KV head.",
        heads: (8, 4),
        sibling: true,
        held_out: 0.933,
        files: &["model/story.infer", TOKENIZER],
    },
    ModelRow {
        id: "story-mha",
        title: "Multi-head 8/8",
        description: "Trained like the first, but every query head has a KV head of its own: the cache is twice as large.",
        heads: (8, 8),
        sibling: true,
        held_out: 0.931,
        files: &["model/story-mha.infer", TOKENIZER],
    },
    ModelRow {
        id: "story-mqa",
        title: "Multi-query 8/1",
        description: "Trained like the first, but all query heads share one KV head: the cache is a quarter as large.",
        heads: (8, 1),
        sibling: true,
        held_out: 0.942,
        files: &["model/story-mqa.infer", TOKENIZER],
    },
    ModelRow {
        id: "story-draft",
        title: "Small draft model 4/1",
        description: "A seventh of the weights, made to guess quickly what the others would write.",
        heads: (4, 1),
        sibling: false,
        held_out: 1.362,
        files: &["model/story-draft.infer", TOKENIZER],
    },
];

/// All models that ship have the same tokens.
const TOKENIZER: &str = "model/story.tokenizer.bin";

pub fn row(id: &str) -> Option<&'static ModelRow> {
    MODELS.iter().find(|row| row.id == id)
}

/// Fetches all files of `row` at once.
pub async fn fetch(base: &str, row: &'static ModelRow) -> Result<Vec<NamedFile>, Fault> {
    let downloads: Vec<_> = row.files.iter().map(|file| dom::start_fetch(&format!("{base}{file}"))).collect();
    let mut files = Vec::new();
    for (&name, download) in row.files.iter().zip(downloads) {
        let bytes = dom::fetched_bytes(download).await.map_err(|cause| Fault {
            kind: FaultKind::Network,
            message: format!("The model file {name} could not be fetched ({cause})."),
        })?;
        files.push(NamedFile { name: name.rsplit('/').next().unwrap_or(name).into(), bytes });
    }
    Ok(files)
}

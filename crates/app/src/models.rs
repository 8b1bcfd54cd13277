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
    /// Addresses relative to the script of the element.
    pub files: &'static [&'static str],
}

/// Every model that ships; the first is the default.
pub const MODELS: &[ModelRow] = &[ModelRow {
    id: "story",
    title: "Grouped queries 8/4",
    description: "One million weights that know small children’s stories. Every two query heads share one KV head.",
    files: &["model/story.infer", TOKENIZER],
}];

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

//! A *model row* says where a model's files lie. A new model is a row here.

use std::sync::Arc;

use inferscope_trace::{Fault, FaultKind};

use crate::dom;

#[derive(Debug)]
pub struct ModelRow {
    pub id: &'static str,
    /// Addresses relative to the script of the element.
    pub checkpoint: &'static str,
    pub tokenizer: &'static str,
}

/// Every model that ships; the first is the default.
pub const MODELS: &[ModelRow] =
    &[ModelRow { id: "story-1m", checkpoint: "model/story-1m.bin", tokenizer: "model/tok1024.bin" }];

/// A model's files as fetched, for any number of engines.
#[derive(Clone, Debug)]
pub struct ModelFiles {
    pub id: &'static str,
    pub checkpoint: Arc<Vec<u8>>,
    pub tokenizer: Arc<Vec<u8>>,
}

/// Fetches both files of `row` at once.
pub async fn fetch(base: &str, row: &'static ModelRow) -> Result<ModelFiles, Fault> {
    let checkpoint = dom::start_fetch(&format!("{base}{}", row.checkpoint));
    let tokenizer = dom::start_fetch(&format!("{base}{}", row.tokenizer));
    let named = |name: &'static str| {
        move |cause: String| Fault {
            kind: FaultKind::Network,
            message: format!("The model file {name} could not be fetched ({cause})."),
        }
    };
    Ok(ModelFiles {
        id: row.id,
        checkpoint: Arc::new(dom::fetched_bytes(checkpoint).await.map_err(named(row.checkpoint))?),
        tokenizer: Arc::new(dom::fetched_bytes(tokenizer).await.map_err(named(row.tokenizer))?),
    })
}

//! Why training cannot begin or go on.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error("a batch of {batch} rows cannot be shared out evenly among {threads} threads; choose a multiple")]
    UnevenBatch { batch: usize, threads: usize },
    #[error("{tokens} tokens are not enough for one step, which takes {needed}; raise --tokens or lower --batch")]
    TooFewTokens { tokens: u64, needed: u64 },
    #[error("a learning rate of {rate} makes no sense; it must lie between 0 and 1")]
    Rate { rate: f64 },
    #[error("training diverged at step {step}: the loss is {loss}; start again with a lower --rate")]
    Diverged { step: u64, loss: f64 },
    #[error(
        "the saved run differs in {setting}: it has {saved}, and you ask for {asked}; use the same settings, another \
         --out folder, or --restart to begin anew"
    )]
    OtherSettings { setting: &'static str, asked: String, saved: String },
    #[error("the saved run is damaged; begin anew with --restart")]
    Damaged,
    #[error("the optimizer's state could not be written or read: {0}")]
    Optimizer(String),
    #[error("{path}: {error}")]
    File { path: PathBuf, error: std::io::Error },
}

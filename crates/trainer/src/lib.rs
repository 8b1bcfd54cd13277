//! The *trainer* makes the models that ship: it writes a corpus of stories, trains a tokenizer and models on it,
//! evaluates them and exports their weights. It runs natively and is no part of the page.

pub mod bpe;
pub mod corpus;
pub mod corpus_command;
pub mod eval;
pub mod export;
pub mod stories;
pub mod train;

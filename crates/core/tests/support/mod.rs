//! What the tests share: the models on disk, and the oracle files of the reference C program beside them.
#![allow(dead_code, unused_imports)] // Each test binary uses its part of this.

pub mod plain;
pub mod scripted;
pub mod small;

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use burn::tensor::Device;
use inferscope_core::{Checkpoint, Model, Tokenizer};
use inferscope_trace::{Observe, Rows, Sampling, Settings, TokenId};

pub use pollster::block_on;

pub const NOTHING: Observe = Observe { attention: Rows::None, kv: false };
pub const EVERYTHING: Observe = Observe { attention: Rows::Last, kv: true };

/// A model with its tokenizer, as files.
pub struct Files {
    pub name: &'static str,
    pub checkpoint: PathBuf,
    pub tokenizer: PathBuf,
    /// Where `promptN.*.txt` are, if the folder is there.
    pub oracles: PathBuf,
}

/// The workspace's root. Asked for at run time: a test binary may have been built in another checkout that shares the
/// build folder.
pub fn root() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..")
}

/// The folder of reference data, or `None` with a word about it.
pub fn reference() -> Option<PathBuf> {
    let folder =
        std::env::var_os("INFERSCOPE_REFERENCE").map_or_else(|| root().join("../shared/reference"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIPPED: the reference data is not at {} (INFERSCOPE_REFERENCE names another folder)", folder.display());
    None
}

/// The models that the reference folder holds.
pub fn reference_models(folder: &Path) -> Vec<Files> {
    let third_party = |folder: &Path, name, checkpoint, tokenizer| {
        let folder = folder.join("third-party").join(name);
        Files {
            name,
            checkpoint: folder.join(checkpoint),
            tokenizer: folder.join(tokenizer),
            oracles: folder.join("reference"),
        }
    };
    vec![
        third_party(folder, "stories260K", "stories260K.bin", "tok512.bin"),
        third_party(folder, "babyllama-tok105", "model5000.bin", "tok105.bin"),
        Files {
            name: "prototype",
            checkpoint: folder.join("prototype/story-1m.bin"),
            tokenizer: folder.join("prototype/tok1024.bin"),
            oracles: folder.join("prototype/reference"),
        },
    ]
}

/// The project's main model, as it ships.
pub fn story() -> Files {
    let folder = root().join("static/model");
    Files {
        name: "story",
        checkpoint: folder.join("story.infer"),
        tokenizer: folder.join("story.tokenizer.bin"),
        oracles: PathBuf::new(),
    }
}

impl Files {
    pub fn read_checkpoint(&self) -> Checkpoint {
        let bytes = fs::read(&self.checkpoint).unwrap();
        match self.checkpoint.extension() {
            Some(extension) if extension == "infer" => Checkpoint::from_inferscope(&bytes).unwrap(),
            _ => Checkpoint::parse(&bytes).unwrap(),
        }
    }

    pub fn read_tokenizer(&self, vocab_size: usize) -> Tokenizer {
        Tokenizer::parse(&fs::read(&self.tokenizer).unwrap(), vocab_size).unwrap()
    }

    pub fn load(&self, device: &Device) -> (Rc<Model>, Tokenizer) {
        let checkpoint = self.read_checkpoint();
        let tokenizer = self.read_tokenizer(checkpoint.shape.vocab_size);
        (Rc::new(Model::load(self.name, &checkpoint, device)), tokenizer)
    }

    /// Every oracle run beside the model.
    pub fn oracles(&self) -> Vec<Oracle> {
        let mut oracles: Vec<Oracle> = (0..10)
            .filter(|i| self.oracles.join(format!("prompt{i}.ids.txt")).is_file())
            .map(|i| Oracle::read(&self.oracles, i))
            .collect();
        oracles.sort_by_key(|oracle| oracle.number);
        assert!(!oracles.is_empty(), "no oracle beside {}", self.name);
        oracles
    }
}

/// A greedy run of the reference C program.
pub struct Oracle {
    pub number: usize,
    pub prompt: String,
    pub prompt_tokens: Vec<TokenId>,
    /// The input token at every position.
    pub ids: Vec<TokenId>,
    /// The text it wrote, with the prompt.
    pub text: String,
    /// The logits of the first positions.
    pub logits: Vec<Vec<f32>>,
}

impl Oracle {
    fn read(folder: &Path, number: usize) -> Self {
        let file = |kind| fs::read_to_string(folder.join(format!("prompt{number}.{kind}.txt"))).unwrap();
        // One folder has no prompt file; its run is the one that is called prompt1 elsewhere.
        let prompt = fs::read_to_string(folder.join(format!("prompt{number}.prompt.txt")));
        fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<T> {
            text.split_whitespace().map(|number| number.parse().unwrap()).collect()
        }
        let ids = file("ids");
        let (prompt_tokens, ids) = ids.strip_prefix("# prompt_tokens: ").unwrap().split_once('\n').unwrap();
        let logits = |line: &str| numbers(line.split_once("logits ").unwrap().1);
        Self {
            number,
            prompt: prompt.unwrap_or_else(|_| "Once upon a time".to_string()),
            prompt_tokens: numbers(prompt_tokens),
            ids: numbers(ids),
            text: file("t0"),
            logits: file("logits").lines().map(logits).collect(),
        }
    }
}

/// Greedy decoding of `max_new_tokens`.
pub fn greedy(max_new_tokens: usize) -> Settings {
    Settings { max_new_tokens, sampling: Sampling::default().with("temperature", 0.0), seed: 0, ..Settings::default() }
}

/// The largest difference of two equally long lists.
pub fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

//! An *evaluation* says how good a model file is, by running it as the page would: on held-out stories, and writing by
//! itself. It knows nothing of how the model was trained.

mod acceptance;
mod card;
mod held_out;
mod induction;
mod names;
mod reading;
mod report;
mod writing;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use inferscope_core::{Checkpoint, LanguageModel, Model, NamedFile, Tokenizer, import};
use inferscope_trace::{ModelInfo, Sampling, TokenId};
use serde::Serialize;

use crate::corpus::{Library, Story};
use crate::stories::{CONTEXT, Encoder, HELD_OUT_SEED, TRAINING_SEED, VOCAB_SIZE};
use held_out::Profile;
use induction::Named;
use names::Introduction;

/// The temperatures at which samples are written and names are counted.
const SAMPLE_TEMPERATURES: [f64; 3] = [0.0, 0.8, 1.5];
const COPY_TEMPERATURES: [f64; 2] = [0.0, 0.8];
/// What the samples begin with.
const SAMPLE_PROMPT: &str = "Once upon a time, there was a girl named Zumo.";

#[derive(clap::Args)]
pub struct Args {
    /// Model files in any format that can be imported
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// Their tokenizer
    #[arg(long)]
    tokenizer: PathBuf,
    /// The draft model whose acceptance is measured with each of them
    #[arg(long)]
    draft: Option<PathBuf>,
    /// The one model as training left it, to say what rounding its weights for the file has cost
    #[arg(long)]
    trained: Option<PathBuf>,
    /// How many held-out stories to measure on
    #[arg(long, default_value_t = 200)]
    stories: u64,
    /// Print one JSON object a model instead of a table
    #[arg(long)]
    json: bool,
    /// Also write each model's card into this folder; what training left lies there as MODEL.training.json
    #[arg(long)]
    cards: Option<PathBuf>,
}

/// Everything that is measured of one model.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    pub model: String,
    pub shape: ModelInfo,
    pub parameters: u64,
    pub file_bytes: u64,
    pub held_out_stories: u64,
    pub held_out: Profile,
    /// Held-out loss in nats of the weights as training left them, where those were given.
    pub loss_as_trained: Option<f64>,
    /// Held-out loss in nats with the matrices in 8 and 4 bits.
    pub loss_int8: f64,
    pub loss_int4: f64,
    /// `[layer][head]`
    pub induction: Vec<Vec<f64>>,
    pub copy: Vec<CopyRate>,
    /// With the draft model, at temperature 1.
    pub acceptance: Option<f64>,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, Serialize)]
pub struct CopyRate {
    pub temperature: f64,
    /// Nothing if it wrote no made-up name.
    pub rate: Option<f64>,
    pub names: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    pub temperature: f64,
    pub text: String,
}

pub fn run(args: &Args) -> Result<()> {
    if args.trained.is_some() && args.models.len() > 1 {
        bail!("--trained goes with one model, not with {}", args.models.len());
    }
    let material = Material::gather(&args.tokenizer, args.stories)?;
    let mut evaluations = Vec::new();
    for path in &args.models {
        eprintln!("measuring {}", path.display());
        let mut evaluation = material.evaluate(path, args.draft.as_deref())?;
        evaluation.loss_as_trained = args.trained.as_deref().map(|path| material.loss(path)).transpose()?;
        if let Some(folder) = &args.cards {
            write_card(&evaluation, folder)?;
        }
        if args.json {
            println!("{}", serde_json::to_string(&evaluation)?);
        }
        evaluations.push(evaluation);
    }
    if !args.json {
        print!("{}", report::table(&evaluations));
    }
    Ok(())
}

fn write_card(evaluation: &Evaluation, folder: &Path) -> Result<()> {
    let training = folder.join(format!("{}.training.json", evaluation.model));
    let bytes = std::fs::read(&training).with_context(|| format!("{} can not be read", training.display()))?;
    let training = serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", training.display()))?;
    let card = folder.join(format!("{}.md", evaluation.model));
    std::fs::write(&card, card::card(evaluation, &training)).with_context(|| format!("cannot write {}", card.display()))
}

struct Loaded {
    checkpoint: Checkpoint,
    model: Rc<Model>,
    file_bytes: u64,
}

/// What every model is measured on.
pub struct Material {
    device: Device,
    tokenizer_file: NamedFile,
    tokenizer: Tokenizer,
    stories: u64,
    /// BOS, a story, BOS: no longer than the context and one token more.
    rows: Vec<Vec<TokenId>>,
    named: Vec<Named>,
    introductions: Vec<Introduction>,
    /// In lower case, of the training stories, without made-up names.
    words: BTreeSet<String>,
}

/// How many stories the list of known words is taken from.
const WORD_STORIES: u64 = 4_000;

impl Material {
    /// Reads the tokenizer and tells the stories.
    pub fn gather(tokenizer: &Path, stories: u64) -> Result<Self> {
        let tokenizer_file = named_file(tokenizer)?;
        let tokenizer = Tokenizer::parse(&tokenizer_file.bytes, VOCAB_SIZE)?;
        let library = Library::built_in();
        let words = (0..WORD_STORIES).flat_map(|index| words(&library.story(TRAINING_SEED, index))).collect();
        let told: Vec<Story> = (0..stories).map(|index| library.story(HELD_OUT_SEED, index)).collect();
        let bos = tokenizer.vocabulary().bos;
        let encoder = Encoder::new(tokenizer.clone());
        let row = |story: &Story| {
            let mut row = vec![bos];
            row.extend(encoder.encode(&story.text));
            row.push(bos);
            row.truncate(CONTEXT + 1);
            row
        };
        let rows = told.iter().map(row).collect();
        let with_name = || told.iter().filter_map(|story| Some((story, story.invented_name.as_ref()?)));
        let named = with_name().map(|(story, name)| Named { tokens: row(story), name: encoder.encode(name) }).collect();
        let introductions = with_name().filter_map(|(story, name)| introduction(&story.text, name)).collect();
        Ok(Self { device: Device::flex(), tokenizer_file, tokenizer, stories, rows, named, introductions, words })
    }

    fn load(&self, path: &Path) -> Result<Loaded> {
        let file = named_file(path)?;
        let file_bytes = file.bytes.len() as u64;
        let imported = import(&[file, self.tokenizer_file.clone()])?;
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let model = Rc::new(Model::load(&id, &imported.checkpoint, &self.device));
        Ok(Loaded { checkpoint: imported.checkpoint, model, file_bytes })
    }

    /// The held-out loss of the model in a file, in nats.
    pub fn loss(&self, path: &Path) -> Result<f64> {
        Ok(held_out::profile(&self.load(path)?.model, &self.rows)?.loss)
    }

    /// Measures the model in a file, with a draft model or without.
    pub fn evaluate(&self, path: &Path, draft: Option<&Path>) -> Result<Evaluation> {
        let Loaded { checkpoint, model, file_bytes } = self.load(path)?;
        let draft = draft.map(|path| self.load(path)).transpose()?;
        let shape = model.info().clone();
        let loss_at = |bits| {
            let model = Model::load(&shape.id, &checkpoint.quantised(bits), &self.device);
            anyhow::Ok(held_out::profile(&model, &self.rows)?.loss)
        };
        let copy = |temperature| {
            let (rate, names) =
                names::copy_rate(&model, &self.tokenizer, &self.introductions, &self.words, temperature)?;
            anyhow::Ok(CopyRate { temperature, rate, names })
        };
        let sample = |temperature| {
            let sampling = Sampling::default().with("temperature", temperature);
            let text = writing::write(&model, &self.tokenizer, SAMPLE_PROMPT, 240, sampling, 1)?;
            anyhow::Ok(Sample { temperature, text: format!("{SAMPLE_PROMPT}{text}") })
        };
        let acceptance = |draft: &Loaded| acceptance::acceptance(&model, &draft.model, &self.tokenizer, 40);
        Ok(Evaluation {
            parameters: shape.n_parameters(),
            file_bytes,
            held_out_stories: self.stories,
            held_out: held_out::profile(&model, &self.rows)?,
            loss_as_trained: None,
            loss_int8: loss_at(8)?,
            loss_int4: loss_at(4)?,
            induction: induction::scores(&model, &self.named)?,
            copy: COPY_TEMPERATURES.into_iter().map(copy).collect::<Result<_>>()?,
            acceptance: draft.as_ref().map(acceptance).transpose()?,
            samples: SAMPLE_TEMPERATURES.into_iter().map(sample).collect::<Result<_>>()?,
            model: shape.id.clone(),
            shape,
        })
    }
}

fn named_file(path: &Path) -> Result<NamedFile> {
    let bytes = std::fs::read(path).with_context(|| format!("{} can not be read", path.display()))?;
    Ok(NamedFile { name: path.display().to_string(), bytes })
}

/// A story up to the end of the sentence that introduces its made-up name.
fn introduction(text: &str, name: &str) -> Option<Introduction> {
    let first = text.find(name)?;
    let end = first + text[first..].find(['.', '!', '?'])?;
    Some(Introduction { prompt: text[..=end].to_string(), name: name.to_string() })
}

fn words(story: &Story) -> Vec<String> {
    let words = story.text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    words.filter(|word| Some(*word) != story.invented_name.as_deref()).map(str::to_lowercase).collect()
}

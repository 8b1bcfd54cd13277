//! The *train command*: one run from its settings to a finished model, going on where it was interrupted.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::batches::Stories;
use super::error::TrainError;
use super::preset::Preset;
use super::progress::Progress;
use super::saved::{History, Point, SavedRun, write_whole};
use super::trainer::{Settings, Trainer};

/// Rows of the held-out measurement.
const HELD_OUT_ROWS: u64 = 64;
/// Steps between two held-out measurements.
const MEASURE_EVERY: u64 = 200;
/// The most that an interruption can cost.
const SAVE_EVERY: Duration = Duration::from_secs(120);

#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Which model
    #[arg(long, value_enum, default_value = "main")]
    pub model: Preset,
    /// How many tokens to train on
    #[arg(long, default_value_t = 40_000_000)]
    pub tokens: u64,
    /// Sequences per step, a multiple of the number of threads
    #[arg(long, default_value_t = 16)]
    pub batch: usize,
    /// Seed of the first weights
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The highest learning rate [default: what suits the model]
    #[arg(long)]
    pub rate: Option<f64>,
    /// Threads to train on; one for each core is best
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// Folder for the saved run and the finished model [default: training/<model>]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Begin anew even if the folder holds a run that could go on
    #[arg(long)]
    pub restart: bool,
}

impl Args {
    /// Where the run is kept.
    pub fn folder(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from("training").join(self.model.name()))
    }
}

/// What is written beside a finished model.
#[derive(Serialize)]
struct Summary<'a> {
    model: &'static str,
    parameters: u64,
    settings: &'a Settings,
    steps: u64,
    tokens: u64,
    seconds: f64,
    tokens_per_second: f64,
    loss: f64,
    held_out_loss: f64,
    history: &'a [Point],
}

/// Trains a model on one supply of stories and measures it on another. Leaves three files in the folder: `run.state`,
/// from which an interrupted run goes on, and at the end `model.bin`, the weights in the llama2.c layout, and
/// `training.json`, what the run was like.
///
/// # Errors
/// With a sentence for whoever typed the command.
pub fn run(args: &Args, training: &impl Stories, held_out: &impl Stories) -> Result<()> {
    let settings = Settings {
        shape: args.model.shape(),
        tokens: args.tokens,
        batch: args.batch,
        threads: args.threads,
        peak_rate: args.rate.unwrap_or(args.model.peak_rate()),
        seed: args.seed,
    };
    let folder = args.folder();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let state_path = folder.join("run.state");
    let saved = if args.restart { None } else { SavedRun::read(&state_path)? };
    let (mut trainer, mut history) = match saved {
        Some(saved) => (Trainer::resume(settings.clone(), saved.state)?, saved.history),
        None => (Trainer::new(settings.clone())?, History::default()),
    };
    eprintln!(
        "{} {}: {} parameters, {} steps of {} tokens, into {}",
        if trainer.step_count() > 0 { "Going on with" } else { "Training" },
        args.model.name(),
        settings.shape.n_parameters(),
        settings.steps(),
        settings.step_tokens(),
        folder.display(),
    );

    let seconds_before = history.seconds;
    let begin = Instant::now();
    let mut last_save = begin;
    let mut recent = Recent::default();
    let mut progress =
        Progress::new(settings.steps() * settings.step_tokens(), trainer.step_count() * settings.step_tokens());
    while !trainer.is_done() {
        recent.add(trainer.step(training)?.loss);
        let step = trainer.step_count();
        if step.is_multiple_of(MEASURE_EVERY) || trainer.is_done() {
            history.points.push(Point {
                step,
                tokens: step * settings.step_tokens(),
                loss: recent.take_mean(),
                held_out_loss: trainer.measure(held_out, HELD_OUT_ROWS),
            });
        }
        let held_out_loss = history.points.last().map(|point| point.held_out_loss);
        progress.update(step * settings.step_tokens(), recent.smooth, held_out_loss);
        history.seconds = seconds_before + begin.elapsed().as_secs_f64();
        if last_save.elapsed() >= SAVE_EVERY || trainer.is_done() {
            SavedRun::new(trainer.state()?, history.clone()).write(&state_path)?;
            last_save = Instant::now();
        }
    }
    progress.finish();
    finish(args, &settings, &trainer, &history, &folder)?;
    Ok(())
}

/// Writes the model and what its training was like.
fn finish(
    args: &Args,
    settings: &Settings,
    trainer: &Trainer,
    history: &History,
    folder: &std::path::Path,
) -> Result<(), TrainError> {
    let last = history.points.last().ok_or(TrainError::Damaged)?;
    let summary = Summary {
        model: args.model.name(),
        parameters: settings.shape.n_parameters(),
        settings,
        steps: last.step,
        tokens: last.tokens,
        seconds: history.seconds,
        tokens_per_second: last.tokens as f64 / history.seconds,
        loss: last.loss,
        held_out_loss: last.held_out_loss,
        history: &history.points,
    };
    let model_path = folder.join("model.bin");
    write_whole(&model_path, &trainer.checkpoint().to_llama2c())?;
    let json = serde_json::to_vec_pretty(&summary).expect("a summary is made of numbers and names");
    write_whole(&folder.join("training.json"), &json)?;
    eprintln!(
        "{}: {:.1} M tokens in {:.0} s ({:.0} tokens/s), loss {:.4}, held-out {:.4}",
        model_path.display(),
        last.tokens as f64 / 1e6,
        history.seconds,
        summary.tokens_per_second,
        last.loss,
        last.held_out_loss,
    );
    Ok(())
}

/// Losses of the steps of late.
#[derive(Default)]
struct Recent {
    sum: f64,
    steps: u64,
    /// A mean in which older steps count ever less.
    smooth: f64,
}

impl Recent {
    fn add(&mut self, loss: f64) {
        self.smooth = if self.steps == 0 && self.smooth == 0.0 { loss } else { 0.95 * self.smooth + 0.05 * loss };
        self.sum += loss;
        self.steps += 1;
    }

    /// The mean of all steps since it was last taken.
    fn take_mean(&mut self) -> f64 {
        let mean = self.sum / self.steps as f64;
        (self.sum, self.steps) = (0.0, 0);
        mean
    }
}

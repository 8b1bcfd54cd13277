//! A *trainer* is a run of training in memory: weights, optimizer and how far it has come. It steps, measures and goes
//! into bytes and back; it knows no clock and no screen.
//!
//! Rows of a batch are shared out evenly among threads. Each works on a fork of the weights, since burn's threads would
//! otherwise wait for each other's recordings; gradients are then summed in the order of the threads, so that a run is
//! the same every time.

use std::sync::Arc;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};
use inferscope_core::Checkpoint;
use inferscope_trace::ModelInfo;
use serde::{Deserialize, Serialize};

use super::batches::{self, Stories};
use super::error::TrainError;
use super::kernels::block::Plan;
use super::model::{Batch, Llama};
use super::optimizer::{Optimizer, mean_and_clip};
use super::schedule::Schedule;

/// Everything that decides how a run goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub shape: ModelInfo,
    /// Tokens to train on; the schedule is laid out for them.
    pub tokens: u64,
    /// Rows of a batch, each as long as the shape's context.
    pub batch: usize,
    pub threads: usize,
    /// The highest learning rate.
    pub peak_rate: f64,
    /// Of the first weights.
    pub seed: u64,
}

impl Settings {
    /// Tokens of one step.
    pub fn step_tokens(&self) -> u64 {
        (self.batch * self.shape.context) as u64
    }

    pub fn steps(&self) -> u64 {
        self.tokens.div_ceil(self.step_tokens())
    }

    /// Whether a run can be made of them.
    pub fn check(&self) -> Result<(), TrainError> {
        if self.threads == 0 || self.batch == 0 || !self.batch.is_multiple_of(self.threads) {
            return Err(TrainError::UnevenBatch { batch: self.batch, threads: self.threads });
        }
        if self.tokens < self.step_tokens() {
            return Err(TrainError::TooFewTokens { tokens: self.tokens, needed: self.step_tokens() });
        }
        if !(self.peak_rate > 0.0 && self.peak_rate < 1.0) {
            return Err(TrainError::Rate { rate: self.peak_rate });
        }
        Ok(())
    }
}

pub struct Trainer {
    settings: Settings,
    schedule: Schedule,
    plan: Arc<Plan>,
    device: Device,
    model: Llama,
    optimizer: Optimizer,
    step: u64,
}

/// What a step was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Nats per token, before the step.
    pub loss: f64,
    /// Length of the gradient before it was clipped.
    pub gradient_norm: f64,
}

/// A trainer as bytes hold it.
#[derive(Serialize, Deserialize)]
pub struct TrainerState {
    pub settings: Settings,
    step: u64,
    /// Every parameter, in the order of the model's fields.
    weights: Vec<Vec<f32>>,
    optimizer: Vec<Vec<u8>>,
}

impl Trainer {
    pub fn new(settings: Settings) -> Result<Self, TrainError> {
        settings.check()?;
        let device = Device::flex().autodiff();
        Ok(Self {
            schedule: Schedule { peak: settings.peak_rate, steps: settings.steps() },
            plan: Arc::new(Plan::new(&settings.shape, settings.shape.context)),
            model: Llama::init(&settings.shape, settings.seed, &device),
            optimizer: Optimizer::new(settings.shape.n_layers),
            device,
            settings,
            step: 0,
        })
    }

    /// Steps that are done.
    pub fn step_count(&self) -> u64 {
        self.step
    }

    pub fn is_done(&self) -> bool {
        self.step >= self.schedule.steps
    }

    /// Trains on the next batch.
    ///
    /// # Errors
    /// When the loss is no number any more; the weights are then those before the step.
    pub fn step(&mut self, stories: &impl Stories) -> Result<StepReport, TrainError> {
        let threads = self.settings.threads;
        let rows = self.settings.batch / threads;
        let first_row = self.step * self.settings.batch as u64;
        let (model, plan) = (&self.model, &self.plan);
        let context = self.settings.shape.context;
        let forks = (0..threads).map(|_| model.clone().fork(&self.device)).collect::<Vec<_>>();
        let results: Vec<(f64, GradientsParams)> = on_threads(forks, |worker, fork| {
            let rows = first_row + (worker * rows) as u64..first_row + ((worker + 1) * rows) as u64;
            let rows: Vec<_> = rows.map(|row| batches::row(stories, row, context + 1)).collect();
            let loss = fork.fused_loss(plan, &Batch::new(&rows, context));
            (f64::from(loss.clone().into_scalar::<f32>()), GradientsParams::from_grads(loss.backward(), &fork))
        });
        let (losses, gradients): (Vec<f64>, Vec<GradientsParams>) = results.into_iter().unzip();
        let loss = losses.iter().sum::<f64>() / threads as f64;
        let gradients = mean_and_clip(&self.model, gradients);
        if !loss.is_finite() || !gradients.norm.is_finite() {
            return Err(TrainError::Diverged { step: self.step, loss });
        }
        let gradient_norm = gradients.norm;
        let rate = self.schedule.rate(self.step);
        self.model = self.optimizer.step(rate, self.model.clone(), gradients, threads);
        self.step += 1;
        Ok(StepReport { loss, gradient_norm })
    }

    /// The mean loss in nats over the first `rows` rows of a supply of stories.
    pub fn measure(&self, stories: &impl Stories, rows: u64) -> f64 {
        let context = self.settings.shape.context;
        let threads = self.settings.threads as u64;
        let model = self.model.valid();
        let losses = on_threads((0..threads).map(|_| model.clone()).collect(), |worker, model| {
            let rows = (worker as u64..rows).step_by(threads as usize);
            rows.map(|row| {
                let row = batches::row(stories, row, context + 1);
                f64::from(model.fused_loss(&self.plan, &Batch::new(&[row], context)).into_scalar::<f32>())
            })
            .collect::<Vec<f64>>()
        });
        losses.iter().flatten().sum::<f64>() / rows as f64
    }

    /// The weights as they are now.
    pub fn checkpoint(&self) -> Checkpoint {
        self.model.to_checkpoint(&self.settings.shape)
    }

    /// All that [`Self::resume`] needs to go on exactly.
    pub fn state(&self) -> Result<TrainerState, TrainError> {
        let mut weights = Weights(Vec::new());
        self.model.visit(&mut weights);
        let optimizer = self.optimizer.to_bytes().map_err(|error| TrainError::Optimizer(error.to_string()))?;
        Ok(TrainerState { settings: self.settings.clone(), step: self.step, weights: weights.0, optimizer })
    }

    /// # Errors
    /// When the state was made by a run with other settings, or is damaged.
    pub fn resume(settings: Settings, state: TrainerState) -> Result<Self, TrainError> {
        if let Some(difference) = difference(&settings, &state.settings) {
            return Err(difference);
        }
        let mut trainer = Self::new(settings)?;
        let mut weights = Load { weights: state.weights.into_iter(), fits: true };
        trainer.model = trainer.model.map(&mut weights);
        if !weights.fits || weights.weights.next().is_some() || state.optimizer.len() != trainer.model.blocks.len() + 1
        {
            return Err(TrainError::Damaged);
        }
        trainer.optimizer =
            Optimizer::from_bytes(state.optimizer).map_err(|error| TrainError::Optimizer(error.to_string()))?;
        trainer.step = state.step;
        Ok(trainer)
    }
}

/// The first setting in which two runs differ.
fn difference(asked: &Settings, saved: &Settings) -> Option<TrainError> {
    let differs = |setting, asked: String, saved: String| {
        (asked != saved).then_some(TrainError::OtherSettings { setting, asked, saved })
    };
    let shape = |s: &ModelInfo| {
        format!(
            "dim {}, hidden {}, {} layers, {}/{} heads, {} tokens, context {}",
            s.dim, s.hidden_dim, s.n_layers, s.n_heads, s.n_kv_heads, s.vocab_size, s.context
        )
    };
    differs("the model's shape", shape(&asked.shape), shape(&saved.shape))
        .or_else(|| differs("the number of tokens", asked.tokens.to_string(), saved.tokens.to_string()))
        .or_else(|| differs("the batch", asked.batch.to_string(), saved.batch.to_string()))
        .or_else(|| differs("the number of threads", asked.threads.to_string(), saved.threads.to_string()))
        .or_else(|| differs("the peak rate", asked.peak_rate.to_string(), saved.peak_rate.to_string()))
        .or_else(|| differs("the seed", asked.seed.to_string(), saved.seed.to_string()))
}

/// Runs a job a thread and returns the results in order.
fn on_threads<I: Send, O: Send>(inputs: Vec<I>, job: impl Fn(usize, I) -> O + Sync) -> Vec<O> {
    let job = &job;
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            inputs.into_iter().enumerate().map(|(worker, input)| scope.spawn(move || job(worker, input))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Collects every parameter.
struct Weights(Vec<Vec<f32>>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(super::model::numbers(param));
    }
}

/// Replaces every parameter.
struct Load {
    weights: std::vec::IntoIter<Vec<f32>>,
    fits: bool,
}

impl ModuleMapper for Load {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let shape = param.shape();
        match self.weights.next() {
            Some(weights) if weights.len() == shape.num_elements() => {
                param.map(|old| Tensor::from_data(TensorData::new(weights, shape), &old.device()).require_grad())
            }
            _ => {
                self.fits = false;
                param
            }
        }
    }
}

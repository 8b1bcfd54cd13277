//! The *optimizer* turns gradients into new weights: Muon for the matrices of the layers, AdamW for the embedding and the
//! norms. It also sums and clips the gradients of several workers.
//!
//! Muon (Jordan et al. 2024) takes a quarter of a step's arithmetic at this size, so each layer has an optimizer of its
//! own and layers are shared out among threads.

use burn::module::{Module, ModuleVisitor, Param, ParamGroup};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{AdamWConfig, AdjustLrFn, GradientsParams, ModuleOptimizer, MuonConfig};
use burn::store::RecordError;
use burn::tensor::{Bytes, Tensor};

use super::model::{Block, Ends, Llama};

/// Gradients longer than this, all parameters taken together, are shortened to it.
const LARGEST_NORM: f64 = 1.0;

const MUON_DECAY: f32 = 0.05;

/// Names of the fields of [`Block`] that are matrices.
const MATRICES: &str = "^(qkv|attention_output|gate_up|down)$";

pub struct Optimizer {
    ends: ModuleOptimizer,
    blocks: Vec<ModuleOptimizer>,
}

/// Gradients by the part of the model that they belong to.
pub struct PartGradients {
    ends: GradientsParams,
    blocks: Vec<GradientsParams>,
    /// Length of the whole gradient before it was clipped.
    pub norm: f64,
}

impl Optimizer {
    pub fn new(n_layers: usize) -> Self {
        let adamw = || AdamWConfig::new().with_beta_1(0.9).with_beta_2(0.98).with_epsilon(1e-8).with_weight_decay(0.0);
        let muon = MuonConfig::new()
            .with_weight_decay(Some(WeightDecayConfig::new(MUON_DECAY)))
            .with_adjust_lr_fn(AdjustLrFn::MatchRmsAdamW);
        let block = || {
            let matrices = ParamGroup::from_regex(MATRICES).expect("a valid expression");
            adamw().init().with_group(matrices, muon.build(), None)
        };
        Self { ends: adamw().init(), blocks: (0..n_layers).map(|_| block()).collect() }
    }

    /// One step at a learning rate. The result does not depend on the number of threads.
    pub fn step(&mut self, rate: f64, model: Llama, gradients: PartGradients, threads: usize) -> Llama {
        let mut jobs: Vec<Vec<BlockJob>> = (0..threads).map(|_| Vec::new()).collect();
        let parts = self.blocks.iter_mut().zip(model.blocks).zip(gradients.blocks).enumerate();
        for (layer, ((optimizer, block), gradients)) in parts {
            jobs[layer % threads].push(BlockJob { layer, optimizer, block, gradients });
        }
        let n_layers = jobs.iter().map(Vec::len).sum();
        let mut blocks: Vec<Option<Block>> = (0..n_layers).map(|_| None).collect();
        let ends = std::thread::scope(|scope| {
            let workers: Vec<_> = jobs
                .into_iter()
                .map(|jobs| scope.spawn(move || jobs.into_iter().map(|job| job.run(rate)).collect::<Vec<_>>()))
                .collect();
            let ends = self.ends.step(rate, model.ends, gradients.ends);
            for worker in workers {
                for (layer, block) in worker.join().expect("an optimizer does not panic") {
                    blocks[layer] = Some(block);
                }
            }
            ends
        });
        Llama { ends, blocks: blocks.into_iter().map(|block| block.expect("every layer had a job")).collect() }
    }

    /// The state of all optimizers, that of the ends first.
    pub fn to_bytes(&self) -> Result<Vec<Vec<u8>>, RecordError> {
        [&self.ends].into_iter().chain(&self.blocks).map(|part| Ok(part.into_bytes()?.to_vec())).collect()
    }

    /// The inverse of [`Self::to_bytes`].
    pub fn from_bytes(parts: Vec<Vec<u8>>) -> Result<Self, RecordError> {
        let Self { ends, blocks } = Self::new(parts.len().saturating_sub(1));
        let mut parts = parts.into_iter().map(Bytes::from_bytes_vec);
        let ends = parts.next().map_or_else(|| Ok(ends.clone()), |bytes| ends.clone().from_bytes(bytes))?;
        let blocks =
            blocks.into_iter().zip(parts).map(|(block, bytes)| block.from_bytes(bytes)).collect::<Result<_, _>>()?;
        Ok(Self { ends, blocks })
    }
}

struct BlockJob<'a> {
    layer: usize,
    optimizer: &'a mut ModuleOptimizer,
    block: Block,
    gradients: GradientsParams,
}

impl BlockJob<'_> {
    fn run(self, rate: f64) -> (usize, Block) {
        (self.layer, self.optimizer.step(rate, self.block, self.gradients))
    }
}

/// The mean of the workers' gradients, summed in their order, clipped to a length of [`LARGEST_NORM`].
pub fn mean_and_clip(model: &Llama, mut workers: Vec<GradientsParams>) -> PartGradients {
    let mut sum = Sum { workers: &mut workers, squares: 0.0, total: GradientsParams::new() };
    let mut sum_of = |part: Part| {
        part.visit(&mut sum);
        std::mem::take(&mut sum.total)
    };
    let ends = sum_of(Part::Ends(&model.ends));
    let blocks: Vec<_> = model.blocks.iter().map(|block| sum_of(Part::Block(block))).collect();
    let squares = sum.squares;
    let mean = 1.0 / workers.len() as f64;
    let norm = squares.sqrt() * mean;
    let factor = mean * (LARGEST_NORM / norm).min(1.0);
    let scaled = |part: Part, gradients| {
        let mut scale = Scale { gradients, factor };
        part.visit(&mut scale);
        scale.gradients
    };
    PartGradients {
        ends: scaled(Part::Ends(&model.ends), ends),
        blocks: model.blocks.iter().zip(blocks).map(|(block, sum)| scaled(Part::Block(block), sum)).collect(),
        norm,
    }
}

/// Anything that is optimized by itself.
enum Part<'a> {
    Ends(&'a Ends),
    Block(&'a Block),
}

impl Part<'_> {
    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        match self {
            Self::Ends(ends) => ends.visit(visitor),
            Self::Block(block) => block.visit(visitor),
        }
    }
}

struct Sum<'a> {
    workers: &'a mut [GradientsParams],
    /// Of all numbers of all sums.
    squares: f64,
    total: GradientsParams,
}

impl ModuleVisitor for Sum<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let sum = self
            .workers
            .iter_mut()
            .map(|worker| worker.remove::<D>(param.id).expect("every parameter takes part in the loss"))
            .reduce(|sum, gradient| sum + gradient)
            .expect("there is a worker");
        self.squares += f64::from(sum.clone().square().sum().into_scalar::<f32>());
        self.total.register(param.id, sum);
    }
}

struct Scale {
    gradients: GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = self.gradients.remove::<D>(param.id).expect("it was summed before");
        self.gradients.register(param.id, gradient * self.factor);
    }
}

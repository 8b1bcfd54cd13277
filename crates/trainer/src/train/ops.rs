//! *Fused operations* are burn operations of our own: a whole layer, and the whole way from the last layer to the loss,
//! each with its own backward pass on [`super::kernels`].
//!
//! As single operations they allocate a handful of tensors a step, keep what they need in caches and record little for
//! the backward pass; that makes training several times faster than with the plain operations of [`super::model`], which
//! compute the same. They exist for burn's Flex backend alone.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Shape, Tensor, TensorData};

use super::kernels::block::{Plan, Saved, Weights};
use super::kernels::head;
use super::model::{Batch, Block, Llama, ids};

/// Token ids, shared with the backward pass.
pub type Targets = Arc<Vec<u32>>;

/// The operations, for every backend that has them.
#[backend_extension(Flex, Autodiff)]
pub trait FusedOps: Backend {
    /// One layer: `x` is `[row · position, dim]`, and so is the result. The weights are shaped as in [`Weights`].
    #[allow(clippy::too_many_arguments)]
    fn block(
        x: FloatTensor<Self>,
        attention_norm: FloatTensor<Self>,
        qkv: FloatTensor<Self>,
        attention_output: FloatTensor<Self>,
        feed_forward_norm: FloatTensor<Self>,
        gate_up: FloatTensor<Self>,
        down: FloatTensor<Self>,
        plan: Arc<Plan>,
    ) -> FloatTensor<Self>;

    /// The mean cross entropy in nats, `[1]`, of `x`: `[row · position, dim]`, `final_norm`: `[dim]` and the tied
    /// `embedding`: `[vocab, dim]`.
    fn next_token_loss(
        x: FloatTensor<Self>,
        final_norm: FloatTensor<Self>,
        embedding: FloatTensor<Self>,
        targets: Targets,
    ) -> FloatTensor<Self>;
}

impl Llama {
    /// The same as [`Llama::loss`], by fused operations. The plan must have been made for the model's shape and the
    /// batch's number of positions.
    pub fn fused_loss(&self, plan: &Arc<Plan>, batch: &Batch) -> Tensor<1> {
        let embedding = self.ends.embedding.val();
        let mut x = embedding.clone().select(0, ids(&batch.inputs, &embedding.device())); // [row · position, dim]
        for block in &self.blocks {
            x = block.fused_forward(x, plan);
        }
        Tensor::from_dispatch(Dispatch::next_token_loss(
            x.into_dispatch(),
            self.ends.final_norm.val().into_dispatch(),
            embedding.into_dispatch(),
            Arc::new(batch.targets.clone()),
        ))
    }
}

impl Block {
    fn fused_forward(&self, x: Tensor<2>, plan: &Arc<Plan>) -> Tensor<2> {
        Tensor::from_dispatch(Dispatch::block(
            x.into_dispatch(),
            self.attention_norm.val().into_dispatch(),
            self.qkv.val().into_dispatch(),
            self.attention_output.val().into_dispatch(),
            self.feed_forward_norm.val().into_dispatch(),
            self.gate_up.val().into_dispatch(),
            self.down.val().into_dispatch(),
            Arc::clone(plan),
        ))
    }
}

type FlexTensor = FloatTensor<Flex>;

/// A layer's weights as burn holds them, in the order of [`FusedOps::block`].
type BlockTensors = [FlexTensor; 6];

impl FusedOps for Flex {
    fn block(
        x: FlexTensor,
        attention_norm: FlexTensor,
        qkv: FlexTensor,
        attention_output: FlexTensor,
        feed_forward_norm: FlexTensor,
        gate_up: FlexTensor,
        down: FlexTensor,
        plan: Arc<Plan>,
    ) -> FlexTensor {
        let weights = [attention_norm, qkv, attention_output, feed_forward_norm, gate_up, down];
        let (y, saved) = forward(&plan, &weights, &x);
        plan.give_back(saved);
        y
    }

    fn next_token_loss(x: FlexTensor, final_norm: FlexTensor, embedding: FlexTensor, targets: Targets) -> FlexTensor {
        let (loss, _) = head::loss(slice(&x), slice(&final_norm), slice(&embedding), &targets, false);
        tensor(vec![loss], [1].into())
    }
}

/// What the backward pass of a layer holds on to.
#[derive(Clone, Debug)]
struct BlockState {
    plan: Arc<Plan>,
    x: FlexTensor,
    weights: BlockTensors,
    saved: Arc<Saved>,
}

#[derive(Debug)]
struct BlockBackward;

impl Backward<Flex, 7> for BlockBackward {
    type State = BlockState;

    fn backward(self, ops: Ops<BlockState, 7>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let BlockState { plan, x, weights, saved } = ops.state;
        let y_gradient = gradients.consume::<Flex>(&ops.node);
        let (x_gradient, of_weights) = plan.backward(views(&weights), slice(&x), &saved, slice(&y_gradient));
        // Nobody else holds them once the graph is being consumed.
        if let Some(saved) = Arc::into_inner(saved) {
            plan.give_back(saved);
        }
        let all = [
            x_gradient,
            of_weights.attention_norm,
            of_weights.qkv,
            of_weights.attention_output,
            of_weights.feed_forward_norm,
            of_weights.gate_up,
            of_weights.down,
        ];
        let shapes = [&x].into_iter().chain(&weights).map(TensorMetadata::shape);
        for ((node, numbers), shape) in ops.parents.into_iter().zip(all).zip(shapes) {
            if let Some(node) = node {
                gradients.register::<Flex>(node.id, tensor(numbers, shape));
            }
        }
    }
}

#[derive(Debug)]
struct LossBackward;

impl Backward<Flex, 3> for LossBackward {
    type State = (Arc<head::Gradients>, [Shape; 3]);

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let (of_inputs, shapes) = ops.state;
        let factor = slice(&gradients.consume::<Flex>(&ops.node))[0];
        let of_inputs = Arc::unwrap_or_clone(of_inputs);
        let all = [of_inputs.x, of_inputs.norm, of_inputs.embedding];
        for ((node, mut numbers), shape) in ops.parents.into_iter().zip(all).zip(shapes) {
            if let Some(node) = node {
                for number in &mut numbers {
                    *number *= factor;
                }
                gradients.register::<Flex>(node.id, tensor(numbers, shape));
            }
        }
    }
}

impl<C: CheckpointStrategy> FusedOps for Autodiff<Flex, C> {
    fn block(
        x: FloatTensor<Self>,
        attention_norm: FloatTensor<Self>,
        qkv: FloatTensor<Self>,
        attention_output: FloatTensor<Self>,
        feed_forward_norm: FloatTensor<Self>,
        gate_up: FloatTensor<Self>,
        down: FloatTensor<Self>,
        plan: Arc<Plan>,
    ) -> FloatTensor<Self> {
        let inputs = [x, attention_norm, qkv, attention_output, feed_forward_norm, gate_up, down];
        let nodes = inputs.each_ref().map(|input| input.node());
        let [x, weights @ ..] = inputs.map(|input| input.into_primitive());
        let (y, saved) = forward(&plan, &weights, &x);
        match BlockBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(preparation) => {
                preparation.finish(BlockState { plan, x, weights, saved: Arc::new(saved) }, y)
            }
            OpsKind::UnTracked(preparation) => {
                plan.give_back(saved);
                preparation.finish(y)
            }
        }
    }

    fn next_token_loss(
        x: FloatTensor<Self>,
        final_norm: FloatTensor<Self>,
        embedding: FloatTensor<Self>,
        targets: Targets,
    ) -> FloatTensor<Self> {
        let inputs = [x, final_norm, embedding];
        let nodes = inputs.each_ref().map(|input| input.node());
        let inputs = inputs.map(|input| input.into_primitive());
        let shapes = inputs.each_ref().map(TensorMetadata::shape);
        let [x, final_norm, embedding] = inputs.each_ref().map(slice);
        let prepared = LossBackward.prepare::<C>(nodes).compute_bound().stateful();
        let tracked = matches!(prepared, OpsKind::Tracked(_));
        let (loss, of_inputs) = head::loss(x, final_norm, embedding, &targets, tracked);
        let loss = tensor(vec![loss], [1].into());
        match (prepared, of_inputs) {
            (OpsKind::Tracked(preparation), Some(of_inputs)) => preparation.finish((Arc::new(of_inputs), shapes), loss),
            (OpsKind::UnTracked(preparation), _) => preparation.finish(loss),
            (OpsKind::Tracked(_), None) => unreachable!("gradients were asked for"),
        }
    }
}

fn forward(plan: &Plan, weights: &BlockTensors, x: &FlexTensor) -> (FlexTensor, Saved) {
    let mut y = vec![0.0; slice(x).len()];
    let saved = plan.forward(views(weights), slice(x), &mut y);
    (tensor(y, x.shape()), saved)
}

fn views(tensors: &BlockTensors) -> Weights<'_> {
    let [attention_norm, qkv, attention_output, feed_forward_norm, gate_up, down] = tensors.each_ref().map(slice);
    Weights { attention_norm, qkv, attention_output, feed_forward_norm, gate_up, down }
}

/// The numbers of a tensor, row after row. Inputs of these operations are parameters and results of operations, none of
/// which is a strided view.
fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice::<f32>().expect("a contiguous tensor of f32")
}

fn tensor(numbers: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(numbers, shape))
}

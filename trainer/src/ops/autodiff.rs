//! Gradients of the fused operations, for every backend that implements [`GnnKernels`].

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::ops::{FloatTensor, IntTensor};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use edgecut_graph::Part;

use super::aggregate::{Aggregate, GnnBackend, GnnKernels, HopsOnDevice, Reduce, SavedLinear};
use super::attention::{Attention, AttentionTensors, SavedAttention};
use super::batch_norm::{BatchNormalization, SavedBatchNorm};
use super::block::Block;
use super::cross_entropy::SavedCrossEntropy;
use super::dropout::DropoutMask;
use super::edge_weights::EdgeWeights;
use super::linear::Activation;
use super::precision::{Precision, multiplying_in, products};

#[derive(Debug)]
struct AggregateBackward;

impl<B: GnnKernels> Backward<B, 1> for AggregateBackward {
    type State = (Aggregate, Option<IntTensor<B>>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (aggregate, argmax) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::aggregate_backward(grad, argmax, &aggregate));
    }
}

#[derive(Debug)]
struct DropoutBackward;

impl<B: GnnKernels> Backward<B, 1> for DropoutBackward {
    type State = DropoutMask;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let mask = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::dropout_multiply(grad, mask));
    }
}

#[derive(Debug)]
struct ReluBackward;

impl<B: GnnKernels> Backward<B, 1> for ReluBackward {
    /// The output and the mask. Positive outputs mark the elements that ReLU passed and dropout kept.
    type State = (FloatTensor<B>, DropoutMask);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (output, mask) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| <B as GnnKernels>::relu_backward(output, grad, mask));
    }
}

#[derive(Debug)]
struct LinearBackward;

impl<B: GnnKernels> Backward<B, 3> for LinearBackward {
    // Includes the precision of the forward pass: the backward pass multiplies in the same precision.
    type State = (SavedLinear<B>, Activation, Precision);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (saved, activation, precision) = ops.state;
        let [x, weight, bias] = ops.parents;
        let grad = grads.consume::<B>(&ops.node);
        let gradients = multiplying_in(precision, || B::linear_backward(saved, grad, activation, x.is_some()));
        for (node, gradient) in [(x, gradients.x), (weight, Some(gradients.weight)), (bias, Some(gradients.bias))] {
            if let (Some(node), Some(gradient)) = (node, gradient) {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct BatchNormBackward;

impl<B: GnnKernels> Backward<B, 3> for BatchNormBackward {
    type State = (SavedBatchNorm<B>, BatchNormalization);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (saved, normalization) = ops.state;
        let gradients = B::batch_norm_backward(saved, grads.consume::<B>(&ops.node), normalization);
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct AttentionBackward;

impl<B: GnnKernels> Backward<B, 3> for AttentionBackward {
    type State = (SavedAttention<B>, Attention);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (saved, attention) = ops.state;
        let gradients = B::attention_backward(saved, grads.consume::<B>(&ops.node), &attention);
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct CrossEntropyBackward;

impl<B: GnnKernels> Backward<B, 1> for CrossEntropyBackward {
    type State = SavedCrossEntropy<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let saved = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::cross_entropy_backward(saved, grad));
    }
}

impl<B: GnnKernels, C: CheckpointStrategy> GnnBackend for Autodiff<B, C> {
    const HAS_OWN_MEMORY: bool = B::OWN_MEMORY;

    fn gnn_supports(precision: Precision, device: &Self::Device) -> bool {
        B::supports(precision, device)
    }

    fn gnn_place(
        values: Vec<f32>,
        shape: [usize; 2],
        precision: Precision,
        device: &Self::Device,
    ) -> FloatTensor<Self> {
        Self::from_inner(B::place(values, shape, precision, device))
    }

    fn gnn_assemble(rows: FloatTensor<Self>, cached: Option<(FloatTensor<Self>, &[u32])>) -> FloatTensor<Self> {
        Self::from_inner(B::assemble(rows.primitive, cached.map(|(cache, slots)| (cache.primitive, slots))))
    }

    fn gnn_hop_kernel(part: &Part, budget_bytes: u64, device: &Self::Device) -> HopsOnDevice {
        B::hop_kernel(part, budget_bytes, device)
    }

    fn gnn_prepare_block(block: &Block, for_backward: bool, device: &Self::Device) {
        B::prepare_block(block, for_backward, device);
    }

    fn gnn_prepare_weights(weights: &EdgeWeights, device: &Self::Device) {
        B::prepare_weights(weights, device);
    }

    fn gnn_aggregate(x: FloatTensor<Self>, aggregate: &Aggregate) -> FloatTensor<Self> {
        // The backward pass needs the edges but not the features, so only the winning edges of a maximum are kept.
        match Backward::<B, 1>::prepare::<C>(AggregateBackward, [x.node.clone()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let (output, argmax) = match aggregate.reduce() {
                    Reduce::Max => {
                        let (output, argmax) = B::aggregate_forward_argmax(x.primitive, aggregate);
                        (output, Some(argmax))
                    }
                    Reduce::Sum | Reduce::Mean | Reduce::WeightedSum(_) => {
                        (B::aggregate_forward(x.primitive, aggregate), None)
                    }
                };
                prep.finish((aggregate.clone(), argmax), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::aggregate_forward(x.primitive, aggregate)),
        }
    }

    fn gnn_dropout(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        match Backward::<B, 1>::prepare::<C>(DropoutBackward, [x.node.clone()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(mask, B::dropout_multiply(x.primitive, mask)),
            OpsKind::UnTracked(prep) => prep.finish(B::dropout_multiply(x.primitive, mask)),
        }
    }

    fn gnn_relu(x: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        match Backward::<B, 1>::prepare::<C>(ReluBackward, [x.node.clone()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let output = B::relu_forward(x.primitive, mask);
                prep.finish((output.clone(), mask), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::relu_forward(x.primitive, mask)),
        }
    }

    fn gnn_linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        activation: Activation,
    ) -> FloatTensor<Self> {
        let nodes = [x.node.clone(), weight.node.clone(), bias.node.clone()];
        let x = x.primitive;
        let weight = weight.primitive;
        let bias = bias.primitive;
        match Backward::<B, 3>::prepare::<C>(LinearBackward, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let output = B::linear_forward(x.clone(), weight.clone(), bias, activation);
                let saved = SavedLinear { x, weight, output: output.clone() };
                prep.finish((saved, activation, products()), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::linear_forward(x, weight, bias, activation)),
        }
    }

    fn gnn_batch_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        normalization: BatchNormalization,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [x.node.clone(), gamma.node.clone(), beta.node.clone()];
        let x = x.primitive;
        let gamma = gamma.primitive;
        let beta = beta.primitive;
        let (output, statistics) = B::batch_norm_forward(x.clone(), gamma.clone(), beta, normalization);
        let given_out = Self::from_inner(statistics.clone());
        let output = match Backward::<B, 3>::prepare::<C>(BatchNormBackward, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let saved = SavedBatchNorm { x, gamma, output: output.clone(), statistics };
                prep.finish((saved, normalization), output)
            }
            OpsKind::UnTracked(prep) => prep.finish(output),
        };
        (output, given_out)
    }

    fn gnn_attention(inputs: AttentionTensors<Self>, attention: &Attention) -> FloatTensor<Self> {
        let nodes = inputs.each_ref().map(|input| input.node.clone());
        let inputs = inputs.map(|input| input.primitive);
        let (output, weights) = B::attention_forward(&inputs, attention);
        match Backward::<B, 3>::prepare::<C>(AttentionBackward, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((SavedAttention { inputs, weights }, attention.clone()), output),
            OpsKind::UnTracked(prep) => prep.finish(output),
        }
    }

    fn gnn_cross_entropy(
        logits: FloatTensor<Self>,
        classes: IntTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (judged, saved) = B::cross_entropy_forward(logits.primitive, classes);
        let sum = B::float_slice(judged.clone(), &[(0..1).into()]);
        let sum = match Backward::<B, 1>::prepare::<C>(CrossEntropyBackward, [logits.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(saved, sum),
            OpsKind::UnTracked(prep) => prep.finish(sum),
        };
        (sum, Self::from_inner(judged))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn::tensor::Tensor;
    use burn_ndarray::NdArray;

    use super::*;
    use crate::ops::{BatchGraph, Block, BlockError, aggregate};

    #[test]
    fn input_that_needs_no_gradient_costs_no_backward_pass() -> Result<(), BlockError> {
        type B = Autodiff<NdArray>;
        let graph = Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?);
        let device = Default::default();
        let block = Block::new(graph, 1, 3)?;
        let x = Tensor::<B, 2>::from_data([[9.0], [1.0], [3.0]], &device);
        let weight = Tensor::<B, 2>::from_data([[2.0]], &device).require_grad();
        let run = |x: Tensor<B, 2>| aggregate(x, &block, &Reduce::Max).matmul(weight.clone()).sum().backward();

        let gradients = run(x.clone());
        assert!(weight.grad(&gradients).is_some() && x.grad(&gradients).is_none());
        assert!(!block.is_prepared(), "the edges were transposed although the input needs no gradient");

        let x = x.require_grad();
        let gradients = run(x.clone());
        assert!(x.grad(&gradients).is_some() && block.is_prepared());
        Ok(())
    }
}

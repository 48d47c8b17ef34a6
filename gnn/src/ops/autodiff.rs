//! Gradients of the fused operations, for every backend that implements [`GnnKernels`].

use std::marker::PhantomData;

use burn::tensor::backend::AutodiffBackend;
use burn::tensor::ops::FloatTensor;
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use super::gnn_backend::GnnBackend;
use super::gnn_kernels::GnnKernels;
use super::operation::Operation;

/// The backward pass of an operation of type `O`.
#[derive(Debug)]
struct OperationBackward<O>(PhantomData<O>);

impl<K: GnnKernels, O: Operation<K, N>, const N: usize> Backward<K, N> for OperationBackward<O> {
    type State = (O, O::Saved);

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (operation, saved) = ops.state;
        let grad = grads.consume::<K>(&ops.node);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let gradients = operation.backward(saved, grad, wanted);
        for (node, gradient) in ops.parents.into_iter().zip(gradients) {
            if let Some(node) = node
                && let Some(gradient) = gradient
            {
                grads.register::<K>(node.id, gradient);
            }
        }
    }
}

impl<K: GnnKernels, C: CheckpointStrategy> GnnBackend for Autodiff<K, C> {
    type Kernels = K;

    fn compute<O, const N: usize>(operation: O, inputs: [FloatTensor<Self>; N]) -> (FloatTensor<Self>, O::Extra)
    where
        O: Operation<K, N>,
    {
        let nodes = inputs.each_ref().map(|input| input.node.clone());
        let inputs = inputs.map(|input| input.primitive);
        let backward = OperationBackward::<O>(PhantomData);
        match Backward::<K, N>::prepare::<C>(backward, nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let forward = operation.forward(inputs, true);
                (prep.finish((operation, forward.saved), forward.output), forward.extra)
            }
            OpsKind::UnTracked(prep) => {
                let forward = operation.forward(inputs, false);
                (prep.finish(forward.output), forward.extra)
            }
        }
    }

    fn from_plain(tensor: FloatTensor<K>) -> FloatTensor<Self> {
        Self::from_inner(tensor)
    }

    fn into_plain(tensor: FloatTensor<Self>) -> FloatTensor<K> {
        tensor.primitive
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn::tensor::Tensor;
    use burn_ndarray::NdArray;

    use super::*;
    use crate::ops::{BatchGraph, Block, BlockError, Reduce, aggregate};

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

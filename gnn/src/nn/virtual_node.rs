//! Virtual nodes of whole graphs.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::mlp::Mlp;
use super::mode::Mode;
use super::weight_init::WeightInit;
use crate::ops::{GnnBackend, Precision, Reduce, Segments, pool};

/// A node that is connected to all nodes of a graph, between two layers: `v = MLP(v' + sum of x)`, where `v'` is the row of
/// the virtual node before, or 0, and `x + v` are the rows that the next layer reads (Gilmer et al., "Neural message passing
/// for quantum chemistry", ICML 2017; Hu et al., "Open graph benchmark", NeurIPS 2020). It lets all nodes of a graph reach
/// each other within two layers.
#[derive(Module, Debug)]
pub struct VirtualNode<B: Backend> {
    /// Two dense layers.
    pub mlp: Mlp<B>,
}

impl<B: Backend> VirtualNode<B> {
    /// Makes a virtual node for rows with this number of columns.
    pub fn with_init(channels: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        Self { mlp: Mlp::new(&[channels; 3], false, init, device) }
    }

    /// Sets the type in which a GPU multiplies matrices. The default is `f32`.
    pub fn set_precision(&mut self, precision: Precision) {
        self.mlp.set_precision(precision);
    }
}

impl<B: GnnBackend> VirtualNode<B> {
    /// Returns the rows of the nodes that the next layer reads, and replaces the row of each graph's virtual node.
    ///
    /// # Shapes
    /// - `x` and output: `[rows of all segments, channels]`
    /// - `row`: `[num_segments, channels]`
    ///
    /// # Panics
    /// If `x` has another number of rows or columns.
    pub fn forward(
        &self,
        x: Tensor<B, 2>,
        row: &mut Option<Tensor<B, 2>>,
        segments: &Segments,
        mode: Mode,
    ) -> Tensor<B, 2> {
        let sum = pool(x.clone(), segments, &Reduce::Sum);
        let read = match row.take() {
            Some(before) => before + sum,
            None => sum,
        };
        let new = self.mlp.forward(read, mode);
        *row = Some(new.clone());
        x + segments.expand(new)
    }
}

//! The tensors of decoders of links.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_gnn::nn::AnyLinkDecoder;

/// Returns the values of a decoder's tensors, in the order of its fields.
pub(crate) fn tensors_of<B: Backend>(decoder: &AnyLinkDecoder<B>) -> Vec<Vec<f64>> {
    let mut values = Values(Vec::new());
    decoder.visit(&mut values);
    values.0
}

struct Values(Vec<Vec<f64>>);

impl<B: Backend> ModuleVisitor<B> for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.push(param.val().into_data().iter::<f64>().collect());
    }
}

//! The names of a model's tensors, which are those of its file.

use super::is_named;
use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// A tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorName {
    /// Its name in a model file.
    pub(crate) name: String,
    /// The number of its elements.
    pub(crate) num_elements: usize,
    /// False for running statistics and frozen parameters.
    pub(crate) is_trained: bool,
}

/// Returns the tensors of a model in the order of its fields.
pub(crate) fn tensor_names<B: Backend, M: Module<B>>(model: &M) -> Vec<TensorName> {
    let mut names = Names { path: ModulePath::default(), tensors: Vec::new() };
    model.visit(&mut names);
    names.tensors
}

struct Names {
    path: ModulePath,
    tensors: Vec<TensorName>,
}

impl<B: Backend> ModuleVisitor<B> for Names {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, container_type: &str) {
        self.path.exit(container_type);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.tensors.push(TensorName {
            name: self.path.name(),
            num_elements: param.shape().num_elements(),
            is_trained: param.is_require_grad(),
        });
    }
}

/// The position of a visitor in a model.
#[derive(Default)]
pub(crate) struct ModulePath(Vec<String>);

impl ModulePath {
    pub(crate) fn enter(&mut self, name: &str, container_type: &str) {
        if is_named(container_type) {
            self.0.push(name.to_owned());
        }
    }

    pub(crate) fn exit(&mut self, container_type: &str) {
        if is_named(container_type) {
            self.0.pop();
        }
    }

    /// Returns the name of the tensor at this position.
    pub(crate) fn name(&self) -> String {
        self.0.join(".")
    }
}

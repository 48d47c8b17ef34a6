//! The names of a model's tensors in its file.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Implements the methods of a visitor or a mapper by which the field `$path` follows its position.
macro_rules! follows_path {
    ($path:ident) => {
        fn enter_module(&mut self, name: &str, container_type: &str) {
            self.$path.enter(name, container_type);
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.$path.exit();
        }
    };
}
pub(crate) use follows_path;

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
    follows_path!(path);

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
pub(crate) struct ModulePath(Vec<Segment>);

/// A module on the path to a tensor.
struct Segment {
    name: String,
    /// False for variants of an enum. The configuration determines the variant, so names do not contain it, except for
    /// a convolution over all edge types.
    is_named: bool,
}

impl ModulePath {
    pub(crate) fn enter(&mut self, name: &str, container_type: &str) {
        let segment = match container_type.strip_prefix("Enum:") {
            None => Segment { name: name.to_owned(), is_named: true },
            Some("AnyTypedConv") if name == "Direct" => {
                // A layer with a single convolution has the names of the convolution, without the field `conv`.
                if let Some(field) = self.0.last_mut() {
                    field.is_named = false;
                }
                Segment { name: name.to_owned(), is_named: false }
            }
            Some("AnyTypedConv") if name != "PerEdgeType" => Segment { name: name.to_lowercase(), is_named: true },
            Some(_) => Segment { name: name.to_owned(), is_named: false },
        };
        self.0.push(segment);
    }

    pub(crate) fn exit(&mut self) {
        self.0.pop();
    }

    /// Returns the name of the tensor at this position.
    pub(crate) fn name(&self) -> String {
        let mut names = Vec::with_capacity(self.0.len());
        for (position, segment) in self.0.iter().enumerate().filter(|(_, segment)| segment.is_named) {
            // `relations`, the number of the edge type, and the variant of its convolution. The names that SAGE and GAT
            // have there are older than the names of other convolutions.
            let variant = self.0.get(position + 2).filter(|_| segment.name == "relations");
            match variant.map(|variant| variant.name.as_str()) {
                Some("Sage") => names.push("weights"),
                Some("Gat") => names.push("attentions"),
                _ => names.push(&segment.name),
            }
        }
        // A SAGE layer has one tensor per edge type.
        if names.contains(&"weights") && names.last() == Some(&"weight_neighbors") {
            names.pop();
        }
        names.join(".")
    }
}

//! Gradients and parameters as one flat vector, the form in which ranks exchange them.
//!
//! Only trained parameters have gradients. Running statistics and frozen parameters have none.
//!
//! Values are in the order of the module's fields, which is the same in every process. burn's parameter ids are random
//! in each process, so they are never exchanged.

pub use crate::error::FlatLengthError;
use burn::module::{AutodiffModule, Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::{consumed, host_values};

/// Returns the number of float parameters of a module, including running statistics.
pub fn num_parameters<B: Backend, M: Module<B>>(module: &M) -> usize {
    count(module, false)
}

/// Returns the number of trained float parameters, which is the number of gradients.
pub fn num_trained_parameters<B: AutodiffBackend, M: AutodiffModule<B>>(module: &M) -> usize {
    count(module, true)
}

fn count<B: Backend, M: Module<B>>(module: &M, only_trained: bool) -> usize {
    struct Count {
        only_trained: bool,
        sum: usize,
    }
    impl<B: Backend> ModuleVisitor<B> for Count {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if param.is_require_grad() || !self.only_trained {
                self.sum += param.shape().num_elements();
            }
        }
    }
    let mut count = Count { only_trained, sum: 0 };
    module.visit(&mut count);
    count.sum
}

/// Returns the gradients of all trained parameters in the order of the module's fields; zeros for a parameter without a
/// gradient.
///
/// # Shapes
/// - output: `[num_trained_parameters]`
pub fn flatten_gradients<B: AutodiffBackend, M: AutodiffModule<B>>(module: &M, gradients: GradientsParams) -> Vec<f32> {
    read_together(gradient_pieces(module, gradients))
}

/// Returns the flattened gradient of each trained parameter in the order of the module's fields; zeros for a parameter
/// without a gradient.
pub(crate) fn gradient_pieces<B: AutodiffBackend, M: AutodiffModule<B>>(
    module: &M,
    gradients: GradientsParams,
) -> Vec<Tensor<B::InnerBackend, 1>> {
    struct Pieces<B: AutodiffBackend> {
        gradients: GradientsParams,
        pieces: Vec<Tensor<B::InnerBackend, 1>>,
    }
    impl<B: AutodiffBackend> ModuleVisitor<B> for Pieces<B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if !param.is_require_grad() {
                return;
            }
            let count = param.shape().num_elements();
            self.pieces.push(match self.gradients.remove::<B::InnerBackend, D>(param.id) {
                Some(gradient) => gradient.reshape([count]),
                None => Tensor::zeros([count], &param.device()),
            });
        }
    }
    let mut visitor = Pieces::<B> { gradients, pieces: Vec::new() };
    module.visit(&mut visitor);
    visitor.pieces
}

/// Returns the concatenated values of tensors. Waits for their device and copies from it once.
pub(crate) fn read_together<B: Backend>(pieces: Vec<Tensor<B, 1>>) -> Vec<f32> {
    if pieces.is_empty() {
        return Vec::new();
    }
    let all = host_values(Tensor::cat(pieces, 0));
    consumed();
    all
}

/// Converts a flat vector to the gradients for an optimizer, the inverse of [`flatten_gradients`].
///
/// # Shapes
/// - `flat`: `[num_trained_parameters]`
///
/// # Errors
/// [`FlatLengthError`] if the length differs.
pub fn unflatten_gradients<B: AutodiffBackend, M: AutodiffModule<B>>(
    module: &M,
    flat: &[f32],
) -> Result<GradientsParams, FlatLengthError> {
    struct Unflatten<'a, B: AutodiffBackend> {
        gradients: GradientsParams,
        values: &'a [f32],
        /// All values on the device, copied there once at the first parameter.
        placed: Option<Tensor<B::InnerBackend, 1>>,
        /// The number of values that parameters before this one have taken.
        taken: usize,
    }
    impl<B: AutodiffBackend> ModuleVisitor<B> for Unflatten<'_, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if !param.is_require_grad() {
                return;
            }
            let place =
                || Tensor::from_data(TensorData::new(self.values.to_vec(), [self.values.len()]), &param.device());
            let placed = self.placed.get_or_insert_with(place);
            let end = self.taken + param.shape().num_elements();
            let gradient = placed.clone().slice(self.taken..end).reshape(param.dims());
            self.taken = end;
            self.gradients.register(param.id, gradient);
        }
    }
    check_length(flat, num_trained_parameters(module))?;
    let mut visitor = Unflatten { gradients: GradientsParams::new(), values: flat, placed: None, taken: 0 };
    module.visit(&mut visitor);
    Ok(visitor.gradients)
}

/// Returns a copy of all parameters in the order of the module's fields.
///
/// # Shapes
/// - output: `[num_parameters]`
pub fn flatten_parameters<B: Backend, M: Module<B>>(module: &M) -> Vec<f32> {
    struct Flatten(Vec<f32>);
    impl<B: Backend> ModuleVisitor<B> for Flatten {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            self.0.extend(host_values(param.val()));
        }
    }
    let mut visitor = Flatten(Vec::with_capacity(num_parameters(module)));
    module.visit(&mut visitor);
    visitor.0
}

/// Returns the module with the given parameters, the inverse of [`flatten_parameters`]. Parameters keep their ids, so
/// that the state of an optimizer still belongs to them, and stay trained or frozen.
///
/// # Shapes
/// - `flat`: `[num_parameters]`
///
/// # Errors
/// [`FlatLengthError`] if the length differs.
pub fn load_parameters<B: Backend, M: Module<B>>(module: M, flat: &[f32]) -> Result<M, FlatLengthError> {
    struct Load<'a>(&'a [f32]);
    impl<B: Backend> ModuleMapper<B> for Load<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            let is_trained = param.is_require_grad();
            let device = param.device();
            param.map(|old| take_tensor(&mut self.0, old.dims(), &device).set_require_grad(is_trained))
        }
    }
    check_length(flat, num_parameters(&module))?;
    Ok(module.map(&mut Load(flat)))
}

/// Returns a copy of the values that are not trained, running statistics and frozen parameters, in the order of the
/// module's fields.
///
/// # Shapes
/// - output: `[num_parameters - num_trained_parameters]`
pub fn flatten_statistics<B: AutodiffBackend, M: AutodiffModule<B>>(module: &M) -> Vec<f32> {
    struct Flatten(Vec<f32>);
    impl<B: AutodiffBackend> ModuleVisitor<B> for Flatten {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if !param.is_require_grad() {
                self.0.extend(host_values(param.val()));
            }
        }
    }
    let mut visitor = Flatten(Vec::new());
    module.visit(&mut visitor);
    visitor.0
}

/// Returns the module with the given statistics, the inverse of [`flatten_statistics`].
///
/// # Shapes
/// - `flat`: `[num_parameters - num_trained_parameters]`
///
/// # Errors
/// [`FlatLengthError`] if the length differs.
pub fn load_statistics<B: AutodiffBackend, M: AutodiffModule<B>>(
    module: M,
    flat: &[f32],
) -> Result<M, FlatLengthError> {
    struct Load<'a>(&'a [f32]);
    impl<B: AutodiffBackend> ModuleMapper<B> for Load<'_> {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
            if param.is_require_grad() {
                return param;
            }
            let device = param.device();
            param.map(|old| take_tensor(&mut self.0, old.dims(), &device))
        }
    }
    check_length(flat, num_parameters(&module) - num_trained_parameters(&module))?;
    Ok(module.map(&mut Load(flat)))
}

fn check_length(flat: &[f32], expected: usize) -> Result<(), FlatLengthError> {
    if flat.len() == expected { Ok(()) } else { Err(FlatLengthError { given: flat.len(), expected }) }
}

/// Takes a tensor off the front of a flat vector. The caller has checked the vector's length.
fn take_tensor<B: Backend, const D: usize>(rest: &mut &[f32], dims: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let (values, tail) = rest.split_at(dims.iter().product());
    *rest = tail;
    Tensor::from_data(TensorData::new(values.to_vec(), dims), device)
}

//! The optimizer of every training loop.

use burn::module::AutodiffModule;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::{Adam, AdamConfig};
use burn::tensor::backend::AutodiffBackend;

/// The value that Adam adds to the root of the second moment. It is the default of torch and of
/// [`SparseAdam`](edgecut_dist_sampler::SparseAdam). burn's default of 1e-5 shortens the steps of small gradients.
const ADAM_EPSILON: f32 = 1e-8;

/// An Adam optimizer for modules of type `M`.
pub type AdamOf<B, M> = OptimizerAdaptor<Adam, M, B>;

/// Returns Adam with the settings of `torch.optim.Adam`: betas of 0.9 and 0.999, an epsilon of 1e-8, and an L2 penalty of
/// `weight_decay` on all parameters (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015).
///
/// All training loops of this workspace use this function, so that their results agree.
///
/// ```
/// use burn::backend::{Autodiff, NdArray};
/// use edgecut_trainer::adam;
/// use edgecut_trainer::models::{ModelKind, NodeModel, NodeModelConfig};
/// type Grad = Autodiff<NdArray>;
/// let model: NodeModel<Grad> = NodeModelConfig::new(ModelKind::Gcn, 4, 8, 2, 2).init(0, &Default::default())?;
/// let optimizer = adam::<Grad, NodeModel<Grad>>(5e-4);
/// # let _ = (model, optimizer);
/// # Ok::<(), edgecut_trainer::models::ModelError>(())
/// ```
pub fn adam<B: AutodiffBackend, M: AutodiffModule<B>>(weight_decay: f64) -> AdamOf<B, M> {
    let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
    AdamConfig::new().with_epsilon(ADAM_EPSILON).with_weight_decay(decay).init()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Dense, WeightInit};
    use burn::backend::{Autodiff, NdArray};
    use burn::module::Param;
    use burn::optim::{GradientsParams, Optimizer};
    use burn::tensor::Tensor;
    use std::fs;
    use std::path::{Path, PathBuf};

    type Grad = Autodiff<NdArray>;

    #[test]
    fn the_first_step_of_a_small_gradient_is_one_of_the_learning_rate() {
        let (device, gradient, lr) = (Default::default(), 1e-6, 0.25);
        let layer = Dense::<Grad>::new(1, 1, &mut WeightInit::new(0), &device);
        let before = layer.weight.val().into_scalar();
        let loss = layer.weight.val().sum().mul_scalar(gradient);
        let gradients = GradientsParams::from_grads(loss.backward(), &layer);
        let layer = adam::<Grad, _>(0.0).step(lr, layer, gradients);
        let moved = f64::from(before - layer.weight.val().into_scalar());
        // torch moves by lr g / (|g| + 1e-8); an epsilon of 1e-5 would leave a tenth of it.
        let expected = lr * gradient / (gradient + 1e-8);
        assert!((moved - expected).abs() < 1e-3 * expected, "moved by {moved} instead of {expected}");
    }

    #[test]
    fn the_penalty_is_added_to_gradients() {
        let device = Default::default();
        let mut layer = Dense::<Grad>::new(1, 1, &mut WeightInit::new(0), &device);
        layer.weight = Param::from_tensor(Tensor::from_data([[2.0]], &device));
        let loss = layer.weight.val().sum().mul_scalar(-1.0);
        let gradients = GradientsParams::from_grads(loss.backward(), &layer);
        // -1 + 0.75 * 2 is positive: the weight falls.
        let layer = adam::<Grad, _>(0.75).step(0.5, layer, gradients);
        let weight = layer.weight.val().into_scalar();
        assert!((weight - 1.5).abs() < 1e-5, "{weight}");
    }

    /// Collects all Rust files below a folder, except those in `target` folders.
    fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of the workspace").flatten() {
            let path = entry.path();
            let is_build = path.file_name().is_some_and(|name| name == "target");
            if path.is_dir() && !is_build {
                rust_files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn no_other_file_configures_adam() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        for crate_folder in ["trainer", "benches", "examples", "dist-loader", "dist-sampler", "gpu"] {
            rust_files(&workspace.join(crate_folder), &mut files);
        }
        let configures = |path: &PathBuf| fs::read_to_string(path).expect("a Rust file").contains("AdamConfig");
        let found: Vec<PathBuf> = files.into_iter().filter(configures).collect();
        assert_eq!(found.len(), 1, "take adam() of edgecut-trainer instead of AdamConfig: {found:?}");
        assert!(found[0].ends_with("trainer/src/optimizer.rs"), "{found:?}");
    }
}

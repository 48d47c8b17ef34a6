//! The optimizers of the training loops.

pub(crate) mod optimizer_state;

use burn::module::AutodiffModule;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{Adam, AdamConfig, AdamW, AdamWConfig, GradientsParams, Optimizer, Sgd, SgdConfig};
use burn::tensor::backend::AutodiffBackend;
use edgecut_settings::words;

/// The value that Adam adds to the root of the second moment. It is the default of torch and of
/// [`SparseAdam`](edgecut_dist_sampler::SparseAdam). burn's default of 1e-5 shortens the steps of small gradients.
const ADAM_EPSILON: f32 = 1e-8;

/// An Adam optimizer for modules of type `M`.
pub type AdamOf<B, M> = OptimizerAdaptor<Adam, M, B>;

/// Returns Adam with the settings of `torch.optim.Adam`: betas of 0.9 and 0.999, an epsilon of 1e-8, and an L2 penalty of
/// `weight_decay` on all parameters (Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015).
///
/// All training loops of this workspace use this function, so that their results agree.
pub fn adam<B: AutodiffBackend, M: AutodiffModule<B>>(weight_decay: f64) -> AdamOf<B, M> {
    let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
    AdamConfig::new().with_epsilon(ADAM_EPSILON).with_weight_decay(decay).init()
}

/// The kind of an optimizer. Each computes what the one of the same name in `torch.optim` computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Adam with an L2 penalty, see [`adam`].
    #[default]
    Adam,
    /// Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019).
    AdamW,
    /// Stochastic gradient descent with momentum and an L2 penalty.
    Sgd,
}

words!(
    OptimizerKind,
    "optimizer",
    Adam = "adam": "Adam with an L2 penalty",
    AdamW = "adamw": "Adam with decoupled weight decay",
    Sgd = "sgd": "Stochastic gradient descent with momentum",
);

/// The momentum of [`OptimizerKind::Sgd`] unless another one is given.
const DEFAULT_MOMENTUM: f64 = 0.9;

/// An optimizer of one of the kinds.
pub(crate) enum AnyOptimizer<B: AutodiffBackend, M: AutodiffModule<B>> {
    Adam(AdamOf<B, M>),
    AdamW(OptimizerAdaptor<AdamW, M, B>),
    Sgd(OptimizerAdaptor<Sgd<B::InnerBackend>, M, B>),
}

impl<B: AutodiffBackend, M: AutodiffModule<B>> AnyOptimizer<B, M> {
    /// Makes an optimizer. The momentum, 0 for none, is for [`OptimizerKind::Sgd`].
    pub(crate) fn new(kind: OptimizerKind, momentum: Option<f64>, weight_decay: f64) -> Self {
        match kind {
            OptimizerKind::Adam => Self::Adam(adam(weight_decay)),
            OptimizerKind::AdamW => {
                let config = AdamWConfig::new().with_epsilon(ADAM_EPSILON).with_weight_decay(weight_decay as f32);
                Self::AdamW(config.init())
            }
            OptimizerKind::Sgd => {
                let momentum = momentum.unwrap_or(DEFAULT_MOMENTUM);
                let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
                let config = MomentumConfig::new().with_momentum(momentum).with_dampening(0.0);
                let momentum = (momentum > 0.0).then_some(config);
                Self::Sgd(SgdConfig::new().with_weight_decay(decay).with_momentum(momentum).init())
            }
        }
    }

    pub(crate) fn step(&mut self, lr: f64, model: M, gradients: GradientsParams) -> M {
        match self {
            Self::Adam(optimizer) => optimizer.step(lr, model, gradients),
            Self::AdamW(optimizer) => optimizer.step(lr, model, gradients),
            Self::Sgd(optimizer) => optimizer.step(lr, model, gradients),
        }
    }
}

/// Scales gradients down to the norm `max_norm` if theirs is larger, as `torch.nn.utils.clip_grad_norm_`.
pub(crate) fn clip_norm(gradients: &mut [f32], max_norm: f64) {
    let norm = gradients.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    let factor = (max_norm / (norm + 1e-6)) as f32;
    if factor < 1.0 {
        gradients.iter_mut().for_each(|value| *value *= factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::backend::{Autodiff, NdArray};
    use burn::module::Param;
    use burn::tensor::Tensor;
    use edgecut_gnn::nn::{Dense, WeightInit};

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

    /// Takes four steps from fixed values with fixed gradients. torch 2.4.1 gives the expected values.
    fn check(kind: (OptimizerKind, Option<f64>), weight_decay: f64, max_norm: Option<f64>, expected: [f32; 3]) {
        let device = Default::default();
        let mut layer = Dense::<Grad>::new(3, 1, &mut WeightInit::new(0), &device);
        layer.weight = Param::from_tensor(Tensor::<Grad, 1>::from_floats([0.5, -1.0, 2.0], &device).reshape([3, 1]));
        let mut optimizer = AnyOptimizer::<Grad, _>::new(kind.0, kind.1, weight_decay);
        for gradient in [[1.0, -0.5, 0.25], [-0.8, 0.1, 0.0], [0.3, 0.2, -4.0], [0.05, -1.5, 2.0]] {
            let mut gradient: [f32; 3] = gradient;
            if let Some(max_norm) = max_norm {
                clip_norm(&mut gradient, max_norm);
            }
            let factors = Tensor::<Grad, 1>::from_floats(gradient, &device).reshape([3, 1]);
            let loss = (layer.weight.val() * factors).sum();
            let gradients = GradientsParams::from_grads(loss.backward(), &layer);
            layer = optimizer.step(0.1, layer, gradients);
        }
        let found: Vec<f32> = layer.weight.val().into_data().to_vec().expect("floats");
        let is_close = |(found, expected): (&f32, &f32)| (found - expected).abs() < 2e-6;
        assert!(found.iter().zip(&expected).all(is_close), "{kind:?}: {found:?}");
    }

    #[test]
    fn optimizers_move_parameters_as_those_of_torch() {
        let sgd = |momentum| (OptimizerKind::Sgd, momentum);
        check((OptimizerKind::Adam, None), 0.01, None, [0.355_895_7, -0.771_819_9, 1.905_473_5]);
        check((OptimizerKind::AdamW, None), 0.05, None, [0.349_224_8, -0.759_329, 1.874_082_4]);
        check(sgd(None), 0.01, None, [0.307_010_9, -0.734_508, 2.455_780_3]);
        check(sgd(Some(0.0)), 0.0, None, [0.445, -0.83, 2.175]);
        check(sgd(Some(0.0)), 0.0, Some(1.0), [0.483_243_6, -0.911_348_3, 1.997_790_6]);
    }
}

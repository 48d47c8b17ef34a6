//! Initial weights that depend on a seed only.

use burn::module::Param;
use burn::nn::{LayerNorm, LayerNormConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};

use edgecut_graph::rng::{CounterRng, combine};

/// The generator of the initial weights of a model.
///
/// The values depend only on the seed and the order of the tensors, and not on burn's process-wide generator. All ranks
/// that build the same model from the same seed get the same bits.
#[derive(Debug, Clone)]
pub struct WeightInit {
    seed: u64,
    next_tensor: u64,
    purpose: Purpose,
}

/// The purpose of making a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Use the model.
    Model,
    /// Count its values: `None` is a number that overflows. Tensors are empty.
    Count(Option<usize>),
}

impl WeightInit {
    /// Makes a generator that starts at the first tensor of a model.
    pub fn new(seed: u64) -> Self {
        Self { seed, next_tensor: 0, purpose: Purpose::Model }
    }

    /// Returns the number of values in the tensors of the model that `make` makes, including running statistics, or
    /// `None` if their bytes cannot be addressed. It allocates none of them.
    pub fn count(make: impl FnOnce(&mut Self)) -> Option<usize> {
        let mut init = Self { seed: 0, next_tensor: 0, purpose: Purpose::Count(Some(0)) };
        make(&mut init);
        match init.purpose {
            Purpose::Count(count) => count.filter(|&count| count <= isize::MAX as usize / size_of::<f32>()),
            Purpose::Model => None,
        }
    }

    /// Counts a tensor of this shape. Returns the shape to allocate, which is empty if the model is only counted.
    fn allocated<const D: usize>(&mut self, shape: [usize; D]) -> [usize; D] {
        let Purpose::Count(count) = &mut self.purpose else { return shape };
        let size = shape.iter().try_fold(1_usize, |size, &side| size.checked_mul(side));
        *count = match (*count, size) {
            (Some(count), Some(size)) => count.checked_add(size),
            _ => None,
        };
        [0; D]
    }

    /// Makes a tensor of equal values, which does not count as a tensor in the order.
    pub(super) fn constant<B: Backend, const D: usize>(
        &mut self,
        shape: [usize; D],
        value: f32,
        device: &B::Device,
    ) -> Tensor<B, D> {
        Tensor::full(self.allocated(shape), value, device)
    }

    /// Makes a layer normalisation.
    pub fn layer_norm<B: Backend>(&mut self, channels: usize, device: &B::Device) -> LayerNorm<B> {
        // Scale and shift, which burn allocates when they are used first.
        self.allocated([2, channels]);
        LayerNormConfig::new(channels).init(device)
    }

    /// Makes a tensor with uniform values in `[-bound, bound)`.
    pub fn uniform<B: Backend, const D: usize>(
        &mut self,
        shape: [usize; D],
        bound: f32,
        device: &B::Device,
    ) -> Param<Tensor<B, D>> {
        self.uniform_around(shape, 0.0, bound, device)
    }

    /// Makes a tensor with uniform values in `[centre - bound, centre + bound)`.
    pub(super) fn uniform_around<B: Backend, const D: usize>(
        &mut self,
        shape: [usize; D],
        centre: f32,
        bound: f32,
        device: &B::Device,
    ) -> Param<Tensor<B, D>> {
        let mut rng = CounterRng::new(combine(self.seed, self.next_tensor));
        self.next_tensor += 1;
        let shape = self.allocated(shape);
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| centre + (2.0 * rng.unit() - 1.0) as f32 * bound).collect();
        Param::from_data(TensorData::new(values, shape), device)
    }

    /// Makes the numbers `first`, `first + step` and so on. They count as one tensor in the order.
    pub(super) fn equidistant<B: Backend>(
        &mut self,
        count: usize,
        first: f32,
        step: f32,
        device: &B::Device,
    ) -> Param<Tensor<B, 1>> {
        self.next_tensor += 1;
        let shape = self.allocated([count]);
        let values: Vec<f32> = (0..shape[0]).map(|number| first + number as f32 * step).collect();
        Param::from_data(TensorData::new(values, shape), device)
    }

    /// Makes a tensor of zeros. It counts as one tensor in the order.
    pub fn zeros<B: Backend, const D: usize>(&mut self, shape: [usize; D], device: &B::Device) -> Param<Tensor<B, D>> {
        self.next_tensor += 1;
        Param::from_tensor(self.constant(shape, 0.0, device))
    }

    /// Returns PyTorch's default bound for the weights and biases of a linear layer, `1 / sqrt(fan_in)` (He et al.,
    /// "Delving deep into rectifiers", ICCV 2015, with a negative slope of `sqrt(5)`).
    pub fn kaiming_bound(fan_in: usize) -> f32 {
        1.0 / (fan_in.max(1) as f32).sqrt()
    }

    /// Returns the bound `sqrt(6 / (fan_in + fan_out))` (Glorot and Bengio, "Understanding the difficulty of training
    /// deep feedforward neural networks", AISTATS 2010).
    pub fn glorot_bound(fan_in: usize, fan_out: usize) -> f32 {
        (6.0 / fan_in.saturating_add(fan_out).max(1) as f32).sqrt()
    }
}

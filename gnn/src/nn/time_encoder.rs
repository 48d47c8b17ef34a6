//! The encoding of the time between an edge and a seed.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use super::weight_init::WeightInit;

/// The initial frequencies go from 1 to ten to the power of minus this number, so that some of them fit differences of
/// seconds as well as of nanoseconds.
const DECADES: f32 = 18.0;

/// An encoding of times, `cos(w t + b)` (Xu, Ruan, Korpeoglu, Kumar and Achan, "Inductive representation learning on
/// temporal graphs", ICLR 2020: TGAT), as PyG's `TimeEncoder` of TGN. The frequencies `w` are learned by their logarithms, so
/// that a step of an optimizer changes low frequencies as little as high ones, in proportion.
///
/// ```
/// use burn::{backend::NdArray, tensor::Tensor};
/// use edgecut_gnn::nn::{TimeEncoder, WeightInit};
/// let encoder = TimeEncoder::<NdArray>::new(4, &mut WeightInit::new(0), &Default::default());
/// let encoded = encoder.forward(Tensor::zeros([3, 1], &Default::default()));
/// assert_eq!(encoded.into_data().to_vec::<f32>().expect("numbers"), [1.0; 12]);
/// ```
#[derive(Module, Debug)]
pub struct TimeEncoder<B: Backend> {
    /// The natural logarithms of `w`, `[dim]`.
    pub log_frequencies: Param<Tensor<B, 1>>,
    /// `b`, `[dim]`.
    pub phases: Param<Tensor<B, 1>>,
}

impl<B: Backend> TimeEncoder<B> {
    /// Makes an encoding of `dim` columns, with frequencies in equal ratios and phases of 0.
    pub fn new(dim: usize, init: &mut WeightInit, device: &B::Device) -> Self {
        let step = DECADES * std::f32::consts::LN_10 / dim.saturating_sub(1).max(1) as f32;
        Self { log_frequencies: init.equidistant(dim, 0.0, -step, device), phases: init.zeros([dim], device) }
    }

    /// Encodes times.
    ///
    /// # Shapes
    /// - `times`: `[rows, 1]`
    /// - output: `[rows, dim]`
    pub fn forward(&self, times: Tensor<B, 2>) -> Tensor<B, 2> {
        let frequencies = self.log_frequencies.val().exp().unsqueeze();
        (times * frequencies + self.phases.val().unsqueeze()).cos()
    }
}

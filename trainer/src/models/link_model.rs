//! The model for link prediction.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use super::model_input::ModelInput;
use super::network::Network;
use super::network_config::NetworkConfig;
use crate::error::ModelError;
use edgecut_gnn::nn::{AnyLinkDecoder, DecoderKind, LinkDecoderShape, Mode, WeightInit};
use edgecut_gnn::ops::{BatchNormSync, GnnBackend, Precision, host_values};

/// The constant that separates the seed of the decoder's initial weights from the encoder's ("decoder" in ASCII).
const DECODER: u64 = 0x6465_636f_6465_7200;

/// The settings of a [`LinkModel`], which its model file stores in addition to the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkModelConfig {
    /// Settings of the encoder, which has encoders of features and no outputs.
    pub encoder: NetworkConfig,
    /// The decoder.
    pub decoder: DecoderKind,
}

/// A model for link prediction. The encoder computes a row for each node, the decoder scores pairs of rows.
#[derive(Module, Debug)]
pub struct LinkModel<B: Backend> {
    /// The network that computes the nodes' rows.
    pub encoder: Network<B>,
    /// The decoder that scores pairs of rows.
    pub decoder: AnyLinkDecoder<B>,
}

impl LinkModelConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// The errors of [`NetworkConfig::validate`], and a number of channels that the decoder does not support.
    pub fn validate(&self) -> Result<(), ModelError> {
        self.encoder.validate_encoder("links")?;
        let checked = self.decoder.check_channels(self.encoder.hidden_channels);
        checked.map_err(|what| ModelError::Settings { what })
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`LinkModelConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<LinkModel<B>, ModelError> {
        self.validate()?;
        let encoder = self.encoder.init(seed, device)?;
        let mut init = WeightInit::new(seed ^ DECODER);
        let decoder = AnyLinkDecoder::new(self.decoder, self.decoder_shape(), &mut init, device);
        Ok(LinkModel { encoder, decoder })
    }

    /// Returns the number of parameters of the model, or `None` if their bytes cannot be addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        let decoder = WeightInit::count(|init| {
            let device = Default::default();
            AnyLinkDecoder::<burn::backend::NdArray>::new(self.decoder, self.decoder_shape(), init, &device);
        });
        self.encoder.num_parameters()?.checked_add(decoder?)
    }

    fn decoder_shape(&self) -> LinkDecoderShape {
        LinkDecoderShape { edge_types: self.encoder.graph.edge_types.len(), channels: self.encoder.hidden_channels }
    }
}

impl<B: GnnBackend> LinkModel<B> {
    /// Returns the learned values of each edge type, one type after the other, or `None` without any.
    pub fn relation_values(&self) -> Option<Vec<f32>> {
        self.decoder.relations().map(host_values)
    }
}

/// Implements the methods of a model that its field `encoder` has too.
macro_rules! encoder_methods {
    ($model:ident) => {
        impl<B: GnnBackend> $model<B> {
            /// Sets the type in which matrices are multiplied for the encoder (mixed-precision training). The default is
            /// `f32`, in which the decoder always multiplies.
            pub fn set_precision(&mut self, precision: Precision) {
                self.encoder.set_precision(precision);
            }

            /// Sets the exchange by which batch normalisations cover the rows of all ranks in training.
            pub fn set_batch_norm_sync(&mut self, sync: Option<&BatchNormSync>) {
                self.encoder.set_batch_norm_sync(sync);
            }

            /// Computes the rows of the batch's seeds, node type after node type.
            ///
            /// # Shapes
            /// - output: `[seeds of all types, hidden_channels]`
            ///
            /// # Errors
            /// The errors of [`Network::forward_by_type`].
            pub fn encode(&self, input: &ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
                let by_type = self.encoder.forward_by_type(input, mode)?;
                let rows: Vec<Tensor<B, 2>> = by_type.into_iter().flatten().collect();
                Ok(match rows.len() {
                    1 => rows.into_iter().next().expect("there is one node type"),
                    0 => Tensor::empty([0, self.encoder.config().hidden_channels], &input.device()),
                    _ => Tensor::cat(rows, 0),
                })
            }
        }
    };
}
pub(super) use encoder_methods;

encoder_methods!(LinkModel);

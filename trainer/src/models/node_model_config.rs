//! The settings of a model for node classification.

use burn::backend::NdArray;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use super::conv_stack::ConvStack;
use super::model_error::ModelError;
use super::node_model::NodeModel;
use crate::nn::{ConvKind, ConvRole, ConvShape, Network, PygLayer, WeightInit};

/// The settings of a [`NodeModel`] for homogeneous graphs, which is a stack of convolutions. Its model file stores them
/// in addition to the weights.
///
/// ```
/// use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, NodeModelConfig, RgcnSettings, SageSettings};
/// let config = NodeModelConfig { layer_norm: true, ..NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, 2) };
/// // Two matrices with biases, and the scale and shift of one normalisation.
/// assert_eq!(config.num_parameters(), Some((16 * 8 + 8) + (8 * 3 + 3) + 2 * 8));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeModelConfig {
    /// Kind of the convolutions.
    pub kind: ConvKind,
    /// Columns of the features.
    pub in_channels: usize,
    /// Columns of the rows between layers.
    pub hidden_channels: usize,
    /// Columns of the output.
    pub num_classes: usize,
    /// Number of convolutions, which is the number of hops.
    pub num_layers: usize,
    /// True if the input of a layer is added to its output. It applies to all layers but the first and the last, whose
    /// input and output have the same width.
    #[serde(default)]
    pub residual: bool,
    /// True if the input of each layer but the first is normalised (Ba, Kiros and Hinton, "Layer normalization", 2016).
    #[serde(default)]
    pub layer_norm: bool,
    /// Probability of dropout after every layer but the last.
    pub dropout: f64,
    /// Probability of dropout on the features.
    pub input_dropout: f64,
    /// True if each feature row is divided by its sum, or by 1 if the sum is smaller, before the model reads it (PyG's
    /// `NormalizeFeatures`). [`TensorBatch`](crate::TensorBatch) does this; the model uses its input unchanged.
    pub normalize_features: bool,
}

impl NodeModelConfig {
    /// Makes the settings of a model without dropout, residuals and normalisation.
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, NodeModelConfig, RgcnSettings, SageSettings};
    /// use edgecut_trainer::nn::Aggregation;
    /// let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    /// let config = NodeModelConfig::new(kind, 100, 256, 47, 3).with_dropout(0.5);
    /// let model = config.init::<NdArray>(42, &Default::default())?;
    /// assert_eq!(edgecut_trainer::gradients::num_parameters(&model), 206_895);
    /// # Ok::<(), edgecut_trainer::models::ModelError>(())
    /// ```
    pub fn new(
        kind: ConvKind,
        in_channels: usize,
        hidden_channels: usize,
        num_classes: usize,
        num_layers: usize,
    ) -> Self {
        Self {
            kind,
            in_channels,
            hidden_channels,
            num_classes,
            num_layers,
            residual: false,
            layer_norm: false,
            dropout: 0.0,
            input_dropout: 0.0,
            normalize_features: false,
        }
    }

    /// Sets the probability of dropout between layers.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, NodeModelConfig, RgcnSettings, SageSettings};
    /// let config = NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, 2);
    /// assert!(config.clone().with_dropout(0.5).validate().is_ok());
    /// assert!(config.with_dropout(1.0).validate().is_err());
    /// ```
    pub fn with_dropout(mut self, probability: f64) -> Self {
        self.dropout = probability;
        self
    }

    /// Sets the probability of dropout on the features.
    pub fn with_input_dropout(mut self, probability: f64) -> Self {
        self.input_dropout = probability;
        self
    }

    /// Sets whether feature rows are divided by their sums.
    pub fn with_normalize_features(mut self, normalize_features: bool) -> Self {
        self.normalize_features = normalize_features;
        self
    }

    /// Sets whether the input of a layer is added to its output.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, NodeModelConfig, RgcnSettings, SageSettings};
    /// let config = |layers| NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, layers).with_residual(true);
    /// assert!(config(3).validate().is_ok());
    /// // Neither the first nor the last layer can have a residual.
    /// assert!(config(2).validate().is_err());
    /// ```
    pub fn with_residual(mut self, residual: bool) -> Self {
        self.residual = residual;
        self
    }

    /// Sets whether the input of each layer but the first is normalised.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, NodeModelConfig, RgcnSettings, SageSettings};
    /// let config = |layers| NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 16, 8, 3, layers).with_layer_norm(true);
    /// assert!(config(2).validate().is_ok());
    /// assert!(config(1).validate().is_err());
    /// ```
    pub fn with_layer_norm(mut self, layer_norm: bool) -> Self {
        self.layer_norm = layer_norm;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`ModelError`] for sizes of 0 or too large for memory, dropouts outside `[0, 1)`, heads that do not divide the
    /// hidden channels, residuals or normalisation with too few layers to have an effect, and an R-GCN, which is not a
    /// stack.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, ModelError, NodeModelConfig, RgcnSettings, SageSettings};
    /// let config = NodeModelConfig::new(ConvKind::Gcn(GcnSettings), usize::MAX, 8, 3, 2);
    /// assert_eq!(config.validate(), Err(ModelError::TooLarge));
    /// ```
    pub fn validate(&self) -> Result<(), ModelError> {
        let sizes = [
            ("in_channels", self.in_channels),
            ("hidden_channels", self.hidden_channels),
            ("num_classes", self.num_classes),
            ("num_layers", self.num_layers),
        ];
        if let Some((setting, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ModelError::Zero { setting });
        }
        for (setting, value) in [("dropout", self.dropout), ("input_dropout", self.input_dropout)] {
            ModelError::check_probability(setting, value)?;
        }
        ModelError::check_num_layers(self.num_layers)?;
        self.kind.check(Network::Stack, self.hidden_channels).map_err(|what| ModelError::Settings { what })?;
        self.check_hidden_rows()?;
        self.num_parameters().map(|_| ()).ok_or(ModelError::TooLarge)
    }

    /// Checks that residuals and normalisation, if set, apply to at least one layer.
    fn check_hidden_rows(&self) -> Result<(), ModelError> {
        let Self { num_layers, residual, layer_norm, .. } = *self;
        let what = if residual && num_layers < 3 {
            "residuals apply to all layers but the first and the last, so they need at least 3 layers"
        } else if layer_norm && num_layers < 2 {
            "layer norm applies to the input of all layers but the first, so it needs at least 2 layers"
        } else {
            return Ok(());
        };
        let advice = match self.kind.check(Network::Typed, self.hidden_channels) {
            Ok(()) => "add layers, or an encoder and a decoder (`encoder_decoder`)",
            Err(_) => "add layers",
        };
        Err(ModelError::Settings { what: format!("{what}, but the model has {num_layers}: {advice}") })
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`NodeModelConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<NodeModel<B>, ModelError> {
        self.validate()?;
        Ok(NodeModel::Stack(ConvStack::new(self, &mut WeightInit::new(seed), device)))
    }

    /// Returns the shape of each convolution.
    pub(super) fn layer_shapes(&self) -> impl Iterator<Item = ConvShape> {
        (0..self.num_layers).map(|layer| {
            let is_last = layer + 1 == self.num_layers;
            ConvShape {
                in_channels: if layer == 0 { self.in_channels } else { self.hidden_channels },
                out_channels: if is_last { self.num_classes } else { self.hidden_channels },
                edge_channels: 0,
                role: if is_last { ConvRole::Output } else { ConvRole::Hidden },
                batch_norm: false,
            }
        })
    }

    /// Returns the layers of PyG that compute the same as the convolutions; empty if the Python package knows them.
    pub(crate) fn pyg_layers(&self) -> Vec<PygLayer> {
        self.layer_shapes().filter_map(|shape| self.kind.pyg(shape)).collect()
    }

    /// Returns the number of parameters of the model, or `None` if their bytes cannot be addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        WeightInit::count(|init| {
            ConvStack::<NdArray>::new(self, init, &Default::default());
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Aggregation, Decomposition, GatSettings, GcnSettings, RgcnSettings, SageSettings};
    use crate::ops::AttentionVersion;

    fn gat(version: AttentionVersion, heads: usize) -> ConvKind {
        ConvKind::Gat(GatSettings { heads, version, attention_dropout: 0.1, projection_bias: true })
    }

    #[test]
    fn rejects_settings_that_make_no_model() {
        let config = NodeModelConfig::new(ConvKind::Gcn(GcnSettings), 4, 8, 2, 2);
        assert_eq!(config.validate(), Ok(()));
        let broken = NodeModelConfig { num_layers: 0, ..config.clone() };
        assert_eq!(broken.validate(), Err(ModelError::Zero { setting: "num_layers" }));
        let broken = config.clone().with_dropout(1.0);
        assert_eq!(broken.validate(), Err(ModelError::Probability { setting: "dropout", value: 1.0 }));
        assert!(config.clone().with_input_dropout(f64::NAN).validate().is_err());
        let broken = NodeModelConfig { in_channels: usize::MAX, ..config.clone() };
        assert_eq!(broken.validate(), Err(ModelError::TooLarge));
        let heads = |heads| NodeModelConfig { kind: gat(AttentionVersion::V1, heads), ..config.clone() }.validate();
        assert_eq!(heads(4), Ok(()));
        assert!(matches!(heads(0), Err(ModelError::Settings { what }) if what.contains("heads is 0")));
        assert!(matches!(heads(3), Err(ModelError::Settings { what }) if what.contains("3 heads do not divide 8")));
        let broken =
            NodeModelConfig { kind: ConvKind::Rgcn(RgcnSettings { decomposition: Decomposition::None }), ..config };
        assert!(matches!(broken.validate(), Err(ModelError::Settings { .. })));
    }

    #[test]
    fn counts_parameters_as_the_model_has_them() {
        let gats = [gat(AttentionVersion::V1, 2), gat(AttentionVersion::V2, 4)];
        for kind in [ConvKind::Gcn(GcnSettings), ConvKind::Sage(SageSettings { aggregation: Aggregation::Sum })]
            .into_iter()
            .chain(gats)
        {
            for num_layers in 1..=4 {
                let config = NodeModelConfig::new(kind, 5, 8, 3, num_layers).with_layer_norm(num_layers > 1);
                let model = config.init::<burn::backend::NdArray>(0, &Default::default()).expect("a valid model");
                assert_eq!(config.num_parameters(), Some(crate::gradients::num_parameters(&model)));
            }
        }
    }
}

//! The settings of a model for graph classification.

use burn::backend::NdArray;
use burn::tensor::backend::Backend;
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

use super::graph_net::GraphNet;
use super::model_error::ModelError;
use crate::nn::{Aggregation, ConvKind, ConvRole, ConvShape, Network, PygLayer, WeightInit};

/// The node rows that are pooled for the output of a graph.
///
/// ```
/// use edgecut_trainer::models::{ConvKind, GcnSettings, GinSettings, GraphNetConfig, Readout, SageSettings};
/// let config = GraphNetConfig { batch_norm: false, ..GraphNetConfig::new(ConvKind::Gcn(GcnSettings), 3, 8, 2, 1) };
/// // The output layer reads the 3 features and the 8 columns of the only layer, or only the latter.
/// assert_eq!(config.num_parameters(), Some((3 * 8 + 8) + ((3 + 8) * 2 + 2)));
/// let last = GraphNetConfig { readout: Readout::Last, ..config };
/// assert_eq!(last.num_parameters(), Some((3 * 8 + 8) + (8 * 2 + 2)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readout {
    /// The rows after the last convolution.
    Last,
    /// The features and the rows after each convolution, concatenated (Xu et al., "Representation learning on graphs
    /// with jumping knowledge networks", ICML 2018, as in the GIN paper).
    JumpingKnowledge,
}

words!(
    Readout,
    "readout",
    JumpingKnowledge = "jumping-knowledge": "The input features and the outputs of all layers, concatenated",
    Last = "last": "The output of the last layer only",
);

/// The settings of a [`GraphNet`], which its model file stores in addition to the weights.
///
/// ```
/// use edgecut_trainer::models::{ConvKind, GcnSettings, GinSettings, GraphNetConfig, Readout, SageSettings};
/// let config = GraphNetConfig {
///     readout: Readout::Last,
///     dropout: 0.5,
///     ..GraphNetConfig::new(ConvKind::Gcn(GcnSettings), 7, 32, 2, 4)
/// };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphNetConfig {
    /// Kind of the convolutions.
    pub conv: ConvKind,
    /// Columns of the features.
    pub in_channels: usize,
    /// Columns of the rows between layers.
    pub hidden_channels: usize,
    /// Columns of the output.
    pub num_classes: usize,
    /// Number of convolutions.
    pub num_layers: usize,
    /// Aggregation of the nodes of a graph to one row.
    pub pooling: Aggregation,
    /// Rows that are pooled.
    pub readout: Readout,
    /// True if each convolution, and each layer of an MLP but the last, is followed by batch normalisation.
    pub batch_norm: bool,
    /// Probability of dropout on the pooled rows.
    pub dropout: f64,
}

impl GraphNetConfig {
    /// Makes the settings of the GIN paper's network: sum pooling, batch normalisation, a readout of all layers, no
    /// dropout.
    ///
    /// ```
    /// use burn::backend::NdArray;
    /// use edgecut_trainer::models::{ConvKind, GcnSettings, GinSettings, GraphNetConfig, SageSettings};
    /// let conv = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: false });
    /// let config = GraphNetConfig::new(conv, 7, 32, 2, 4);
    /// let model = config.init::<NdArray>(42, &Default::default())?;
    /// assert_eq!(config.num_parameters(), Some(edgecut_trainer::gradients::num_parameters(&model)));
    /// # Ok::<(), edgecut_trainer::models::ModelError>(())
    /// ```
    pub fn new(
        conv: ConvKind,
        in_channels: usize,
        hidden_channels: usize,
        num_classes: usize,
        num_layers: usize,
    ) -> Self {
        Self {
            conv,
            in_channels,
            hidden_channels,
            num_classes,
            num_layers,
            pooling: Aggregation::Sum,
            readout: Readout::JumpingKnowledge,
            batch_norm: true,
            dropout: 0.0,
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`ModelError`] for sizes of 0 or too large for memory, and for a dropout outside `[0, 1)`.
    ///
    /// ```
    /// use edgecut_trainer::models::{ConvKind, GcnSettings, GinSettings, GraphNetConfig, ModelError, SageSettings};
    /// let config = GraphNetConfig::new(ConvKind::Gcn(GcnSettings), 7, 32, 2, 0);
    /// assert_eq!(config.validate(), Err(ModelError::Zero { setting: "num_layers" }));
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
        ModelError::check_probability("dropout", self.dropout)?;
        ModelError::check_num_layers(self.num_layers)?;
        self.conv.check(Network::WholeGraphs, self.hidden_channels).map_err(|what| ModelError::Settings { what })?;
        self.num_parameters().map(|_| ()).ok_or(ModelError::TooLarge)
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`GraphNetConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<GraphNet<B>, ModelError> {
        self.validate()?;
        Ok(GraphNet::new(self, &mut WeightInit::new(seed), device))
    }

    /// Returns the number of parameters of the model including running statistics, or `None` if their bytes cannot be
    /// addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        WeightInit::count(|init| {
            GraphNet::<NdArray>::new(self, init, &Default::default());
        })
    }

    /// Returns the shape of each convolution.
    pub(super) fn layer_shapes(&self) -> impl Iterator<Item = ConvShape> {
        (0..self.num_layers).map(|layer| ConvShape {
            edge_channels: 0,
            in_channels: if layer == 0 { self.in_channels } else { self.hidden_channels },
            out_channels: self.hidden_channels,
            role: ConvRole::Hidden,
            batch_norm: self.batch_norm,
        })
    }

    /// Returns the layers of PyG that compute the same as the convolutions; empty if the Python package knows them.
    pub(crate) fn pyg_layers(&self) -> Vec<PygLayer> {
        self.layer_shapes().filter_map(|shape| self.conv.pyg(shape)).collect()
    }

    /// Returns the number of columns of a graph's pooled row, or `None` if it overflows.
    pub fn pooled_channels(&self) -> Option<usize> {
        match self.readout {
            Readout::Last => Some(self.hidden_channels),
            Readout::JumpingKnowledge => {
                self.hidden_channels.checked_mul(self.num_layers)?.checked_add(self.in_channels)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{GcnSettings, GinSettings, SageSettings};

    const GIN: ConvKind = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: false });

    #[test]
    fn rejects_settings_that_make_no_model() {
        let config = GraphNetConfig::new(GIN, 4, 8, 2, 2);
        assert_eq!(config.validate(), Ok(()));
        let zero = |config: GraphNetConfig, setting| assert_eq!(config.validate(), Err(ModelError::Zero { setting }));
        zero(GraphNetConfig { num_layers: 0, ..config.clone() }, "num_layers");
        zero(GraphNetConfig { in_channels: 0, ..config.clone() }, "in_channels");
        let conv = ConvKind::Gin(GinSettings { mlp_layers: 0, learn_epsilon: false });
        let what = "mlp_layers is 0, it must be at least 1".into();
        assert_eq!(GraphNetConfig { conv, ..config.clone() }.validate(), Err(ModelError::Settings { what }));
        assert!(GraphNetConfig { dropout: 1.0, ..config.clone() }.validate().is_err());
        let huge = GraphNetConfig { in_channels: usize::MAX, ..config };
        assert_eq!(huge.validate(), Err(ModelError::TooLarge));
    }

    #[test]
    fn counts_parameters_as_the_model_has_them() {
        let gin = |mlp_layers, learn_epsilon| ConvKind::Gin(GinSettings { mlp_layers, learn_epsilon });
        let sage = ConvKind::Sage(SageSettings { aggregation: Aggregation::Max });
        for conv in [gin(1, false), gin(2, true), gin(3, true), ConvKind::Gcn(GcnSettings), sage] {
            for (num_layers, readout, batch_norm) in
                [(1, Readout::Last, true), (1, Readout::JumpingKnowledge, false), (3, Readout::JumpingKnowledge, true)]
            {
                let config = GraphNetConfig { readout, batch_norm, ..GraphNetConfig::new(conv, 5, 8, 3, num_layers) };
                let model = config.init::<burn::backend::NdArray>(0, &Default::default()).expect("a valid model");
                let expected = crate::gradients::num_parameters(&model);
                assert_eq!(config.num_parameters(), Some(expected), "{config:?}");
            }
        }
    }
}

//! The model for predictions of edges.

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_graph::EdgeTypeId;
use edgecut_settings::words;
use serde::{Deserialize, Serialize};

use super::link_model::encoder_methods;
use super::model_input::ModelInput;
use super::network::Network;
use super::network_config::NetworkConfig;
use crate::error::ModelError;
use edgecut_gnn::nn::{AnyEdgeDecoder, EdgeDecoder, EdgeDecoderKind, EdgeDecoderShape, EdgeRows, Mode, WeightInit};
use edgecut_gnn::ops::{BatchNormSync, GnnBackend, Precision};

/// The constant that separates the seed of the decoder's initial weights from the encoder's ("edges" in ASCII).
const DECODER: u64 = 0x6564_6765_7300_0000;

/// The settings of an [`EdgeModel`], which its model file stores in addition to the weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeModelConfig {
    /// Settings of the encoder, which has no output layers.
    pub encoder: NetworkConfig,
    /// Type of the edges, as a position in the edge types of the encoder's graph.
    pub edge_type: EdgeTypeId,
    /// Kind of the decoder.
    pub edge_decoder: EdgeDecoderKind,
    /// Columns of the edges' own features that the decoder reads, 0 if it does not read them.
    pub edge_feature_dim: usize,
    /// Columns of the output, for example the number of classes.
    pub num_outputs: usize,
    /// The messages over the edges of a batch, in training, evaluation and prediction.
    pub target_edges: TargetEdges,
    /// The names of pairs of edge types that are the reverse of each other, in addition to `NAME` and `rev_NAME`.
    pub reverse_types: Vec<(String, String)>,
}

/// The treatment of the edges of a batch in message passing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetEdges {
    /// They and their reverses carry no messages, in training, evaluation and prediction.
    #[default]
    Exclude,
    /// They carry messages like other edges.
    Include,
}

words!(TargetEdges, "treatment of target edges", Exclude = "exclude", Include = "include");

/// A model for predictions of edges. The encoder computes a row for each node, and the decoder computes the outputs of an
/// edge from the rows of both ends and the edge's own features.
#[derive(Module, Debug)]
pub struct EdgeModel<B: Backend> {
    /// The network that computes the nodes' rows.
    pub encoder: Network<B>,
    /// The decoder.
    pub decoder: AnyEdgeDecoder<B>,
    dropout: f64,
}

impl EdgeModelConfig {
    /// Returns true if the encoder or the decoder reads features of edges.
    pub fn reads_edge_features(&self) -> bool {
        self.encoder.graph.has_edge_features() || self.edge_feature_dim > 0
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// The errors of [`NetworkConfig::validate`], and an edge type that does not exist.
    pub fn validate(&self) -> Result<(), ModelError> {
        self.encoder.validate_encoder("edges")?;
        if self.num_outputs == 0 {
            return Err(ModelError::Zero { setting: "num_outputs" });
        }
        let num_types = self.encoder.graph.edge_types.len();
        if self.edge_type.index() >= num_types {
            let what = format!("edge type {} does not exist: there are {num_types}", self.edge_type.index());
            return Err(ModelError::Schema { what });
        }
        self.num_parameters().map(|_| ()).ok_or(ModelError::TooLarge)
    }

    /// Makes the model with its initial weights, which depend on the seed only.
    ///
    /// # Errors
    /// The errors of [`EdgeModelConfig::validate`].
    pub fn init<B: Backend>(&self, seed: u64, device: &B::Device) -> Result<EdgeModel<B>, ModelError> {
        self.validate()?;
        let encoder = self.encoder.init(seed, device)?;
        let mut init = WeightInit::new(seed ^ DECODER);
        let decoder = AnyEdgeDecoder::new(self.edge_decoder, self.decoder_shape(), &mut init, device);
        Ok(EdgeModel { encoder, decoder, dropout: self.encoder.dropout })
    }

    /// Returns the number of parameters of the model, or `None` if their bytes cannot be addressed.
    pub fn num_parameters(&self) -> Option<usize> {
        let decoder = WeightInit::count(|init| {
            let device = Default::default();
            AnyEdgeDecoder::<burn::backend::NdArray>::new(self.edge_decoder, self.decoder_shape(), init, &device);
        });
        self.encoder.num_parameters()?.checked_add(decoder?)
    }

    /// Returns the name of the edge type, such as `user__pays__shop`.
    pub fn edge_type_name(&self) -> String {
        let graph = &self.encoder.graph;
        let Some(edges) = graph.edge_types.get(self.edge_type.index()) else { return "?".into() };
        let name = |node_type: usize| graph.node_types.get(node_type).map_or("?", |nodes| nodes.name.as_str());
        format!("{}__{}__{}", name(edges.src.index()), edges.relation, name(edges.dst.index()))
    }

    fn decoder_shape(&self) -> EdgeDecoderShape {
        EdgeDecoderShape {
            channels: self.encoder.hidden_channels,
            feature_dim: self.edge_feature_dim,
            outputs: self.num_outputs,
        }
    }
}

encoder_methods!(EdgeModel);

impl<B: GnnBackend> EdgeModel<B> {
    /// Computes the outputs of edges.
    ///
    /// # Shapes
    /// - output: `[edges, num_outputs]`
    pub fn decode(&self, rows: EdgeRows<B>, mode: Mode) -> Tensor<B, 2> {
        self.decoder.decode(rows, self.dropout, mode)
    }
}

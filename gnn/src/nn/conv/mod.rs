//! Convolutions: one file and an entry of the registry each.
//!
//! A convolution has settings that implement [`ConvSettings`] and a layer that implements [`Conv`]. The
//! [registry](registry) lists them. Models, flags, model files and the Python package take all convolutions from there.

mod aggregation;
mod edge_attention;
mod edge_data;
mod flags;
mod gcn_norm;
mod hetero;
mod incoming;
mod order;
mod registry;
mod relation_aggregation;
mod relation_weights;

pub use aggregation::Aggregation;
pub use edge_data::{EdgeData, EdgeWeighting};
pub use flags::{ConvFlag, FlagKind, FlagValues, ModelName};
pub use gcn_norm::{GcnNorm, GcnNormError};
pub use hetero::{EdgeShape, HeteroConv, HeteroShape};
pub use incoming::Incoming;
pub use order::Order;
pub use registry::*;
pub use relation_aggregation::RelationAggregation;
pub use relation_weights::{Decomposition, RelationWeights};

use std::fmt::Debug;

use burn::module::Module;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::batch_norm::BatchNorm;
use super::mode::Mode;
use super::weight_init::WeightInit;
use crate::ops::{Activation, Block, DropoutMask, EdgeBlocks, GnnBackend, Precision};

/// The settings of a convolution, which flags set and model files store as JSON.
pub trait ConvSettings: Copy + Debug + PartialEq + Serialize + DeserializeOwned {
    /// Name in model files.
    const NAME: &'static str;
    /// Names of `--model`. Several names are presets of one convolution.
    const MODELS: &'static [ModelName];
    /// Flags of the settings.
    const FLAGS: &'static [ConvFlag] = &[];
    /// True if the convolution needs [`EdgeData::gcn_norm`]. Such a convolution supports uniform sampling only.
    const NEEDS_GCN_NORM: bool = false;
    /// Use of edge features.
    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Ignored;
    /// Blocks of edges that a layer over edges with features reads.
    const EDGE_BLOCKS: EdgeBlocks = EdgeBlocks::All;
    /// Activation that follows the convolution in the hidden layers of a network without encoders and pooling.
    const HIDDEN_ACTIVATION: HiddenActivation = HiddenActivation::Relu;

    /// Returns the blocks of edges that a layer reads over edges with or without features. Loaders prepare them.
    fn edge_blocks(reads_features: bool) -> EdgeBlocks {
        if reads_features { Self::EDGE_BLOCKS } else { EdgeBlocks::None }
    }

    /// Returns the use that the convolution makes of the weights of edges.
    fn edge_weighting(&self) -> EdgeWeighting {
        EdgeWeighting::None
    }

    /// Checks the settings for layers with this number of input and output columns.
    ///
    /// # Errors
    /// The fault, and a way to correct it.
    fn check(&self, _channels: usize) -> Result<(), String> {
        Ok(())
    }

    /// Returns the reason why layers of a form cannot have this convolution.
    fn refusal(_form: LayerForm) -> Option<&'static str> {
        None
    }

    /// Returns the layer of PyG that computes the same. Model files store it, and the Python package makes the layer
    /// from it. The package knows the layers of [`SageSettings`], [`GcnSettings`], [`GatSettings`], [`GinSettings`] and
    /// [`RgcnSettings`] itself.
    fn pyg(&self, _shape: ConvShape) -> Option<PygLayer> {
        None
    }

    /// Makes the settings from the values of [`FLAGS`](Self::FLAGS) and a preset.
    ///
    /// # Errors
    /// A value of another type or out of range.
    fn from_flags(values: FlagValues) -> Result<Self, String> {
        flags::settings_of(values)
    }

    /// Returns the values of [`FLAGS`](Self::FLAGS), also of those with their default value.
    fn to_flags(&self) -> FlagValues {
        flags::values_of(self, Self::FLAGS)
    }
}

/// A layer of PyG with the names of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PygLayer {
    /// Class in `torch_geometric.nn`.
    pub class: &'static str,
    /// Keyword arguments of the constructor.
    pub arguments: FlagValues,
    /// Names of parameters: in the model file, and in the layer.
    pub tensors: Vec<(&'static str, &'static str)>,
}

/// A convolution over edges of one type.
pub trait Conv<B: GnnBackend>: Module<B> {
    /// Computes the rows of the destinations.
    ///
    /// # Shapes
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If the input has another shape, or lacks data that [`ConvSettings`] declares as necessary.
    fn convolve(&self, input: ConvInput<'_, B>) -> Tensor<B, 2>;

    /// Sets the type in which a GPU multiplies matrices for this layer. The default is `f32`.
    fn set_precision(&mut self, precision: Precision);

    /// Returns the batch normalisations within the layer, in the order of a forward pass. There are none by default.
    fn batch_norms(&self) -> &[BatchNorm<B>] {
        &[]
    }

    /// Returns [`batch_norms`](Self::batch_norms) for changes.
    fn batch_norms_mut(&mut self) -> &mut [BatchNorm<B>] {
        &mut []
    }
}

/// A layer that reads all edge types of a destination at once.
pub trait TypedConv<B: GnnBackend>: Module<B> {
    /// Computes the rows of the destinations of one node type. Edge types without edges are skipped.
    ///
    /// # Shapes
    /// - output: `[num_dst, channels]`
    ///
    /// # Panics
    /// If a tensor has another shape, or if an edge type or the node type does not exist.
    fn convolve(&self, input: TypedConvInput<'_, B>) -> Tensor<B, 2>;

    /// Sets the type in which a GPU multiplies matrices for this layer. The default is `f32`.
    fn set_precision(&mut self, precision: Precision);
}

/// The use that a convolution makes of edge features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeFeatureUse {
    /// The convolution does not read edge features.
    Ignored,
    /// The convolution reads the edge features of edge types that have some.
    Read,
    /// Every edge type must have edge features.
    Required,
}

/// The form of the layers of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerForm {
    /// One convolution over the only edge type, which also computes the destinations' own part of the output.
    Direct,
    /// Messages over each edge type ([`HeteroConv`]), or a convolution that reads all edge types at once
    /// ([`TypedConv`]).
    Typed,
}

/// The activation that follows a hidden layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenActivation {
    /// `max(x, 0)`.
    Relu,
    /// `x` for positive elements and `exp(x) - 1` for others.
    Elu,
}

/// The size and the purpose of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvShape {
    /// Columns of the sources and destinations.
    pub in_channels: usize,
    /// Columns of the output.
    pub out_channels: usize,
    /// Edge features that the layer reads. 0 if the convolution ignores them, or the edges have none.
    pub edge_channels: usize,
    /// Purpose of the layer.
    pub role: ConvRole,
    /// True to normalise batches within the convolution, if it has several dense layers.
    pub batch_norm: bool,
}

/// The purpose of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvRole {
    /// The rows between layers.
    Hidden,
    /// The output of a network.
    Output,
    /// The messages over one edge type. [`HeteroConv`] sums the messages of all edge types, and adds the own rows of
    /// the destinations times weights, and a bias.
    ///
    /// Invariant: the message of a destination without edges is 0, so that it does not depend on the other nodes of a
    /// batch. A batch may lack the edge type.
    EdgeType {
        /// True if sources and destinations have different node types.
        between_types: bool,
    },
}

/// The input of a [`Conv`].
#[derive(Debug, Clone)]
pub struct ConvInput<'a, B: Backend> {
    /// Rows of the sources, `[num_src, in_channels]`.
    pub x: Tensor<B, 2>,
    /// Rows of the destinations, `[num_dst, in_channels]`. `None` if they are the first sources.
    pub x_dst: Option<Tensor<B, 2>>,
    /// Edges.
    pub block: &'a Block,
    /// Values of the edges.
    pub edges: EdgeData<B>,
    /// Training or evaluation, and the masks of dropout.
    pub pass: LayerPass,
    /// Activation to apply to the output.
    pub activation: Activation,
}

/// The input of a [`TypedConv`].
#[derive(Debug, Clone)]
pub struct TypedConvInput<'a, B: Backend> {
    /// Number of the node type of the destinations.
    pub node_type: usize,
    /// Rows of the node type, of which the first are the destinations, `[at least num_dst, in_channels]`.
    pub x: Tensor<B, 2>,
    /// Number of destinations.
    pub num_dst: usize,
    /// Edges into the destinations, with the rows of their sources.
    pub incoming: &'a [Incoming<B>],
    /// Training or evaluation, and the masks of dropout.
    pub pass: LayerPass,
    /// Activation to apply to the output.
    pub activation: Activation,
}

/// A pass through one layer: training or evaluation, and the numbers of the layer's dropout masks.
#[derive(Debug, Clone, Copy)]
pub struct LayerPass {
    /// Training or evaluation.
    pub mode: Mode,
    /// Number of the layer, by which its masks differ from the masks of other layers.
    pub layer: u64,
    /// Number of the edge type, if there are several.
    pub edge_type: Option<u64>,
}

/// The offset from the number of a layer to the number of the mask within its convolution. Smaller numbers are masks
/// between layers.
const WITHIN_CONV: u64 = 1 << 32;

impl LayerPass {
    /// Makes the pass of a layer over one edge type.
    pub fn new(mode: Mode, layer: u64) -> Self {
        Self { mode, layer, edge_type: None }
    }

    /// Returns the mask of the dropout within the convolution, for example of attention weights.
    pub fn mask(self, probability: f64) -> DropoutMask {
        let mask = self.mode.mask(probability, WITHIN_CONV + self.layer);
        match self.edge_type {
            Some(edge_type) => mask.for_type(edge_type),
            None => mask,
        }
    }
}

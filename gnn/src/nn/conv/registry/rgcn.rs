//! The relational graph convolutional layer.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::nn::conv::flags::{ConvFlag, FlagKind, FlagValues, ModelName};
use crate::nn::conv::hetero::HeteroShape;
use crate::nn::conv::incoming::Incoming;
use crate::nn::conv::relation_weights::{Decomposition, RelationWeights};
use crate::nn::conv::{ConvSettings, EdgeFeatureUse, EdgeWeighting, LayerForm, TypedConv, TypedConvInput};
use crate::nn::prefix;
use crate::nn::weight_init::WeightInit;
use crate::ops::{Activation, EdgeBlocks, GnnBackend, Linear, Precision, Reduce, linear};

/// The settings of a relational graph convolutional network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RgcnSettings {
    /// Decomposition of the weights of edge types.
    pub decomposition: Decomposition,
}

impl ConvSettings for RgcnSettings {
    const NAME: &'static str = "rgcn";
    const MODELS: &'static [ModelName] =
        &[ModelName { name: "rgcn", help: "Relational graph convolutional network", preset: &[] }];
    const FLAGS: &'static [ConvFlag] = &[
        ConvFlag {
            name: "num_bases",
            help: "Basis decomposition of rgcn: number of basis matrices, whose weighted sums are the weights of the \
                   edge types [default: a separate weight matrix per edge type]",
            kind: FlagKind::Count,
            default: None,
        },
        ConvFlag {
            name: "num_blocks",
            help: "Block-diagonal decomposition of rgcn: number of blocks in the weight matrix of an edge type; must \
                   divide --hidden-channels",
            kind: FlagKind::Count,
            default: None,
        },
    ];

    const EDGE_FEATURES: EdgeFeatureUse = EdgeFeatureUse::Read;
    const EDGE_BLOCKS: EdgeBlocks = EdgeBlocks::ToDestinations;

    fn edge_weighting(&self) -> EdgeWeighting {
        EdgeWeighting::WeightedMean
    }

    fn check(&self, channels: usize) -> Result<(), String> {
        match self.decomposition.problem(channels, channels) {
            Some(what) => Err(what),
            None => Ok(()),
        }
    }

    fn refusal(form: LayerForm) -> Option<&'static str> {
        match form {
            LayerForm::Typed => None,
            LayerForm::Direct => {
                Some("an R-GCN reads typed edges between rows of one width: use encoders (`encoder_decoder`)")
            }
        }
    }

    fn from_flags(values: FlagValues) -> Result<Self, String> {
        let number = |name: &str| values.get(name).and_then(|value| value.as_u64()).map(|number| number as usize);
        let decomposition = match (number("num_bases"), number("num_blocks")) {
            (Some(_), Some(_)) => return Err("it has either --num-bases or --num-blocks".into()),
            (Some(num_bases), None) => Decomposition::Basis { num_bases },
            (None, Some(num_blocks)) => Decomposition::BlockDiagonal { num_blocks },
            (None, None) => Decomposition::None,
        };
        Ok(Self { decomposition })
    }

    fn to_flags(&self) -> FlagValues {
        let mut values = FlagValues::new();
        match self.decomposition {
            Decomposition::None => {}
            Decomposition::Basis { num_bases } => {
                values.insert("num_bases".into(), num_bases.into());
            }
            Decomposition::BlockDiagonal { num_blocks } => {
                values.insert("num_blocks".into(), num_blocks.into());
            }
        }
        values
    }
}

impl RgcnSettings {
    pub(super) fn init_typed<B: Backend>(
        self,
        shape: &HeteroShape<'_>,
        init: &mut WeightInit,
        device: &B::Device,
    ) -> RgcnConv<B> {
        RgcnConvConfig::new(shape.edge_types.len(), shape.channels, shape.channels)
            .with_decomposition(self.decomposition)
            .with_edge_channels(shape.edge_types.iter().map(|edges| edges.edge_channels).collect())
            .init(init, device)
    }
}

/// The settings of an [`RgcnConv`] as a layer of its own.
#[derive(Config, Debug)]
pub struct RgcnConvConfig {
    /// Number of edge types.
    pub num_relations: usize,
    /// Features of each node, the same for all node types.
    pub in_channels: usize,
    /// Output features of each destination.
    pub out_channels: usize,
    /// Decomposition of the weights of edge types.
    #[config(default = "Decomposition::None")]
    pub decomposition: Decomposition,
    /// True to add a bias to the output.
    #[config(default = true)]
    pub bias: bool,
    /// Features of edges by edge type; 0, or no entry, for edges without features.
    #[config(default = "Vec::new()")]
    pub edge_channels: Vec<usize>,
}

/// A relational graph convolutional layer, `out_i = sum_r mean_{j in N_r(i)} x_j W_r + x_i W_0 + b` (Schlichtkrull et
/// al., "Modeling relational data with graph convolutional networks", ESWC 2018), as PyG's `RGCNConv`. With features of
/// edges, `mean_{j in N_r(i)} e_ij W'_r` is added for each edge type that has some. Weights of edges make the means
/// weighted.
#[derive(Module, Debug)]
pub struct RgcnConv<B: Backend> {
    /// The weights `W_r` of the edge types.
    pub weights: RelationWeights<B>,
    /// `W_0`, `[in_channels, out_channels]`; PyG's `root`.
    pub weight_self: Param<Tensor<B, 2>>,
    /// `b`, `[out_channels]`.
    pub bias: Option<Param<Tensor<B, 1>>>,
    /// The weights `W'_r` of the features of edges, `[edge_channels, out_channels]`. `None` for edge types without
    /// features.
    pub edge_weights: Vec<Option<Param<Tensor<B, 2>>>>,
    precision: Precision,
}

impl RgcnConvConfig {
    /// Makes the layer with the initial values of PyG: Glorot-uniform weights and a bias of zero.
    ///
    /// # Panics
    /// If the decomposition has no bases or blocks, or if its blocks do not divide the channels.
    pub fn init<B: Backend>(&self, init: &mut WeightInit, device: &B::Device) -> RgcnConv<B> {
        let shape = [self.in_channels, self.out_channels];
        let problem = self.decomposition.problem(self.in_channels, self.out_channels);
        assert!(problem.is_none(), "RgcnConv: {}", problem.unwrap_or_default());
        let weights = RelationWeights::new(self.num_relations, shape, self.decomposition, init, device);
        let weight_self = init.uniform(shape, WeightInit::glorot_bound(self.in_channels, self.out_channels), device);
        let bias = self.bias.then(|| init.zeros([self.out_channels], device));
        let mut edge_weights = Vec::with_capacity(self.edge_channels.len());
        for &channels in &self.edge_channels {
            let bound = WeightInit::glorot_bound(channels, self.out_channels);
            edge_weights.push((channels > 0).then(|| init.uniform([channels, self.out_channels], bound, device)));
        }
        RgcnConv { weights, weight_self, bias, edge_weights, precision: Precision::default() }
    }
}

impl<B: GnnBackend> TypedConv<B> for RgcnConv<B> {
    fn convolve(&self, input: TypedConvInput<'_, B>) -> Tensor<B, 2> {
        input.activation.apply(self.forward(prefix(input.x, input.num_dst), input.incoming))
    }

    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }
}

impl<B: GnnBackend> RgcnConv<B> {
    /// Applies the layer to the destinations of one node type. Edge types without edges are skipped.
    ///
    /// # Shapes
    /// - `x_dst`: `[num_dst, in_channels]`
    /// - `x` of each edge type: `[num_src, in_channels]`
    /// - output: `[num_dst, out_channels]`
    ///
    /// # Panics
    /// If a tensor has another shape, or if an edge type does not exist.
    pub fn forward(&self, x_dst: Tensor<B, 2>, incoming: &[Incoming<B>]) -> Tensor<B, 2> {
        let bias = self.bias.as_ref().map(Param::val);
        let product = Linear { activation: Activation::Identity, precision: self.precision };
        let own = linear(x_dst, self.weight_self.val(), bias, product);
        let mut sum = own;
        for edges in incoming.iter().filter(|edges| edges.has_edges()) {
            sum = sum + edges.message(self.weights.of_relation(edges.relation), &Reduce::Mean, self.precision);
            if let Some(Some(weight)) = self.edge_weights.get(edges.relation) {
                sum = sum + edges.edges.aggregated_features(&edges.block, &Reduce::Mean, weight, self.precision);
            }
        }
        sum
    }
}

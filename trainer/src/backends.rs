//! The training functions, compiled for each backend.

use crate::edge::{EdgeOutputs, EdgePredictionConfig, EdgeTrainingConfig, FittedEdgeModel};
use crate::error::ModelFileError;
use crate::graph::{CrossValidationResult, FittedGraphModel, GraphSplit, GraphTrainingConfig, Protocol};
use crate::inference::{
    ExplanationConfig, ExplanationRun, ExplanationVisitor, GraphPredictionConfig, LayerWiseConfig, LinkEnds,
    Neighborhoods, PredictionConfig, PredictionJob, ScoredNode, TopDestinations,
};
use crate::link::{FittedLinkModel, LinkResult, LinkScores, LinkTrainingConfig};
use crate::model_file::{ModelTask, SavedEmbeddings};
use crate::models::{EdgeModel, EdgeModelConfig, LinkModel, LinkModelConfig, Network, NetworkConfig};
use crate::multi::{FittedMultiModel, MultiModelConfig, MultiResult, MultiScores, MultiTrainingConfig};
use crate::{EmbeddingSource, FittedNodeModel, NodeTrainingConfig, Observer, SeedResult, SeedScores, TrainError};
#[cfg(not(test))]
use crate::{edge, graph, inference, link, model_file, multi};
#[cfg(not(test))]
use burn::backend::Autodiff;
use burn::tensor::Device;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, DistRows};
#[cfg(not(test))]
use edgecut_gnn::Cpu;
#[cfg(all(feature = "cuda", not(test)))]
use edgecut_gnn::Cuda;
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::small_graphs::Fold;
use edgecut_graph::{EdgeTypeId, GraphDataset, NodeTypeId, Split};
use std::path::Path;
use std::sync::Arc;

/// Declares [`TrainingBackend`] and implements it for each backend. A generic implementation would be compiled in the
/// programs instead.
macro_rules! training_backend {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $function:path;)*) => {
        /// A backend with training functions that are compiled in this crate.
        ///
        /// The functions of the same names elsewhere in this crate are generic, so each program that calls them compiles
        /// burn's operations again, which takes minutes. The methods of this trait are compiled once, with this crate.
        pub trait TrainingBackend: GnnBackend {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// The errors of that function.
                fn $name($($argument: $type),*) -> $result;
            )*
        }

        // The unit tests call none of these, and would wait for them to be compiled.
        #[cfg(not(test))]
        impl TrainingBackend for Cpu {
            $(fn $name($($argument: $type),*) -> $result { $function($($argument),*) })*
        }

        #[cfg(all(feature = "cuda", not(test)))]
        impl TrainingBackend for Cuda {
            $(fn $name($($argument: $type),*) -> $result { $function($($argument),*) })*
        }
    };
}

training_backend! {
    /// Calls [`train_node`](crate::train_node).
    fn train_node(
        graph: &Arc<DistGraph>,
        config: &NodeTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<FittedNodeModel<Self>, TrainError> = crate::train_node::<Autodiff<Self>>;

    /// Calls [`evaluate_node`](crate::evaluate_node).
    fn evaluate_node(
        graph: &Arc<DistGraph>,
        config: &NodeTrainingConfig,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<SeedResult, TrainError> = crate::evaluate_node;

    /// Calls [`train_multi`](crate::multi::train_multi).
    fn train_multi(
        graph: &Arc<DistGraph>,
        config: &MultiTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<MultiScores>,
    ) -> Result<FittedMultiModel<Self>, TrainError> = multi::train_multi::<Autodiff<Self>>;

    /// Calls [`evaluate_multi`](crate::multi::evaluate_multi).
    fn evaluate_multi(
        graph: &Arc<DistGraph>,
        config: &MultiTrainingConfig,
        model: (&Network<Self>, &MultiModelConfig),
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<MultiResult, TrainError> = multi::evaluate_multi;

    /// Calls [`open_model`](crate::model_file::open_model) for a model for several targets.
    fn open_multi_model(
        bytes: &[u8],
        path: &Path,
        device: &Device<Self>,
    ) -> Result<(Network<Self>, MultiModelConfig, SavedEmbeddings), ModelFileError> = model_file::open_model;

    /// Calls [`predict_node`](crate::inference::predict_node).
    fn predict_node(
        job: PredictionJob<'_, '_, Self>,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        config: &PredictionConfig,
    ) -> Result<DistRows, TrainError> = inference::predict_node;

    /// Calls [`predict_outputs`](crate::inference::predict_outputs).
    fn predict_outputs(
        job: PredictionJob<'_, '_, Self>,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        node_types: &[NodeTypeId],
        neighborhoods: &Neighborhoods,
    ) -> Result<Vec<DistRows>, TrainError> = inference::predict_outputs;

    /// Calls [`predict_link_rows`](crate::inference::predict_link_rows).
    fn predict_link_rows(
        job: PredictionJob<'_, '_, Self>,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        config: &PredictionConfig,
    ) -> Result<DistRows, TrainError> = inference::predict_link_rows;

    /// Calls [`encode_link_ends`](crate::inference::encode_link_ends).
    fn encode_link_ends(
        job: PredictionJob<'_, '_, Self>,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        edge_type: EdgeTypeId,
        limits: &LayerWiseConfig,
    ) -> Result<LinkEnds, TrainError> = inference::encode_link_ends;

    /// Calls [`LinkEnds::score`](crate::inference::LinkEnds::score).
    fn score_pairs(
        ends: &LinkEnds,
        model: &LinkModel<Self>,
        sources: &[u32],
        destinations: &[u32],
        device: &Device<Self>,
    ) -> Result<Vec<f32>, TrainError> = LinkEnds::score;

    /// Calls [`find_top_destinations`](crate::inference::find_top_destinations).
    fn find_top_destinations(
        search: &TopDestinations,
        model: &LinkModel<Self>,
        sources: &[u32],
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<Vec<Vec<ScoredNode>>, TrainError> = inference::find_top_destinations;

    /// Calls [`predict_graphs`](crate::inference::predict_graphs).
    fn predict_graphs(
        dataset: &Arc<GraphDataset>,
        graphs: &[u32],
        config: GraphPredictionConfig,
        model: (&Network<Self>, &NetworkConfig),
        device: &Device<Self>,
    ) -> Result<Vec<f32>, TrainError> = inference::predict_graphs;

    /// Calls [`open_model`](crate::model_file::open_model) for a model for nodes or whole graphs. A model for another
    /// task is an error.
    fn open_network(
        bytes: &[u8],
        path: &Path,
        task: ModelTask,
        device: &Device<Self>,
    ) -> Result<(Network<Self>, NetworkConfig, SavedEmbeddings), ModelFileError> = model_file::open_network;

    /// Calls [`train_link`](crate::link::train_link).
    fn train_link(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<LinkScores>,
    ) -> Result<FittedLinkModel<Self>, TrainError> = link::train_link::<Autodiff<Self>>;

    /// Calls [`evaluate_link`](crate::link::evaluate_link).
    fn evaluate_link(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<LinkResult, TrainError> = link::evaluate_link;

    /// Calls [`open_model`](crate::model_file::open_model) for a model for links.
    fn open_link_model(
        bytes: &[u8],
        path: &Path,
        device: &Device<Self>,
    ) -> Result<(LinkModel<Self>, LinkModelConfig, SavedEmbeddings), ModelFileError> = model_file::open_model;

    /// Calls [`train_edge`](crate::edge::train_edge).
    fn train_edge(
        graph: &Arc<DistGraph>,
        config: &EdgeTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<FittedEdgeModel<Self>, TrainError> = edge::train_edge::<Autodiff<Self>>;

    /// Calls [`evaluate_edge`](crate::edge::evaluate_edge).
    fn evaluate_edge(
        graph: &Arc<DistGraph>,
        config: &EdgeTrainingConfig,
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<SeedResult, TrainError> = edge::evaluate_edge;

    /// Calls [`predict_edges`](crate::edge::predict_edges).
    fn predict_edges(
        job: (&Arc<DistGraph>, &mut ProcessGroup),
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        config: &EdgePredictionConfig,
        device: &Device<Self>,
        visit: &mut dyn FnMut(EdgeOutputs) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> = edge::predict_edges;

    /// Calls [`open_model`](crate::model_file::open_model) for a model for edges.
    fn open_edge_model(
        bytes: &[u8],
        path: &Path,
        device: &Device<Self>,
    ) -> Result<(EdgeModel<Self>, EdgeModelConfig, SavedEmbeddings), ModelFileError> = model_file::open_model;

    /// Calls [`explain_nodes`](crate::inference::explain_nodes).
    fn explain_nodes(
        job: PredictionJob<'_, '_, Self>,
        model: (&Network<Self>, &NetworkConfig),
        saved: EmbeddingSource<'_>,
        nodes: Vec<u32>,
        config: &ExplanationConfig,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> = inference::explain_nodes::<Autodiff<Self>>;

    /// Calls [`explain_edges`](crate::edge::explain_edges).
    fn explain_edges(
        job: PredictionJob<'_, '_, Self>,
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        split: Option<Split>,
        config: &ExplanationConfig,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> = edge::explain_edges::<Autodiff<Self>>;

    /// Calls [`explain_graphs`](crate::inference::explain_graphs).
    fn explain_graphs(
        dataset: &Arc<GraphDataset>,
        graphs: Vec<u32>,
        model: (&Network<Self>, &NetworkConfig),
        config: &ExplanationConfig,
        run: ExplanationRun<'_, '_, Self>,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> = inference::explain_graphs::<Autodiff<Self>>;

    /// Calls [`train_graph`](crate::graph::train_graph).
    fn train_graph(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<FittedGraphModel<Self>, TrainError> = graph::train_graph::<Autodiff<Self>>;

    /// Calls [`cross_validate`](crate::graph::cross_validate).
    fn cross_validate(
        graphs: &Arc<GraphDataset>,
        folds: &[Fold],
        protocol: Protocol,
        config: &GraphTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<CrossValidationResult, TrainError> = graph::cross_validate::<Autodiff<Self>>;

    /// Calls [`evaluate_graph`](crate::graph::evaluate_graph).
    fn evaluate_graph(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        model: (&Network<Self>, &NetworkConfig),
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<SeedResult, TrainError> = graph::evaluate_graph;
}

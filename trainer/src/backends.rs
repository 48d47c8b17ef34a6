//! The training functions, compiled for each backend.

use crate::edge::{EdgeOutputs, EdgePredictionConfig, EdgeTrainingConfig, FittedEdgeModel};
use crate::error::ModelFileError;
use crate::graph::{CrossValidationResult, FittedGraphModel, GraphSplit, GraphTrainingConfig, Protocol};
use crate::inference::{
    ExplanationConfig, ExplanationVisitor, GraphPredictionConfig, LayerWiseConfig, LinkEnds, PredictionConfig,
    PredictionJob, ScoredNode, TopDestinations,
};
use crate::link::{FittedLinkModel, LinkResult, LinkScores, LinkTrainingConfig};
use crate::model_file::{ModelTask, SavedEmbeddings};
use crate::models::{EdgeModel, EdgeModelConfig, LinkModel, LinkModelConfig, Network, NetworkConfig};
use crate::{EmbeddingSource, FittedNodeModel, NodeTrainingConfig, Observer, SeedResult, SeedScores, TrainError};
#[cfg(not(test))]
use crate::{edge, graph, inference, link, model_file};
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
use edgecut_graph::{EdgeTypeId, GraphDataset, Split};
use std::path::Path;
use std::sync::Arc;

/// Declares [`TrainingBackend`] and implements it for each backend. A generic implementation would be compiled in the
/// programs instead.
macro_rules! training_backend {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty { $call:expr })*) => {
        /// A backend with training functions that are compiled in this crate.
        ///
        /// The functions of the same names elsewhere in this crate are generic, so each program that calls them compiles
        /// burn's operations again, which takes minutes. The methods of this trait are compiled once, with this crate.
        pub trait TrainingBackend: GnnBackend {
            $($(#[$doc])* fn $name($($argument: $type),*) -> $result;)*
        }

        // The unit tests call none of these, and would wait for them to be compiled.
        #[cfg(not(test))]
        impl TrainingBackend for Cpu {
            $(fn $name($($argument: $type),*) -> $result { $call })*
        }

        #[cfg(all(feature = "cuda", not(test)))]
        impl TrainingBackend for Cuda {
            $(fn $name($($argument: $type),*) -> $result { $call })*
        }
    };
}

training_backend! {
    /// Calls [`train_node`](crate::train_node).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_node(
        graph: &Arc<DistGraph>,
        config: &NodeTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<FittedNodeModel<Self>, TrainError> {
        crate::train_node::<Autodiff<Self>>(graph, config, world, device, observer)
    }

    /// Calls [`evaluate_node`](crate::evaluate_node).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_node(
        graph: &Arc<DistGraph>,
        config: &NodeTrainingConfig,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<SeedResult, TrainError> {
        crate::evaluate_node(graph, config, model, model_config, saved, world, device)
    }

    /// Calls [`predict_node`](crate::inference::predict_node).
    ///
    /// # Errors
    /// The errors of that function.
    fn predict_node(
        job: PredictionJob<'_, '_, Self>,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        config: &PredictionConfig,
    ) -> Result<DistRows, TrainError> {
        inference::predict_node(job, model, model_config, saved, config)
    }

    /// Calls [`predict_link_rows`](crate::inference::predict_link_rows).
    ///
    /// # Errors
    /// The errors of that function.
    fn predict_link_rows(
        job: PredictionJob<'_, '_, Self>,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        config: &PredictionConfig,
    ) -> Result<DistRows, TrainError> {
        inference::predict_link_rows(job, model, model_config, saved, config)
    }

    /// Calls [`encode_link_ends`](crate::inference::encode_link_ends).
    ///
    /// # Errors
    /// The errors of that function.
    fn encode_link_ends(
        job: PredictionJob<'_, '_, Self>,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        edge_type: EdgeTypeId,
        limits: &LayerWiseConfig,
    ) -> Result<LinkEnds, TrainError> {
        inference::encode_link_ends(job, model, model_config, saved, edge_type, limits)
    }

    /// Calls [`LinkEnds::score`](crate::inference::LinkEnds::score).
    ///
    /// # Errors
    /// The errors of that function.
    fn score_pairs(
        ends: &LinkEnds,
        model: &LinkModel<Self>,
        sources: &[u32],
        destinations: &[u32],
        device: &Device<Self>,
    ) -> Result<Vec<f32>, TrainError> {
        ends.score(model, sources, destinations, device)
    }

    /// Calls [`find_top_destinations`](crate::inference::find_top_destinations).
    ///
    /// # Errors
    /// The errors of that function.
    fn find_top_destinations(
        search: &TopDestinations,
        model: &LinkModel<Self>,
        sources: &[u32],
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<Vec<Vec<ScoredNode>>, TrainError> {
        inference::find_top_destinations(search, model, sources, world, device)
    }

    /// Calls [`predict_graphs`](crate::inference::predict_graphs).
    ///
    /// # Errors
    /// The errors of that function.
    fn predict_graphs(
        dataset: &Arc<GraphDataset>,
        graphs: &[u32],
        config: GraphPredictionConfig,
        model: (&Network<Self>, &NetworkConfig),
        device: &Device<Self>,
    ) -> Result<Vec<f32>, TrainError> {
        inference::predict_graphs(dataset, graphs, config, model, device)
    }

    /// Calls [`open_model`](crate::model_file::open_model) for a model for nodes or whole graphs.
    ///
    /// # Errors
    /// The errors of that function, and a model for another task.
    fn open_network(
        bytes: &[u8],
        path: &Path,
        task: ModelTask,
        device: &Device<Self>,
    ) -> Result<(Network<Self>, NetworkConfig, SavedEmbeddings), ModelFileError> {
        model_file::open_network(bytes, path, task, device)
    }

    /// Calls [`train_link`](crate::link::train_link).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_link(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<LinkScores>,
    ) -> Result<FittedLinkModel<Self>, TrainError> {
        link::train_link::<Autodiff<Self>>(graph, config, world, device, observer)
    }

    /// Calls [`evaluate_link`](crate::link::evaluate_link).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_link(
        graph: &Arc<DistGraph>,
        config: &LinkTrainingConfig,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<LinkResult, TrainError> {
        link::evaluate_link(graph, config, model, model_config, saved, world, device)
    }

    /// Calls [`open_model`](crate::model_file::open_model) for a model for links.
    ///
    /// # Errors
    /// The errors of that function.
    fn open_link_model(
        bytes: &[u8],
        path: &Path,
        device: &Device<Self>,
    ) -> Result<(LinkModel<Self>, LinkModelConfig, SavedEmbeddings), ModelFileError> {
        model_file::open_model(bytes, path, device)
    }

    /// Calls [`train_edge`](crate::edge::train_edge).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_edge(
        graph: &Arc<DistGraph>,
        config: &EdgeTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<FittedEdgeModel<Self>, TrainError> {
        edge::train_edge::<Autodiff<Self>>(graph, config, world, device, observer)
    }

    /// Calls [`evaluate_edge`](crate::edge::evaluate_edge).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_edge(
        graph: &Arc<DistGraph>,
        config: &EdgeTrainingConfig,
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<SeedResult, TrainError> {
        edge::evaluate_edge(graph, config, model, saved, world, device)
    }

    /// Calls [`predict_edges`](crate::edge::predict_edges).
    ///
    /// # Errors
    /// The errors of that function.
    fn predict_edges(
        job: (&Arc<DistGraph>, &mut ProcessGroup),
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        config: &EdgePredictionConfig,
        device: &Device<Self>,
        visit: &mut dyn FnMut(EdgeOutputs) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        edge::predict_edges(job, model, saved, config, device, visit)
    }

    /// Calls [`open_model`](crate::model_file::open_model) for a model for edges.
    ///
    /// # Errors
    /// The errors of that function.
    fn open_edge_model(
        bytes: &[u8],
        path: &Path,
        device: &Device<Self>,
    ) -> Result<(EdgeModel<Self>, EdgeModelConfig, SavedEmbeddings), ModelFileError> {
        model_file::open_model(bytes, path, device)
    }

    /// Calls [`explain_nodes`](crate::inference::explain_nodes).
    ///
    /// # Errors
    /// The errors of that function.
    fn explain_nodes(
        job: PredictionJob<'_, '_, Self>,
        model: (&Network<Self>, &NetworkConfig),
        saved: EmbeddingSource<'_>,
        nodes: Vec<u32>,
        config: &ExplanationConfig,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> {
        inference::explain_nodes::<Autodiff<Self>>(job, model, saved, nodes, config, visit)
    }

    /// Calls [`explain_edges`](crate::edge::explain_edges).
    ///
    /// # Errors
    /// The errors of that function.
    fn explain_edges(
        job: PredictionJob<'_, '_, Self>,
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        split: Option<Split>,
        config: &ExplanationConfig,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> {
        edge::explain_edges::<Autodiff<Self>>(job, model, saved, split, config, visit)
    }

    /// Calls [`train_graph`](crate::graph::train_graph).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_graph(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<FittedGraphModel<Self>, TrainError> {
        graph::train_graph::<Autodiff<Self>>(graphs, split, config, world, device, observer)
    }

    /// Calls [`cross_validate`](crate::graph::cross_validate).
    ///
    /// # Errors
    /// The errors of that function.
    fn cross_validate(
        graphs: &Arc<GraphDataset>,
        folds: &[Fold],
        protocol: Protocol,
        config: &GraphTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<CrossValidationResult, TrainError> {
        graph::cross_validate::<Autodiff<Self>>(graphs, folds, protocol, config, world, device, observer)
    }

    /// Calls [`evaluate_graph`](crate::graph::evaluate_graph).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_graph(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        model: (&Network<Self>, &NetworkConfig),
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<SeedResult, TrainError> {
        graph::evaluate_graph(graphs, split, config, model, world, device)
    }
}

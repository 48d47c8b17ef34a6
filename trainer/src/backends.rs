//! The training functions, compiled for each backend.

use crate::edge::{EdgeOutputs, EdgePredictionConfig};
use crate::error::ModelFileError;
use crate::graph::{CrossValidationResult, GraphTrainingConfig, Protocol};
use crate::inference::{
    ExplanationConfig, ExplanationRun, ExplanationVisitor, GraphPredictionConfig, LayerWiseConfig, LinkEnds,
    Neighborhoods, PredictionConfig, PredictionJob, ScoredNode, TopDestinations,
};
use crate::model_file::{Loaded, SavedEmbeddings};
use crate::models::{EdgeModel, EdgeModelConfig, LinkModel, LinkModelConfig, Network, NetworkConfig};
use crate::seed_task::{FittedOf, ModelOf, SeedTask, TrainedModel};
#[cfg(not(test))]
use crate::seed_task::{evaluate_model, open_task_model, train_model};
use crate::{EmbeddingSource, Observer, SeedScores, TrainError};
#[cfg(not(test))]
use crate::{edge, graph, inference};
#[cfg(not(test))]
use burn::backend::Autodiff;
use burn::tensor::Device;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, DistRows};
#[cfg(not(test))]
use edgecut_gnn::Cpu;
#[cfg(all(feature = "cuda", not(test)))]
use edgecut_gnn::Cuda;
use edgecut_gnn::ops::{GnnBackend, Precision};
use edgecut_graph::small_graphs::Fold;
use edgecut_graph::{EdgeTypeId, GraphDataset, NodeTypeId, Split};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A backend for which the training and the evaluation of a task are compiled in this crate.
///
/// The functions for all tasks are generic, so each program that calls them compiles burn's operations again, which takes
/// minutes. The methods of this trait are compiled once, with this crate.
pub trait Compiles<T: SeedTask>: GnnBackend {
    /// Calls [`train_model`](crate::train_model).
    ///
    /// # Errors
    /// The errors of that function.
    fn train(
        data: &T::Data,
        config: &T::Config,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<T::Scores>,
    ) -> Result<FittedOf<T, Self>, TrainError>;

    /// Calls [`evaluate_model`](crate::evaluate_model).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate(
        data: &T::Data,
        config: &T::Config,
        trained: TrainedModel<'_, ModelOf<T, Self>, T::ModelConfig>,
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<T::Outcome, TrainError>;

    /// Calls [`open_task_model`](crate::open_task_model), and sets the type in which the model multiplies matrices.
    ///
    /// # Errors
    /// The errors of that function.
    fn open(
        bytes: &[u8],
        path: &Path,
        precision: Precision,
        device: &Device<Self>,
    ) -> Result<Loaded<Self, T::ModelConfig, SavedEmbeddings>, ModelFileError>;
}

#[cfg(not(test))]
macro_rules! compiles {
    ($backend:ty, $task:path) => {
        impl Compiles<$task> for $backend {
            fn train(
                data: &<$task as SeedTask>::Data,
                config: &<$task as SeedTask>::Config,
                world: &mut ProcessGroup,
                device: &Device<Self>,
                observer: &mut dyn Observer<<$task as SeedTask>::Scores>,
            ) -> Result<FittedOf<$task, Self>, TrainError> {
                train_model::<$task, Autodiff<Self>>(data, config, world, device, observer)
            }

            fn evaluate(
                data: &<$task as SeedTask>::Data,
                config: &<$task as SeedTask>::Config,
                trained: TrainedModel<'_, ModelOf<$task, Self>, <$task as SeedTask>::ModelConfig>,
                world: &mut ProcessGroup,
                device: &Device<Self>,
            ) -> Result<<$task as SeedTask>::Outcome, TrainError> {
                evaluate_model::<$task, Self>(data, config, trained, world, device)
            }

            fn open(
                bytes: &[u8],
                path: &Path,
                precision: Precision,
                device: &Device<Self>,
            ) -> Result<Loaded<Self, <$task as SeedTask>::ModelConfig, SavedEmbeddings>, ModelFileError> {
                let mut loaded = open_task_model::<$task, Self>(bytes, path, device)?;
                loaded.0.set_precision(precision);
                Ok(loaded)
            }
        }
    };
}

/// Declares [`Tasks`], and compiles the tasks for each backend.
macro_rules! compiled_tasks {
    ($($task:path),* $(,)?) => {
        /// A backend for which all tasks of this crate are compiled.
        pub trait Tasks: GnnBackend $(+ Compiles<$task>)* {}

        impl<B: GnnBackend $(+ Compiles<$task>)*> Tasks for B {}

        // The unit tests call none of these, and would wait for them to be compiled.
        $(
            #[cfg(not(test))]
            compiles!(Cpu, $task);
            #[cfg(all(feature = "cuda", not(test)))]
            compiles!(Cuda, $task);
        )*
    };
}

compiled_tasks! {
    crate::NodePrediction,
    crate::multi::MultiPrediction,
    crate::link::LinkPrediction,
    crate::edge::EdgePrediction,
    crate::graph::GraphPrediction,
}

/// Declares [`TrainingBackend`] and implements it for each backend. A generic implementation would be compiled in the
/// programs instead.
macro_rules! training_backend {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $function:path;)*) => {
        /// A backend with functions for predictions that are compiled in this crate, as the methods of [`Compiles`].
        pub trait TrainingBackend: Tasks {
            $(
                #[doc = concat!("Returns the result, or the error, of `", stringify!($function), "`.")]
                fn $name($($argument: $type),*) -> $result;
            )*
        }

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
    fn with_output(
        network: Network<Self>,
        node_type: NodeTypeId,
        columns: Range<usize>,
    ) -> Network<Self> = Network::with_output;

    fn relation_values(model: &LinkModel<Self>) -> Option<Vec<f32>> = LinkModel::relation_values;

    fn predict_node(
        job: PredictionJob<'_, '_, Self>,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        config: &PredictionConfig,
    ) -> Result<DistRows, TrainError> = inference::predict_node;

    fn predict_outputs(
        job: PredictionJob<'_, '_, Self>,
        model: &Network<Self>,
        model_config: &NetworkConfig,
        saved: EmbeddingSource<'_>,
        node_types: &[NodeTypeId],
        neighborhoods: &Neighborhoods,
    ) -> Result<Vec<DistRows>, TrainError> = inference::predict_outputs;

    fn encode_link_ends(
        job: PredictionJob<'_, '_, Self>,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        edge_type: EdgeTypeId,
        limits: &LayerWiseConfig,
    ) -> Result<LinkEnds, TrainError> = inference::encode_link_ends;

    fn score_pairs(
        ends: &LinkEnds,
        model: &LinkModel<Self>,
        sources: &[u32],
        destinations: &[u32],
        device: &Device<Self>,
    ) -> Result<Vec<f32>, TrainError> = LinkEnds::score;

    fn find_top_destinations(
        search: &TopDestinations,
        model: &LinkModel<Self>,
        sources: &[u32],
        world: &mut ProcessGroup,
        device: &Device<Self>,
    ) -> Result<Vec<Vec<ScoredNode>>, TrainError> = inference::find_top_destinations;

    fn predict_graphs(
        dataset: &Arc<GraphDataset>,
        graphs: &[u32],
        config: GraphPredictionConfig,
        model: (&Network<Self>, &NetworkConfig),
        device: &Device<Self>,
    ) -> Result<Vec<f32>, TrainError> = inference::predict_graphs;

    fn predict_edges(
        job: (&Arc<DistGraph>, &mut ProcessGroup),
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        config: &EdgePredictionConfig,
        device: &Device<Self>,
        visit: &mut dyn FnMut(EdgeOutputs) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> = edge::predict_edges;

    fn explain_nodes(
        job: PredictionJob<'_, '_, Self>,
        model: (&Network<Self>, &NetworkConfig),
        saved: EmbeddingSource<'_>,
        nodes: Vec<u32>,
        config: &ExplanationConfig,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> = inference::explain_nodes::<Autodiff<Self>>;

    fn explain_edges(
        job: PredictionJob<'_, '_, Self>,
        model: (&EdgeModel<Self>, &EdgeModelConfig),
        saved: EmbeddingSource<'_>,
        split: Option<Split>,
        config: &ExplanationConfig,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> = edge::explain_edges::<Autodiff<Self>>;

    fn explain_graphs(
        dataset: &Arc<GraphDataset>,
        graphs: Vec<u32>,
        model: (&Network<Self>, &NetworkConfig),
        config: &ExplanationConfig,
        run: ExplanationRun<'_, '_, Self>,
        visit: &mut ExplanationVisitor<'_>,
    ) -> Result<(), TrainError> = inference::explain_graphs::<Autodiff<Self>>;

    fn cross_validate(
        graphs: &Arc<GraphDataset>,
        folds: &[Fold],
        protocol: Protocol,
        config: &GraphTrainingConfig,
        world: &mut ProcessGroup,
        device: &Device<Self>,
        observer: &mut dyn Observer<SeedScores>,
    ) -> Result<CrossValidationResult, TrainError> = graph::cross_validate::<Autodiff<Self>>;
}

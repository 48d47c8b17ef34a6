//! The backends for training, and the training functions compiled for them.

use crate::graph::{
    CrossValidationResult, GraphObserver, GraphSplit, GraphTrainingConfig, Protocol, TrainedGraphModel,
};
use crate::link::{LinkObserver, LinkResult, LinkTrainingConfig, TrainedLinkModel};
use crate::model_file::{ModelFileError, SavedEmbeddings};
use crate::models::{GraphNet, GraphNetConfig, LinkModel, LinkModelConfig, ModelConfig, NodeModel};
use crate::ops::GnnBackend;
use crate::{ClassificationResult, EmbeddingSource, NodeTrainingConfig, Observer, TrainError, TrainedNodeModel};
#[cfg(not(test))]
use crate::{graph, link, model_file};
#[cfg(not(test))]
use burn::backend::Autodiff;
#[cfg(not(test))]
use burn::tensor::backend::BackendTypes;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::SamplingNode;
use edgecut_graph::GraphDataset;
use edgecut_graph::graph_splits::Fold;
use std::path::Path;
use std::sync::Arc;

/// The CPU backend.
pub type Cpu = burn_ndarray::NdArray<f32>;

/// The backend of NVIDIA GPUs.
#[cfg(feature = "cuda")]
pub type Cuda = burn_cubecl::CubeBackend<cubecl::cuda::CudaRuntime, f32, i32, u8>;

/// A backend with training functions that are compiled in this crate.
///
/// The functions of the same names elsewhere in this crate are generic, so each program that calls them compiles burn's
/// operations again, which takes minutes. The methods of this trait are compiled once, with this crate.
pub trait TrainingBackend: GnnBackend {
    /// Calls [`train_node`](crate::train_node).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_node(
        node: &Arc<SamplingNode>,
        config: &NodeTrainingConfig,
        world: &mut ProcessGroup,
        device: &Self::Device,
        observer: &mut dyn Observer<Self>,
    ) -> Result<TrainedNodeModel<Self>, TrainError>;

    /// Calls [`evaluate_node`](crate::evaluate_node).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_node(
        node: &Arc<SamplingNode>,
        config: &NodeTrainingConfig,
        model: &NodeModel<Self>,
        model_config: &ModelConfig,
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Self::Device,
    ) -> Result<ClassificationResult, TrainError>;

    /// Calls [`open_model`](crate::model_file::open_model).
    ///
    /// # Errors
    /// The errors of that function.
    fn open_model(
        bytes: &[u8],
        path: &Path,
        device: &Self::Device,
    ) -> Result<(NodeModel<Self>, ModelConfig, SavedEmbeddings), ModelFileError>;

    /// Calls [`train_link`](crate::link::train_link).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_link(
        node: &Arc<SamplingNode>,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
        device: &Self::Device,
        observer: &mut dyn LinkObserver<Self>,
    ) -> Result<TrainedLinkModel<Self>, TrainError>;

    /// Calls [`evaluate_link`](crate::link::evaluate_link).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_link(
        node: &Arc<SamplingNode>,
        config: &LinkTrainingConfig,
        model: &LinkModel<Self>,
        model_config: &LinkModelConfig,
        saved: EmbeddingSource<'_>,
        world: &mut ProcessGroup,
        device: &Self::Device,
    ) -> Result<LinkResult, TrainError>;

    /// Calls [`open_link_model`](crate::model_file::open_link_model).
    ///
    /// # Errors
    /// The errors of that function.
    fn open_link_model(
        bytes: &[u8],
        path: &Path,
        device: &Self::Device,
    ) -> Result<(LinkModel<Self>, LinkModelConfig, SavedEmbeddings), ModelFileError>;

    /// Calls [`train_graph`](crate::graph::train_graph).
    ///
    /// # Errors
    /// The errors of that function.
    fn train_graph(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        world: &mut ProcessGroup,
        device: &Self::Device,
        observer: &mut dyn GraphObserver<Self>,
    ) -> Result<TrainedGraphModel<Self>, TrainError>;

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
        device: &Self::Device,
        observer: &mut dyn GraphObserver<Self>,
    ) -> Result<CrossValidationResult, TrainError>;

    /// Calls [`evaluate_graph`](crate::graph::evaluate_graph).
    ///
    /// # Errors
    /// The errors of that function.
    fn evaluate_graph(
        graphs: &Arc<GraphDataset>,
        split: &GraphSplit,
        config: &GraphTrainingConfig,
        model: (&GraphNet<Self>, &GraphNetConfig),
        world: &mut ProcessGroup,
        device: &Self::Device,
    ) -> Result<ClassificationResult, TrainError>;

    /// Calls [`parse_graph_model`](crate::model_file::parse_graph_model).
    ///
    /// # Errors
    /// The errors of that function.
    fn parse_graph_model(
        bytes: &[u8],
        path: &Path,
        device: &Self::Device,
    ) -> Result<(GraphNet<Self>, GraphNetConfig), ModelFileError>;
}

/// Implements [`TrainingBackend`] for a backend. A generic implementation would again be compiled in each program.
#[cfg(not(test))]
macro_rules! compile_training {
    ($backend:ty) => {
        impl TrainingBackend for $backend {
            fn train_node(
                node: &Arc<SamplingNode>,
                config: &NodeTrainingConfig,
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
                observer: &mut dyn Observer<Self>,
            ) -> Result<TrainedNodeModel<Self>, TrainError> {
                crate::train_node::<Autodiff<Self>>(node, config, world, device, observer)
            }

            fn evaluate_node(
                node: &Arc<SamplingNode>,
                config: &NodeTrainingConfig,
                model: &NodeModel<Self>,
                model_config: &ModelConfig,
                saved: EmbeddingSource<'_>,
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
            ) -> Result<ClassificationResult, TrainError> {
                crate::evaluate_node(node, config, model, model_config, saved, world, device)
            }

            fn open_model(
                bytes: &[u8],
                path: &Path,
                device: &<Self as BackendTypes>::Device,
            ) -> Result<(NodeModel<Self>, ModelConfig, SavedEmbeddings), ModelFileError> {
                model_file::open_model(bytes, path, device)
            }

            fn train_link(
                node: &Arc<SamplingNode>,
                config: &LinkTrainingConfig,
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
                observer: &mut dyn LinkObserver<Self>,
            ) -> Result<TrainedLinkModel<Self>, TrainError> {
                link::train_link::<Autodiff<Self>>(node, config, world, device, observer)
            }

            fn evaluate_link(
                node: &Arc<SamplingNode>,
                config: &LinkTrainingConfig,
                model: &LinkModel<Self>,
                model_config: &LinkModelConfig,
                saved: EmbeddingSource<'_>,
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
            ) -> Result<LinkResult, TrainError> {
                link::evaluate_link(node, config, model, model_config, saved, world, device)
            }

            fn open_link_model(
                bytes: &[u8],
                path: &Path,
                device: &<Self as BackendTypes>::Device,
            ) -> Result<(LinkModel<Self>, LinkModelConfig, SavedEmbeddings), ModelFileError> {
                model_file::open_link_model(bytes, path, device)
            }

            fn train_graph(
                graphs: &Arc<GraphDataset>,
                split: &GraphSplit,
                config: &GraphTrainingConfig,
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
                observer: &mut dyn GraphObserver<Self>,
            ) -> Result<TrainedGraphModel<Self>, TrainError> {
                graph::train_graph::<Autodiff<Self>>(graphs, split, config, world, device, observer)
            }

            fn cross_validate(
                graphs: &Arc<GraphDataset>,
                folds: &[Fold],
                protocol: Protocol,
                config: &GraphTrainingConfig,
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
                observer: &mut dyn GraphObserver<Self>,
            ) -> Result<CrossValidationResult, TrainError> {
                graph::cross_validate::<Autodiff<Self>>(graphs, folds, protocol, config, world, device, observer)
            }

            fn evaluate_graph(
                graphs: &Arc<GraphDataset>,
                split: &GraphSplit,
                config: &GraphTrainingConfig,
                model: (&GraphNet<Self>, &GraphNetConfig),
                world: &mut ProcessGroup,
                device: &<Self as BackendTypes>::Device,
            ) -> Result<ClassificationResult, TrainError> {
                graph::evaluate_graph(graphs, split, config, model, world, device)
            }

            fn parse_graph_model(
                bytes: &[u8],
                path: &Path,
                device: &<Self as BackendTypes>::Device,
            ) -> Result<(GraphNet<Self>, GraphNetConfig), ModelFileError> {
                model_file::parse_graph_model(bytes, path, device)
            }
        }
    };
}

// Unit tests do not train by `TrainingBackend`, and compiling it takes longer than all of them.
#[cfg(not(test))]
compile_training!(Cpu);
#[cfg(all(feature = "cuda", not(test)))]
compile_training!(Cuda);

//! Training of graph neural networks on graphs and clusters that outgrow one machine.
//!
//! This crate is the only dependency of a program with a model of its own. It has the other crates of Edgecut as modules,
//! [`burn`](https://burn.dev) for the model, and a [`prelude`] of the names that such a program needs.
//!
//! A process joins a job, opens its part of the graph, and trains a model:
//!
//! ```
//! use edgecut::burn::{self, backend::Autodiff, module::Module, prelude::Backend, tensor::Tensor};
//! use edgecut::prelude::*;
//! use std::sync::Arc;
//!
//! /// A layer of GraphSAGE.
//! #[derive(Module, Debug)]
//! struct Model<B: Backend> {
//!     layer: SageConv<B>,
//! }
//!
//! impl<B: GnnBackend> NodeClassifier<B> for Model<B> {
//!     fn forward(&self, input: ModelInput<B>, _mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
//!         Ok(self.layer.forward(input.features(), &input.blocks()[0], Activation::Identity))
//!     }
//! }
//!
//! let dir = tempfile::tempdir()?;
//! let parts = dir.path().join("2-parts");
//! let dataset = readers::fake(&FakeOptions { avg_num_nodes: 300, ..FakeOptions::default() })?;
//! partition(&dataset, &PartitionOptions::new(2), &parts, &())?;
//!
//! // A job of one process, which holds both parts. `spawn` starts several, and `ClusterConfig::from_env` joins the job of a
//! // launcher.
//! let cluster = Cluster::join_local(1, |_| {})?.remove(0);
//! let mut world = cluster.world()?;
//! let part = Arc::new(DistGraph::open_part(&parts, cluster.rank(), cluster.world_size(), false)?);
//! let graph = DistGraph::start(part.clone(), cluster.clone(), DistGraphConfig::default())?;
//!
//! let kind = ModelKind::Sage { aggregation: Aggregation::Mean };
//! let mut training = TrainingConfig::new(kind, SamplerConfig::new(vec![Fanout::Count(10)]));
//! training.num_epochs = 20;
//! training.lr = 0.05;
//! let config = NodeTrainingConfig { training, metric: Metric::Accuracy };
//! let device = Default::default();
//! let task = NodeTask::new(&graph, &config, BatchOptions::default(), &device, &mut world)?;
//! let nodes = &part.meta().node_types[0];
//! let layer = SageConvConfig::new(nodes.feature_dim, nodes.num_classes).init(&mut WeightInit::new(0), &device);
//! let model = Model::<Autodiff<Cpu>> { layer };
//! let fitted = fit(task, model, (), &config.training.fit(), &mut world, &mut ())?;
//! assert!(fitted.result.test_acc > Some(0.5));
//! save_model(&dir.path().join("model.safetensors"), &fitted.model, &fitted.settings, &[])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A program with a training loop of its own, or without burn, takes batches from a loader:
//!
//! ```
//! use edgecut::prelude::*;
//! use std::sync::Arc;
//!
//! let cluster = Cluster::join_local(1, |_| {})?.remove(0);
//! let mut world = cluster.world()?;
//! let options = FakeOptions { avg_num_nodes: 300, ..FakeOptions::default() };
//! let part = Arc::new(share_dataset(&cluster, || readers::fake(&options))?);
//! let graph = DistGraph::start(part, cluster, DistGraphConfig::default())?;
//! let sampler = DistNeighborSampler::new(graph, SamplerConfig::new(vec![Fanout::Count(10), Fanout::Count(5)]))?;
//! let config = LoaderConfig {
//!     batch_size: 64,
//!     even_batches: true,
//!     shuffle: true,
//!     seed: 0,
//!     concurrency: 2,
//!     prefetch_bytes: DEFAULT_PREFETCH_BYTES,
//!     wanted: Wanted { features: true, labels: true, ..Wanted::default() },
//!     cache: None,
//! };
//! let seeds = Seeds::Split(Split::Train);
//! let loader = DistNeighborLoader::new(Arc::new(sampler), NodeTypeId(0), seeds, config, &mut world)?;
//! for batch in loader.epoch(0) {
//!     let batch = batch?;
//!     assert_eq!(batch.labels.len(), batch.num_seeds);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub use burn;
pub use edgecut_cluster as cluster;
pub use edgecut_dist_loader as dist_loader;
pub use edgecut_dist_sampler as dist_sampler;
pub use edgecut_graph as graph;
pub use edgecut_partition as partition;
pub use edgecut_trainer as trainer;

pub mod prelude {
    //! The names that a program with a model of its own needs.

    pub use edgecut_cluster::{Cluster, ClusterConfig, ProcessGroup, spawn};
    pub use edgecut_dist_loader::{
        BatchIter, DEFAULT_PREFETCH_BYTES, DistLinkNeighborLoader, DistNeighborLoader, EdgeSeeds, GraphDataLoader,
        LinkConfig, LoaderConfig, MiniBatch, Seeds,
    };
    pub use edgecut_dist_sampler::{
        DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NumNeighbors, SamplerConfig, Wanted, share_dataset,
    };
    pub use edgecut_graph::readers::{self, DatasetSource, FakeOptions};
    pub use edgecut_graph::{Dataset, EdgeTypeId, Meta, NodeTypeId, Part, PartitionId, Split};
    pub use edgecut_partition::{PartitionOptions, partition};
    pub use edgecut_trainer::metrics::Metric;
    pub use edgecut_trainer::model_file::save_model;
    pub use edgecut_trainer::models::{Mode, ModelError, ModelInput, ModelKind, NodeClassifier};
    pub use edgecut_trainer::nn::{Aggregation, SageConv, SageConvConfig, WeightInit};
    pub use edgecut_trainer::ops::{Activation, GnnBackend};
    pub use edgecut_trainer::{BatchOptions, Cpu, NodeTask, NodeTrainingConfig, TrainingConfig, fit};
}

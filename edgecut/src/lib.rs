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
//! let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
//! let mut training = TrainingConfig::new(kind, SamplerConfig::new(vec![Fanout::Count(10)]));
//! training.fit.num_epochs = 20;
//! training.fit.lr = 0.05;
//! let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
//! let device = Default::default();
//! let task = NodeTask::new(&graph, &config, BatchOptions::default(), &device, &mut world)?;
//! let nodes = &part.meta().node_types[0];
//! let layer = SageConvConfig::new(nodes.feature_dim, nodes.num_classes).init(&mut WeightInit::new(0), &device);
//! let model = Model::<Autodiff<Cpu>> { layer };
//! let fitted = fit(task, model, (), &config.training.fit, &mut world, &mut ())?;
//! assert!(fitted.result.test_acc > Some(0.5));
//! save_model(&dir.path().join("model.safetensors"), &fitted.model, &fitted.settings, &[])?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Its own settings let a program make its model again from a file. This one trains until a checkpoint, continues from it,
//! saves the model, and predicts the classes of all nodes with the model of the file:
//!
//! ```
//! # use edgecut::burn::{self, backend::Autodiff, module::Module, prelude::Backend, tensor::Tensor};
//! use edgecut::burn::config::Config;
//! use edgecut::prelude::*;
//! # use std::sync::Arc;
//!
//! /// The settings of the model, which its file stores.
//! #[derive(Config, Debug)]
//! struct ModelConfig {
//!     num_features: usize,
//!     num_classes: usize,
//! }
//!
//! impl ModelSettings for ModelConfig {}
//!
//! impl LoadableConfig for ModelConfig {
//!     type Model<B: Backend> = Model<B>;
//!
//!     fn validate(&self) -> Result<(), ModelError> {
//!         Ok(())
//!     }
//!
//!     fn init<B: Backend>(&self, device: &B::Device) -> Result<Model<B>, ModelError> {
//!         let layer = SageConvConfig::new(self.num_features, self.num_classes).init(&mut WeightInit::new(0), device);
//!         Ok(Model { layer })
//!     }
//! }
//! # #[derive(Module, Debug)]
//! # struct Model<B: Backend> {
//! #     layer: SageConv<B>,
//! # }
//! # impl<B: GnnBackend> NodeClassifier<B> for Model<B> {
//! #     fn forward(&self, input: ModelInput<B>, _mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
//! #         Ok(self.layer.forward(input.features(), &input.blocks()[0], Activation::Identity))
//! #     }
//! # }
//!
//! # let dir = tempfile::tempdir()?;
//! # let cluster = Cluster::join_local(1, |_| {})?.remove(0);
//! # let mut world = cluster.world()?;
//! # let options = FakeOptions { avg_num_nodes: 300, ..FakeOptions::default() };
//! # let part = Arc::new(share_dataset(&cluster, || readers::fake(&options))?);
//! # let graph = DistGraph::start(part.clone(), cluster, DistGraphConfig::default())?;
//! # let device = Default::default();
//! let nodes = &part.meta().node_types[0];
//! let settings = ModelConfig::new(nodes.feature_dim, nodes.num_classes);
//! let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
//! let mut training = TrainingConfig::new(kind, SamplerConfig::new(vec![Fanout::Count(10)]));
//! training.fit.lr = 0.05;
//! let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
//! let data = DataIdentity::of_graph(&graph, &mut world)?;
//! // A program has one run. The second one here stands for a program that is started again.
//! let mut runs = Vec::new();
//! for num_epochs in [10, 20] {
//!     let checkpoints = Checkpoints::open(
//!         CheckpointConfig {
//!             dir: dir.path().join("checkpoints"),
//!             every: Cadence::Epochs(5),
//!             keep: 1,
//!             resume: true,
//!             num_epochs,
//!             settings: [("lr".into(), "0.05".into())].into(),
//!             data: data.clone(),
//!             termination: None,
//!             mirror: None,
//!         },
//!         &mut world,
//!     )?;
//!     runs.push(checkpoints.resumed().map(|position| position.epoch));
//!     let fit_config = FitConfig { num_epochs, checkpoints: Some(checkpoints), ..config.training.fit.clone() };
//!     let task = NodeTask::new(&graph, &config, BatchOptions::default(), &device, &mut world)?;
//!     let model = settings.init::<Autodiff<Cpu>>(&device)?;
//!     let fitted = fit(task, model, settings.clone(), &fit_config, &mut world, &mut ())?;
//!     save_model(&dir.path().join("model.safetensors"), &fitted.model, &fitted.settings, &[])?;
//! }
//! assert_eq!(runs, [None, Some(10)]);
//!
//! let (model, settings, _) = load_model::<Cpu, ModelConfig>(&dir.path().join("model.safetensors"), &device)?;
//! let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), SamplerConfig::new(vec![Fanout::All]))?);
//! let options = BatchOptions { labels: false, ..BatchOptions::default() };
//! let wanted = options.wanted();
//! # let (batch_size, even_batches, shuffle, seed, concurrency, cache) = (64, false, false, 0, 2, None);
//! # let prefetch_bytes = DEFAULT_PREFETCH_BYTES;
//! let config = LoaderConfig { batch_size, even_batches, shuffle, seed, concurrency, prefetch_bytes, wanted, cache };
//! // The nodes of this process, in the order of its part.
//! let loader = DistNeighborLoader::new(sampler, NodeTypeId(0), Seeds::Owned, config, &mut world)?;
//! let schema = Arc::new(GraphSchema::new(part.meta())?);
//! let mut classes = Vec::new();
//! for batch in tensor_batches::<Cpu>(&loader, 0, &schema, options, &device) {
//!     let Some(input) = batch??.input().cloned() else { continue };
//!     let logits = model.forward(input, Mode::Eval)?.into_data().to_vec::<f32>()?;
//!     let best = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a class");
//!     classes.extend(logits.chunks_exact(settings.num_classes).map(best));
//! }
//! let labels = part.nodes(NodeTypeId(0)).labels.as_ref().expect("labels");
//! let correct = classes.iter().zip(labels.iter()).filter(|&(&class, &label)| class as i64 == label).count();
//! assert!(classes.len() == labels.len() && correct > labels.len() / 2);
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
//! let wanted = NodeFields { features: true, labels: true, ..NodeFields::default() };
//! let config = LoaderConfig { even_batches: true, shuffle: true, ..LoaderConfig::new(64, wanted) };
//! let seeds = Seeds::Split(Split::Train);
//! let loader = DistNeighborLoader::new(Arc::new(sampler), NodeTypeId(0), seeds, config, &mut world)?;
//! for batch in loader.epoch(0) {
//!     let batch = batch?;
//!     assert_eq!(batch.labels.len(), batch.num_seeds);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub use burn;
pub use edgecut_cluster as cluster;
pub use edgecut_dist_loader as dist_loader;
pub use edgecut_dist_sampler as dist_sampler;
pub use edgecut_gnn as gnn;
pub use edgecut_graph as graph;
pub use edgecut_partition as partition;
pub use edgecut_trainer as trainer;
pub use serde_json;

pub mod prelude {
    //! The names that a program with a model of its own needs.

    pub use edgecut_cluster::{Cluster, ClusterConfig, ProcessGroup, spawn};
    pub use edgecut_dist_loader::{
        BatchIter, DEFAULT_PREFETCH_BYTES, DistLinkNeighborLoader, DistNeighborLoader, EdgeSeeds, GraphDataLoader,
        LinkConfig, LoaderConfig, MiniBatch, Seeds,
    };
    pub use edgecut_dist_sampler::{
        DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, NumNeighbors, SamplerConfig, share_dataset,
    };
    pub use edgecut_gnn::nn::{Aggregation, SageConv, SageConvConfig, WeightInit};
    pub use edgecut_gnn::ops::{Activation, GnnBackend};
    pub use edgecut_graph::readers::{self, DatasetSource, FakeOptions};
    pub use edgecut_graph::{Dataset, DiskPartId, EdgeTypeId, Meta, NodeTypeId, Part, PartitionId, Split};
    pub use edgecut_partition::{PartitionOptions, partition};
    pub use edgecut_trainer::checkpoint::{Cadence, CheckpointConfig, Checkpoints, DataIdentity};
    pub use edgecut_trainer::loss::{AnyLoss, Target};
    pub use edgecut_trainer::metrics::Metric;
    pub use edgecut_trainer::model_file::{LoadableConfig, ModelSettings, load_model, save_model};
    pub use edgecut_trainer::models::{
        ConvKind, GraphSchema, Mode, ModelError, ModelInput, NodeClassifier, SageSettings,
    };
    pub use edgecut_trainer::{
        BatchOptions, Cpu, FitConfig, NodeTask, NodeTrainingConfig, TrainingConfig, fit, tensor_batches,
    };
}

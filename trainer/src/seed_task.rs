//! The tasks of this crate, each of which trains and evaluates models of this crate.

use crate::embeddings::{EmbeddingSource, Embeddings};
use crate::error::{ModelError, ModelFileError, TrainError};
use crate::fit::{Evaluation, Evaluator, FitConfig, Fitted, Observer, Task, fit, freezes_embedding};
use crate::memory::parameter_count::{EmbeddedNodes, check_model_memory};
use crate::model_file::{LoadableConfig, Loaded, ModelSettings, SavedEmbeddings, SavedTask, TaskKind, open_model};
use crate::models::GraphSchema;
use burn::module::AutodiffModule;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::{AutodiffGnnBackend, GnnBackend};
use std::path::Path;
use std::sync::Arc;

/// The model of a task.
pub type ModelOf<T, B> = <<T as SeedTask>::ModelConfig as LoadableConfig>::Model<B>;

/// A trained model of a task, from the best validation epoch.
pub type FittedOf<T, B> = Fitted<ModelOf<T, B>, <T as SeedTask>::ModelConfig, <T as SeedTask>::Outcome>;

/// A task: the seeds whose targets models of this crate learn, their batches, the loss of a step, and the evaluation.
///
/// [`train_model`], [`evaluate_model`] and [`open_task_model`] are the same for all tasks. A new task is a folder with an
/// implementation of this trait, and an entry of `compiled_tasks!` in `backends.rs`.
pub trait SeedTask: Sized + 'static {
    /// The name of the task, and the items that it predicts for.
    const KIND: TaskKind;

    /// The data of this rank.
    type Data: TaskData;
    /// The settings of a model and of its training.
    type Config;
    /// The settings of a model, which its file stores.
    type ModelConfig: LoadableConfig;
    /// The scores of a model on one split.
    type Scores: Clone + Default;
    /// The result of a training or an evaluation.
    type Outcome;
    /// A model in training.
    type Model<B: AutodiffGnnBackend>: AutodiffModule<B, InnerModule = ModelOf<Self, B::InnerBackend>>;
    /// The batches and the steps of a training.
    type Training<B: AutodiffGnnBackend>: Task<B, Self::Model<B>, Evaluator = Self::Evaluator<B::InnerBackend>>;
    /// The evaluation of trained models.
    type Evaluator<B: GnnBackend>: Evaluator<B, ModelOf<Self, B>, Scores = Self::Scores, Result = Self::Outcome>;

    /// Returns the settings of the training loop.
    fn fit_config(config: &Self::Config) -> &FitConfig;

    /// Returns the settings of the model for the data.
    ///
    /// # Errors
    /// Settings that contradict the data or each other.
    fn model_config(data: &Self::Data, config: &Self::Config) -> Result<Self::ModelConfig, TrainError>;

    /// Checks the training data over all ranks, before a model is made. Every rank must call this. The default does nothing.
    ///
    /// # Errors
    /// Data that cannot be trained on, or a failure of the job.
    fn check_training_data(_data: &Self::Data, _world: &mut ProcessGroup) -> Result<(), TrainError> {
        Ok(())
    }

    /// Makes a model with the initial weights of the seed.
    ///
    /// # Errors
    /// Settings that contradict each other.
    fn init<B: AutodiffGnnBackend>(setup: &Setup<'_, Self, B>) -> Result<Self::Model<B>, ModelError>;

    /// Creates the loaders of all splits, and the embeddings of nodes without features. Every rank must call this.
    ///
    /// # Errors
    /// [`TrainError::Config`] without training data or if settings contradict the data; an error from a peer.
    fn training<B: AutodiffGnnBackend>(setup: Setup<'_, Self, B>) -> Result<Self::Training<B>, TrainError>;

    /// Checks that a trained model fits the data, and returns the settings of its evaluation. Every rank must call this.
    ///
    /// # Errors
    /// A model that does not match the data or the settings, or a failure of the job.
    fn evaluation_config<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<Self::Config, TrainError>;

    /// Creates the evaluation of a trained model. Every rank must call this.
    ///
    /// # Errors
    /// Settings that contradict the data, or a failure of the job.
    fn evaluator<B: GnnBackend>(setup: Setup<'_, Self, B>) -> Result<Self::Evaluator<B>, TrainError>;
}

/// Implements the parts of a [`SeedTask`] that follow from a configuration with a [`TrainingConfig`](crate::TrainingConfig): the
/// settings of the training loop, and the initial model. `$network` is the field of the model's settings that makes the model,
/// if they do not make it themselves.
macro_rules! of_training_config {
    ($($network:ident)?) => {
        fn fit_config(config: &Self::Config) -> &$crate::fit::FitConfig {
            &config.training.fit
        }

        fn init<B: AutodiffGnnBackend>(setup: &Setup<'_, Self, B>) -> Result<Self::Model<B>, $crate::error::ModelError> {
            let training = &setup.config.training;
            let mut model = setup.model_config$(.$network)?.init(training.fit.seed, setup.device)?;
            model.set_precision(training.step.precision);
            model.set_batch_norm_sync(training.batch_norm_sync(setup.world)?);
            Ok(model)
        }
    };
}
pub(crate) use of_training_config;

/// Implements the methods of a [`Task`] that return its fields `evaluator` and `embeddings`.
macro_rules! task_fields {
    () => {
        fn evaluator(&self) -> &Self::Evaluator {
            &self.evaluator
        }

        fn embeddings(&self) -> &$crate::embeddings::Embeddings {
            &self.embeddings
        }

        fn embeddings_mut(&mut self) -> &mut $crate::embeddings::Embeddings {
            &mut self.embeddings
        }
    };
}
pub(crate) use task_fields;

/// Implements the methods of a [`Task`] that follow from its [`TrainingLoader`](crate::training_loader::TrainingLoader), the field
/// `loader`.
macro_rules! task_loader {
    () => {
        fn continue_epoch(
            &mut self,
            epoch: u64,
            before: &[edgecut_dist_loader::EpochSegment],
            world: &mut ProcessGroup,
        ) -> Result<(), TrainError> {
            self.loader.continue_epoch(epoch, before, world)
        }

        fn sampler(&self) -> Option<&std::sync::Arc<edgecut_dist_sampler::DistNeighborSampler>> {
            Some(self.loader.whole().sampler())
        }
    };
}
pub(crate) use task_loader;

/// The data of a task.
pub trait TaskData {
    /// Returns the graph if its nodes may have embeddings. The default returns `None`.
    fn graph(&self) -> Option<&Arc<DistGraph>> {
        None
    }
}

impl TaskData for Arc<DistGraph> {
    fn graph(&self) -> Option<&Arc<DistGraph>> {
        Some(self)
    }
}

/// The data of a task, the settings, and the model, on a rank.
pub struct Setup<'a, T: SeedTask, B: GnnBackend> {
    /// The data.
    pub data: &'a T::Data,
    /// The settings of the training or the evaluation.
    pub config: &'a T::Config,
    /// The settings of the model.
    pub model_config: &'a T::ModelConfig,
    /// The device that computes.
    pub device: &'a B::Device,
    /// All ranks.
    pub world: &'a mut ProcessGroup,
}

/// A trained model, its settings, and the embeddings that it reads.
pub struct TrainedModel<'a, M, C> {
    /// The model.
    pub model: &'a M,
    /// Its settings.
    pub config: &'a C,
    /// Its embeddings; empty if all nodes have features.
    pub embeddings: EmbeddingSource<'a>,
}

impl<'a, M, C> TrainedModel<'a, M, C> {
    /// Returns a model with the embeddings of a source.
    pub fn new(model: &'a M, config: &'a C, embeddings: impl Into<EmbeddingSource<'a>>) -> Self {
        Self { model, config, embeddings: embeddings.into() }
    }
}

/// Trains a model of this crate on this rank's share of the training data, and tests the model of the best validation epoch.
/// Every rank calls this function and gets the same model and the same result.
///
/// # Errors
/// Settings that do not match the data, a failure of the job, or a loss that is not finite.
pub fn train_model<T: SeedTask, B: AutodiffGnnBackend>(
    data: &T::Data,
    config: &T::Config,
    world: &mut ProcessGroup,
    device: &B::Device,
    observer: &mut dyn Observer<T::Scores>,
) -> Result<FittedOf<T, B::InnerBackend>, TrainError> {
    let model_config = T::model_config(data, config)?;
    T::check_training_data(data, world)?;
    let embedded = match (data.graph(), model_config.network()) {
        (Some(graph), Some(network)) => {
            let FitConfig { ema, freeze, .. } = T::fit_config(config);
            let embedded = EmbeddedNodes::of(graph, network);
            Some(embedded.with_averages(|node_type| ema.is_some() && !freezes_embedding(freeze, node_type)))
        }
        _ => None,
    };
    check_model_memory::<B>(model_config.num_parameters(), embedded, world)?;
    let setup = Setup { data, config, model_config: &model_config, device, world: &mut *world };
    let model = T::init::<B>(&setup)?;
    let task = T::training::<B>(setup)?;
    fit(task, model, model_config, T::fit_config(config), world, observer)
}

/// Evaluates a trained model and its embeddings on the validation and test data. Every rank calls this function.
///
/// # Errors
/// A model that does not match the data or the settings, or a failure of the job.
pub fn evaluate_model<T: SeedTask, B: GnnBackend>(
    data: &T::Data,
    config: &T::Config,
    trained: TrainedModel<'_, ModelOf<T, B>, T::ModelConfig>,
    world: &mut ProcessGroup,
    device: &B::Device,
) -> Result<T::Outcome, TrainError> {
    let model_config = trained.config;
    let config = &T::evaluation_config::<B>(Setup { data, config, model_config, device, world: &mut *world })?;
    let mut embeddings = Embeddings::default();
    if let (Some(graph), Some(network)) = (data.graph(), model_config.network()) {
        let schema = GraphSchema::read_by(&network.graph, graph.part().meta())?;
        embeddings = Embeddings::new(graph, &schema, network.hidden_channels, T::fit_config(config).seed)?;
        embeddings.load(trained.embeddings, world)?;
    }
    let evaluator = T::evaluator::<B>(Setup { data, config, model_config, device, world: &mut *world })?;
    // No rank reads a row before its owner has loaded it.
    world.barrier()?;
    evaluator.evaluate_trained(&mut Evaluation { model: trained.model, embeddings: &embeddings, progress: &(), world })
}

/// Opens a saved model of a task as [`open_model`] does.
///
/// # Errors
/// The errors of [`open_model`], and a model of another task.
pub fn open_task_model<T: SeedTask, B: GnnBackend>(
    bytes: &[u8],
    path: &Path,
    device: &B::Device,
) -> Result<Loaded<B, T::ModelConfig, SavedEmbeddings>, ModelFileError> {
    let loaded = open_model::<B, T::ModelConfig>(bytes, path, device);
    let task = match &loaded {
        Ok((_, config, _)) => config.task().map(|kind| kind.name.to_owned()),
        // Models of other tasks have other settings.
        Err(ModelFileError::Config { .. }) => SavedTask::told_by_file(bytes, path)?,
        Err(_) => None,
    };
    match task {
        Some(name) if name != T::KIND.name => {
            let what = format!("it describes a model of the task {name}: use it with `train {name}`");
            Err(ModelFileError::Model { path: path.to_owned(), source: ModelError::Settings { what } })
        }
        _ => loaded,
    }
}

//! The commands that train: a file per task, and their list at the end of this module.

pub(crate) mod edge;
mod epoch_lines;
pub(crate) mod graph;
mod identity;
pub(crate) mod link;
mod multi;
pub(crate) mod node;
mod outcome;
mod part_flags;
mod run;

pub(crate) use outcome::{Outcome, Scores};
pub(crate) use run::TaskArgs;

use crate::args::PartArgs;
use crate::args::objective::ObjectiveArgs;
use crate::args::plan::Plan;
use crate::args::run::RunArgs;
use crate::args::start::StartArgs;
use crate::exit::UsageError;
use crate::job::command::JobCommand;
use crate::job::device::on_device;
use crate::job::process_role::Rank;
use crate::progress::reporter::{EpochText, Reporter};
use crate::saved_model::{Items, OpenModel, Predictor, SavedModel};
use crate::settings::given_flags::GivenFlags;
use clap::{Args, Subcommand};
use edgecut_cluster::{Cluster, ProcessGroup, Termination};
use edgecut_dist_sampler::{DistGraph, SamplerConfig};
use edgecut_gnn::ops::Precision;
use edgecut_gpu::Resolved;
use edgecut_settings::listed;
use edgecut_trainer::checkpoint::DataIdentity;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{NewEmbeddings, ReadData, SavedEmbeddings, SavedTask, TaskKind, TrainedOn};
use edgecut_trainer::models::ConvKind;
use edgecut_trainer::{
    Compiles, FitConfig, GradientSum, ModelOf, Observer, ScoringConfig, SeedTask, StepOptions, TrainedModel,
    TrainingBackend,
};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A task: a command that trains models, evaluates saved ones, and reads its own results.
///
/// A new task is a type with this trait, in a file of its own, and an entry of `tasks!` at the end of this module. The
/// subcommand, sweeps, the identity of checkpoints, the comparison of ranks, reports and `train predict` follow.
pub(crate) trait TaskProgram: Debug + Sized + 'static {
    /// The task of the library.
    type Task: SeedTask;

    /// The name of the command.
    const NAME: &'static str = Self::Task::KIND.name;
    /// The items that models predict for.
    const ITEMS: Items;
    /// The description of the command.
    const ABOUT: &'static str;
    /// Examples of its use.
    const EXAMPLES: &'static str;
    /// True if each target needs a neighborhood of its own, which does not contain it, and has a time of its own.
    const LEAVES_OUT_TARGETS: bool = false;

    /// The flags of the data, the model and the training.
    type Flags: TaskFlags;
    /// The result.
    type Outcome: Outcome;

    /// Checks flags that contradict each other, before the ranks of a job start.
    fn check(_args: &TaskArgs<Self>) -> Result<(), UsageError> {
        Ok(())
    }

    /// Returns the reason if a run has no score that a sweep could compare, with the remedy.
    fn why_no_score(_args: &TaskArgs<Self>) -> Option<&'static str> {
        None
    }

    /// Adds what a saved model tells of its training beyond the data and the sampler.
    ///
    /// # Errors
    /// Settings that do not fit the data.
    fn describe(
        _: &TaskArgs<Self>,
        _: &ConfigOf<Self>,
        _: &DataOf<Self>,
        trained_on: TrainedOn,
    ) -> anyhow::Result<TrainedOn>;

    /// Returns the flags of the loss and the scores, which the configuration lacks until the names of classes are known;
    /// `None` for a task with losses of its own.
    fn objective(_args: &TaskArgs<Self>) -> Option<&ObjectiveArgs> {
        None
    }

    /// Returns the configuration that the flags describe.
    ///
    /// # Errors
    /// [`UsageError`] for flags that contradict each other.
    fn config(args: &TaskArgs<Self>, num_workers: usize) -> anyhow::Result<ConfigOf<Self>>;

    /// Returns the settings of a configuration that all tasks have.
    fn common(config: &mut ConfigOf<Self>) -> CommonConfig<'_>;

    /// Returns the names of the classes to predict, if the tables of the data have them. Only rank 0 calls this.
    fn class_names(_: &TaskArgs<Self>, _: &ConfigOf<Self>, _: &DataOf<Self>) -> anyhow::Result<Option<Vec<String>>> {
        Ok(None)
    }

    /// Chooses the settings that depend on the data. Returns a line to print, if there is something to tell.
    /// Every rank must call this.
    fn choose(
        _: &TaskArgs<Self>,
        _: &mut ConfigOf<Self>,
        _: &Arc<DataOf<Self>>,
        _: &mut ProcessGroup,
    ) -> anyhow::Result<Option<String>> {
        Ok(None)
    }

    /// Returns the metric that selects the best epoch; `None` if it does not depend on the data.
    ///
    /// # Errors
    /// A loss or a metric that does not fit the data.
    fn metric(config: &ConfigOf<Self>, data: &DataOf<Self>) -> anyhow::Result<Option<Metric>>;

    /// Returns the form of the lines of epochs.
    fn epoch_text(args: &TaskArgs<Self>) -> impl EpochText<ScoresOf<Self>>;

    /// Trains a model. Every rank must call this.
    fn train<B: TrainingBackend + Compiles<Self::Task>>(run: TaskRun<'_, Self, B>) -> anyhow::Result<Self::Outcome>;

    /// Returns the meaning of a model's outputs; `None` if they are neither classes, labels nor numbers of one target.
    fn outputs(_saved: &SavedTask, _config: &ModelConfigOf<Self>) -> Option<OutputKind> {
        None
    }

    /// Opens a saved model.
    fn open<B: TrainingBackend + Compiles<Self::Task>>(
        saved: &SavedModel<'_>,
        device: &B::Device,
    ) -> anyhow::Result<Open<Self, B>> {
        let (model, config, embeddings) =
            <B as Compiles<Self::Task>>::open(&saved.bytes, saved.path, saved.precision, device)?;
        let outputs = Self::outputs(&saved.task, &config);
        Ok(Open { model, config, embeddings: saved.matched(embeddings), outputs })
    }

    /// Opens a saved model for predictions.
    fn open_for_predictions<B: TrainingBackend + Compiles<Self::Task>>(
        saved: &SavedModel<'_>,
        device: &B::Device,
    ) -> anyhow::Result<OpenModel<B>> {
        Ok(Self::open::<B>(saved, device)?.into())
    }

    /// Evaluates a saved model. Every rank must call this.
    fn evaluate<B: TrainingBackend + Compiles<Self::Task>>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<Self::Outcome>;

    /// Returns what a model with these outputs reads of the data beyond what all models read. The default is nothing.
    fn reads(_outputs: Option<OutputKind>) -> ReadData {
        ReadData::default()
    }

    /// Returns the network that makes the predictions of a model.
    fn predictor<B: TrainingBackend>(
        model: ModelOf<Self::Task, B>,
        config: ModelConfigOf<Self>,
    ) -> Box<dyn Predictor<B>>;
}

/// An open model of a task.
pub(crate) struct Open<T: TaskProgram, B: TrainingBackend> {
    pub(crate) model: ModelOf<T::Task, B>,
    pub(crate) config: ModelConfigOf<T>,
    pub(crate) embeddings: SavedEmbeddings,
    /// The meaning of the outputs; `None` if they are neither classes, labels nor numbers.
    pub(crate) outputs: Option<OutputKind>,
}

impl<T: TaskProgram, B: TrainingBackend> From<Open<T, B>> for OpenModel<B> {
    fn from(open: Open<T, B>) -> Self {
        let Open { model, config, embeddings, outputs } = open;
        let predictor = T::predictor(model, config);
        Self { predictor, embeddings, outputs, leaves_out_targets: T::LEAVES_OUT_TARGETS }
    }
}

impl<T: TaskProgram, B: TrainingBackend> Open<T, B> {
    /// Returns the model as the library evaluates it.
    pub(crate) fn trained(&self) -> TrainedModel<'_, ModelOf<T::Task, B>, ModelConfigOf<T>> {
        TrainedModel::new(&self.model, &self.config, &self.embeddings)
    }
}

/// The data of a task.
pub(crate) type DataOf<T> = <<T as TaskProgram>::Flags as TaskFlags>::Data;

/// The configuration that the library trains with.
pub(crate) type ConfigOf<T> = <<T as TaskProgram>::Task as SeedTask>::Config;

/// The settings of a model.
pub(crate) type ModelConfigOf<T> = <<T as TaskProgram>::Task as SeedTask>::ModelConfig;

/// The scores of an epoch.
pub(crate) type ScoresOf<T> = <<T as TaskProgram>::Task as SeedTask>::Scores;

/// The flags of a task that select its data, its model and its training.
pub(crate) trait TaskFlags: Args + Serialize + Debug {
    /// True if the data is a graph in parts.
    const READS_PARTS: bool;

    /// The data.
    type Data;
    /// The flags of the data in GPU memory.
    type Memory: Args + Debug + Serialize;

    /// Returns the type of features in GPU memory.
    fn feature_precision(_memory: &Self::Memory) -> Precision {
        Precision::F32
    }

    /// Returns the flags of the graph if the task reads one in parts.
    fn part(&self) -> Option<&PartArgs>;

    /// Returns the folder of the data.
    fn dataset_root_dir(&self) -> Option<&Path>;

    /// Returns the folders whose files are the data. The default is the folder of the data.
    fn data_folders(&self) -> Vec<PathBuf> {
        self.dataset_root_dir().map(Path::to_owned).into_iter().collect()
    }

    fn start(&self) -> &StartArgs;

    /// Joins the job and opens the data, runs `work`, and leaves when all ranks are done. The serialised `flags` must be
    /// equal on all ranks.
    fn with_data(
        &self,
        args: &RunArgs,
        rank: &Rank,
        flags: &impl Serialize,
        work: impl FnOnce(&mut TaskJob<'_, Self::Data>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()>;

    /// Returns the plan of a cluster if there is to be one instead of a training.
    fn cluster_plan(&self) -> Option<Plan> {
        None
    }

    /// Describes the data.
    fn describe(data: &Arc<Self::Data>) -> DataDescription;

    /// Returns the identity of the data in checkpoints. Every rank must call this.
    fn identity(data: &Self::Data, world: &mut ProcessGroup) -> anyhow::Result<DataIdentity>;

    /// Reports the traffic of the data after a run. Every rank must call this.
    fn report(&self, reporter: &mut Reporter, job: &mut TaskJob<'_, Self::Data>) -> anyhow::Result<()>;
}

/// The settings of a configuration that all tasks have.
pub(crate) struct CommonConfig<'a> {
    pub(crate) fit: &'a mut FitConfig,
    pub(crate) step: &'a mut StepOptions,
    /// True if batch normalizations cover the rows of all ranks.
    pub(crate) sync_batch_norm: bool,
    /// The settings of the scores, for a task with [`ObjectiveArgs`].
    pub(crate) scoring: Option<&'a mut ScoringConfig>,
    /// The convolution; `None` for a model without convolutions.
    pub(crate) conv: Option<ConvKind>,
    /// The sampler of the evaluation; `None` if nothing is sampled.
    pub(crate) eval_sampler: Option<SamplerConfig>,
    /// True if node types with features have embeddings.
    pub(crate) adds_embeddings: bool,
    /// The start of the embeddings of nodes that a saved model has no rows for.
    pub(crate) new_embeddings: Option<NewEmbeddings>,
}

/// A process that has joined the job and opened its data.
pub(crate) struct TaskJob<'a, D> {
    pub(crate) data: Arc<D>,
    pub(crate) cluster: &'a Cluster,
    pub(crate) world: &'a mut ProcessGroup,
    /// The sum of gradients over all ranks.
    pub(crate) gradient_sum: &'a GradientSum,
}

/// A training or an evaluation in a process that has joined the job.
pub(crate) struct TaskRun<'a, T: TaskProgram, B: TrainingBackend> {
    pub(crate) args: &'a TaskArgs<T>,
    pub(crate) config: &'a mut ConfigOf<T>,
    pub(crate) data: &'a Arc<DataOf<T>>,
    pub(crate) world: &'a mut ProcessGroup,
    pub(crate) device: &'a B::Device,
    pub(crate) observer: &'a mut dyn Observer<ScoresOf<T>>,
}

/// The description of the data, for messages and saved models.
pub(crate) struct DataDescription {
    pub(crate) trained_on: TrainedOn,
    /// True if models of the data have embeddings.
    pub(crate) has_embeddings: bool,
    pub(crate) has_edge_features: bool,
    /// The graph whose traffic is shown.
    pub(crate) traffic: Option<Arc<DistGraph>>,
    /// The name and the sizes of the data, for reports.
    pub(crate) facts: Value,
}

/// A task in the list of all tasks.
pub(crate) struct TaskEntry {
    /// The name of the command, which is the task of saved models.
    pub(crate) name: &'static str,
    pub(crate) kind: TaskKind,
    /// The items that models predict for.
    pub(crate) items: Items,
    /// True if the data is a graph in parts.
    pub(crate) reads_parts: bool,
    /// Returns what a model with these outputs reads of the data beyond what all models read.
    pub(crate) reads: fn(Option<OutputKind>) -> ReadData,
    /// Reads the scores of a result that the command has printed as JSON; `None` if the text is no result.
    pub(crate) scores_of: fn(&str) -> Option<Result<Scores, String>>,
}

impl TaskEntry {
    const fn of<T: TaskProgram>() -> Self {
        Self {
            name: T::NAME,
            kind: T::Task::KIND,
            items: T::ITEMS,
            reads_parts: T::Flags::READS_PARTS,
            reads: T::reads,
            scores_of: scores_of::<T>,
        }
    }

    /// Returns the task of a name; `None` if no command trains models for it.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        TASKS.iter().find(|task| task.name == name)
    }
}

/// A task on all devices.
pub(crate) trait OnDevices: TaskProgram {
    /// Runs a rank of the task on a device.
    fn run_on(
        device: Resolved,
        args: &TaskArgs<Self>,
        rank: &Rank,
        termination: Option<&Termination>,
    ) -> anyhow::Result<()>;
}

fn scores_of<T: TaskProgram>(text: &str) -> Option<Result<Scores, String>> {
    let outcome: T::Outcome = serde_json::from_str(text).ok()?;
    Some(outcome.scores())
}

/// The end of the help of each task.
const EXIT_STATUS: &str = "Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank or a server failed, 75 \
    ended by SIGTERM after a\ncheckpoint, 130 interrupted.";

fn help_of<T: TaskProgram>() -> String {
    format!("{}\n\n{EXIT_STATUS}", T::EXAMPLES)
}

/// Returns the names of the commands, for sentences.
pub(crate) fn names() -> String {
    let names: Vec<&str> = TASKS.iter().map(|task| task.name).collect();
    listed(&names, "or")
}

macro_rules! tasks {
    ($($variant:ident($task:path)),* $(,)?) => {
        /// The commands that train.
        #[derive(Debug, Subcommand, Serialize)]
        #[serde(untagged)]
        pub(crate) enum TaskCommand {
            $(
                #[command(name = <$task>::NAME, about = <$task>::ABOUT, after_help = help_of::<$task>())]
                $variant(Box<TaskArgs<$task>>),
            )*
        }

        /// All tasks.
        pub(crate) const TASKS: &[TaskEntry] = &[$(TaskEntry::of::<$task>()),*];

        impl TaskCommand {
            /// Returns the flags of the command.
            pub(crate) fn args(&self) -> &dyn JobCommand {
                match self {
                    $(Self::$variant(args) => &**args,)*
                }
            }

            /// Returns the flags as text.
            pub(crate) fn given(&self) -> &GivenFlags {
                match self {
                    $(Self::$variant(args) => &args.given,)*
                }
            }
        }

        #[cfg(test)]
        impl TaskCommand {
            /// Returns the settings that a run must have to continue from a checkpoint of this run.
            fn identity(&self) -> std::collections::BTreeMap<String, String> {
                match self {
                    $(Self::$variant(args) => identity::settings_of(args, &[]).expect("settings"),)*
                }
            }
        }

        $(
            impl OnDevices for $task {
                fn run_on(
                    device: Resolved,
                    args: &TaskArgs<Self>,
                    rank: &Rank,
                    termination: Option<&Termination>,
                ) -> anyhow::Result<()> {
                    on_device!(device, |B, device| run::run::<Self, B>(args, rank, termination, device))
                }
            }
        )*

        /// Opens a saved model of any task for predictions.
        pub(crate) fn open_model<B: TrainingBackend>(
            saved: &SavedModel<'_>,
            device: &B::Device,
        ) -> anyhow::Result<OpenModel<B>> {
            match saved.task.task.as_str() {
                $(<$task>::NAME => <$task>::open_for_predictions::<B>(saved, device),)*
                _ => anyhow::bail!("{}: no command trains models for this task", saved.path.display()),
            }
        }
    };
}

tasks! {
    Node(node::NodeTask),
    Multi(multi::MultiTask),
    Link(link::LinkTask),
    Edge(edge::EdgeTask),
    Graph(graph::GraphTask),
}

//! The flags of tasks on a graph in parts, and what these tasks have in common.

use crate::args::PartArgs;
use crate::args::device::DeviceMemoryArgs;
use crate::args::plan::Plan;
use crate::args::run::RunArgs;
use crate::args::sampling::SamplingArgs;
use crate::args::start::StartArgs;
use crate::args::training::TrainingArgs;
use crate::exit::UsageError;
use crate::job::labels::{GraphFlags, TaskLabels, Wanted, WantedLabels};
use crate::job::process_role::Rank;
use crate::job::{graph_session, reported_once};
use crate::progress::reporter::Reporter;
use crate::progress::traffic_table;
use crate::saved_model::SavedModel;
use crate::tasks::{CommonConfig, DataDescription, TaskArgs, TaskFlags, TaskJob, TaskProgram};
use anyhow::bail;
use clap::Args;
use edgecut_cli::message;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_gnn::ops::Precision;
use edgecut_trainer::TrainingConfig;
use edgecut_trainer::checkpoint::DataIdentity;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::model_file::TrainedOn;
use serde::Serialize;
use serde_json::json;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

/// Says that `--num-neighbors` does not set the fan-outs of the evaluation.
const READS_ALL_NEIGHBORS: &str =
    "evaluating with all neighbors, since the graph is small (--eval-num-neighbors sets fan-outs)";

/// Flags of a task on a graph in parts. `S` are the flags of the task's own settings, and `O` of its objective.
#[derive(Debug, Args, Serialize)]
pub(crate) struct PartFlags<S: Args, O: Args> {
    // The paths of nodes may differ. The data is compared by its fingerprint, or by `DatasetFlags`.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) task: S,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) training: TrainingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) objective: O,
}

impl<S: Args + Serialize + Debug + GraphFlags, O: Args + Serialize + Debug> TaskFlags for PartFlags<S, O> {
    const READS_PARTS: bool = true;

    type Data = DistGraph;
    type Memory = DeviceMemoryArgs;

    fn feature_precision(memory: &DeviceMemoryArgs) -> Precision {
        memory.feature_precision
    }

    fn part(&self) -> Option<&PartArgs> {
        Some(&self.part)
    }

    fn dataset_root_dir(&self) -> Option<&Path> {
        self.part.dataset_root_dir.as_deref()
    }

    fn start(&self) -> &StartArgs {
        &self.training.start
    }

    fn cluster_plan(&self) -> Option<Plan> {
        self.training.cluster_plan()
    }

    fn with_data(
        &self,
        args: &RunArgs,
        rank: &Rank,
        flags: &impl Serialize,
        work: impl FnOnce(&mut TaskJob<'_, DistGraph>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let labels = match self.task.labels() {
            Some(given) => {
                let model = args.output.load_model.as_deref();
                WantedLabels::OfTask(TaskLabels { given, model, together: S::TOGETHER })
            }
            None => WantedLabels::First,
        };
        let wanted = Wanted { labels, reverse_types: self.task.reverse_types() };
        graph_session::run(&args.job, &self.part, rank, wanted, flags, |job| {
            if self.training.isolated {
                reported_once(check_isolated(&job.graph), job.graph.cluster(), job.world)?;
            }
            if self.training.plan.plan_cluster {
                reported_once(check_plan(&job.graph, rank), job.graph.cluster(), job.world)?;
            }
            let data = job.graph.clone();
            let cluster = job.graph.cluster();
            work(&mut TaskJob { data, cluster, world: job.world, gradient_sum: job.gradient_sum })
        })
    }

    fn describe(graph: &Arc<DistGraph>) -> DataDescription {
        let meta = graph.part().meta();
        let num_nodes: usize = meta.node_types.iter().map(|nodes| nodes.book.num_nodes()).sum();
        let num_edges: u64 = meta.edge_types.iter().map(|edges| edges.num_edges).sum();
        DataDescription {
            trained_on: TrainedOn::new(meta),
            has_embeddings: meta.node_types.iter().any(|nodes| nodes.feature_dim == 0),
            has_edge_features: meta.edge_types.iter().any(|edges| edges.feature_dim > 0),
            traffic: Some(graph.clone()),
            facts: json!({
                "dataset": meta.dataset,
                "nodes": num_nodes,
                "edges": num_edges,
                "node_types": meta.node_types.len(),
                "edge_types": meta.edge_types.len(),
                "parts": meta.num_parts,
            }),
        }
    }

    fn identity(graph: &DistGraph, world: &mut ProcessGroup) -> anyhow::Result<DataIdentity> {
        Ok(DataIdentity::of_graph(graph, world)?)
    }

    fn report(&self, reporter: &mut Reporter, job: &mut TaskJob<'_, DistGraph>) -> anyhow::Result<()> {
        if self.training.stats {
            traffic_table::report(reporter, &job.data, job.world)?;
        }
        Ok(())
    }
}

/// Rejects `--isolated` if servers sample, if no edge connects the parts of two processes, or if processes have seeds of parts
/// that they do not hold.
fn check_isolated(graph: &DistGraph) -> anyhow::Result<()> {
    let why = if graph.is_client() {
        "does not support --servers, from which trainers receive all nodes and features: give each process its part by \
         --dataset-root-dir, or leave --isolated out"
    } else if graph.cluster().world_size() == 1 {
        "has no effect on a single process, which reads all parts: start a process per part (--nproc-per-node, --num-nodes), \
         or leave it out"
    } else if graph.part().meta().num_parts == 1 {
        "has no effect on a graph in one part: partition the graph into a part per process, or leave it out"
    } else if !graph.is_even() {
        "needs the same number of processes for each part, since otherwise processes share the seeds of all parts and fetch \
         their neighborhoods: start as many processes as there are parts, fewer, or a multiple, or leave it out"
    } else {
        return Ok(());
    };
    bail!(UsageError(format!("--isolated {why}")))
}

/// Rejects `--plan-cluster` if the job does not show the cost of rows of other parts.
fn check_plan(graph: &DistGraph, rank: &Rank) -> anyhow::Result<()> {
    let why = if graph.is_client() {
        "does not support --servers: give each process its part by --dataset-root-dir"
    } else if rank.gpu.is_some() {
        "measures CPU time: add --device cpu"
    } else if graph.cluster().world_size() == 1 {
        "needs the cost of rows of other parts: start a process per part, which may all run on this machine \
         (--nproc-per-node)"
    } else if graph.part().meta().num_parts as usize != graph.cluster().world_size() {
        "needs a part for each process: start as many processes as there are parts, or partition the graph again"
    } else {
        return Ok(());
    };
    bail!(UsageError(format!("--plan-cluster {why}")))
}

impl<T, S, O> TaskArgs<T>
where
    T: TaskProgram<Flags = PartFlags<S, O>>,
    S: Args + Serialize + Debug + GraphFlags,
    O: Args + Serialize + Debug,
{
    /// Returns the configuration of the model and its training.
    ///
    /// # Errors
    /// [`UsageError`] for flags that contradict each other.
    pub(super) fn training_config(&self, num_workers: usize) -> anyhow::Result<TrainingConfig> {
        let memory = self.memory.on(&self.run.device)?;
        let only_evaluates = self.run.output.load_model.is_some() && !self.given.is_given("num_neighbors");
        self.own.training.config(&self.own.sampling, num_workers, memory, only_evaluates)
    }

    /// Lets a training evaluate with all neighbors if the graph is small. Returns a line to print if it does.
    pub(super) fn choose_neighbors(&self, training: &mut TrainingConfig, graph: &DistGraph) -> Option<String> {
        if self.run.output.load_model.is_some() {
            return None;
        }
        training.eval_num_neighbors = self.own.training.all_neighbors(&self.own.sampling, graph.part().meta())?;
        Some(READS_ALL_NEIGHBORS.to_owned())
    }

    /// Gives an evaluation the neighborhoods of its flags if these decide: if they give fan-outs, or if the file of the model is
    /// of an earlier version. They decide as in a training, so that the command of a training evaluates its model alike.
    pub(super) fn choose_neighbors_of(
        &self,
        saved: &SavedModel<'_>,
        training: &mut TrainingConfig,
        graph: &DistGraph,
        world: &ProcessGroup,
    ) {
        let is_old = saved.trained_on.as_ref().is_none_or(|trained_on| trained_on.sampler.is_none());
        let decides = is_old || self.given.is_given("num_neighbors");
        if decides && let Some(all) = self.own.training.all_neighbors(&self.own.sampling, graph.part().meta()) {
            training.eval_num_neighbors = all;
            if world.rank() == 0 && !self.run.job.quiet {
                message!("{READS_ALL_NEIGHBORS}");
            }
        }
    }

    /// Gives an evaluation the sampler of a saved model, and checks that the graph is like the one that the model was
    /// trained on. `outputs` are the outputs of the model that mean something. Every rank must call this.
    pub(super) fn adopt_sampler(
        &self,
        saved: &SavedModel<'_>,
        outputs: Option<OutputKind>,
        training: &mut TrainingConfig,
        graph: &DistGraph,
        world: &ProcessGroup,
    ) -> anyhow::Result<()> {
        let sampler = saved.sampler(&self.given, training.eval_sampler());
        saved.check_graph(graph.part().meta(), T::reads(outputs), Some(&sampler), world)?;
        training.eval_num_neighbors = sampler.num_neighbors.clone();
        training.sampler = sampler;
        Ok(())
    }
}

impl<'a> From<&'a mut TrainingConfig> for CommonConfig<'a> {
    fn from(training: &'a mut TrainingConfig) -> Self {
        let eval_sampler = Some(training.eval_sampler());
        Self {
            adds_embeddings: !training.node_embeddings.is_empty(),
            new_embeddings: training.new_embeddings,
            fit: &mut training.fit,
            step: &mut training.step,
            sync_batch_norm: training.sync_batch_norm,
            scoring: None,
            conv: Some(training.kind).filter(|_| training.sampler.num_neighbors.num_hops() > 0),
            eval_sampler,
        }
    }
}

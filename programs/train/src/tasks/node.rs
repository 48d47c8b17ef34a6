//! The command `train node`.

use crate::args::objective::ObjectiveArgs;
use crate::class_names;
use crate::job::labels::TargetArgs;
use crate::progress::reporter::EpochText;
use crate::saved_model::{Items, Predictor, SavedModel};
use crate::settings::model_settings::check_flags;
use crate::tasks::epoch_lines::SeedText;
use crate::tasks::part_flags::PartFlags;
use crate::tasks::{CommonConfig, Open, TaskArgs, TaskFlags, TaskProgram, TaskRun};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::LabelId;
use edgecut_trainer::loss::OutputKind;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{ReadData, SavedTask, TrainedOn};
use edgecut_trainer::models::{Network, NetworkConfig};
use edgecut_trainer::multi::SavedTarget;
use edgecut_trainer::{
    Compiles, NodePrediction, NodeTrainingConfig, SeedResult, SeedScores, TrainingBackend, seed_type,
};
use std::ops::Range;
use std::sync::Arc;

/// Nodes of a graph.
pub(crate) const NODES: Items = Items { remedy: "leave out --edges, --graphs, and --output score, top-k or relation" };

/// A network for nodes, and its settings.
pub(crate) struct ForNodes<B: TrainingBackend> {
    pub(crate) network: Network<B>,
    pub(crate) config: NetworkConfig,
    /// The outputs of several targets; empty for a network of one.
    pub(crate) targets: Vec<TargetOutputs>,
}

/// The outputs of a model for one of several targets.
pub(crate) struct TargetOutputs {
    pub(crate) saved: SavedTarget,
    /// The columns among the outputs for the nodes of its type.
    pub(crate) columns: Range<usize>,
}

impl<B: TrainingBackend> Predictor<B> for ForNodes<B> {
    fn encoder(&self) -> Option<(&Network<B>, &NetworkConfig)> {
        Some((&self.network, &self.config))
    }
}

/// The task of predicting classes, labels or numbers of nodes.
#[derive(Debug)]
pub(crate) struct NodeTask;

impl TaskProgram for NodeTask {
    type Task = NodePrediction;

    const ITEMS: Items = NODES;
    const ABOUT: &'static str = "Trains or evaluates a node classifier";
    const EXAMPLES: &'static str = "Example with two processes on this machine:\n  \
        train node --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\
        The same on a dataset that is not partitioned:\n  \
        train node --dataset-root-dir data/mygraph --nproc-per-node 2 --model sage --num-neighbors 15,10,5\n\n\
        A process that torchrun, Slurm's srun, mpirun or an indexed Kubernetes Job started takes its rank from their\n\
        environment variables. In this case leave out --num-nodes, --node-rank, --ip-config and --nproc-per-node.";

    type Flags = PartFlags<TargetArgs, ObjectiveArgs>;
    type Outcome = SeedResult;

    fn objective(args: &TaskArgs<Self>) -> Option<&ObjectiveArgs> {
        Some(&args.own.objective)
    }

    fn config(args: &TaskArgs<Self>, num_workers: usize) -> anyhow::Result<NodeTrainingConfig> {
        let training = args.training_config(num_workers)?;
        Ok(NodeTrainingConfig { training, scoring: args.own.objective.scoring() })
    }

    fn common(config: &mut NodeTrainingConfig) -> CommonConfig<'_> {
        CommonConfig { scoring: Some(&mut config.scoring), ..(&mut config.training).into() }
    }

    fn describe(
        _: &TaskArgs<Self>,
        _: &NodeTrainingConfig,
        graph: &DistGraph,
        mut trained_on: TrainedOn,
    ) -> anyhow::Result<TrainedOn> {
        let meta = graph.part().meta();
        // A graph without a type to train is an error of the training.
        let Ok(node_type) = seed_type(meta) else { return Ok(trained_on) };
        // The only label of a graph of one node type needs no name.
        if meta.node_types.len() > 1 {
            trained_on.labels = vec![meta.label_name(LabelId { node_type, label: 0 })];
        }
        Ok(trained_on.with_scored_nodes(meta, node_type))
    }

    fn class_names(
        args: &TaskArgs<Self>,
        _config: &NodeTrainingConfig,
        graph: &DistGraph,
    ) -> anyhow::Result<Option<Vec<String>>> {
        let meta = graph.part().meta();
        // A graph without a type to train is an error of the training.
        let Ok(seed_type) = seed_type(meta) else { return Ok(None) };
        class_names::of_nodes(args.own.dataset_root_dir(), meta, seed_type)
    }

    fn choose(
        args: &TaskArgs<Self>,
        config: &mut NodeTrainingConfig,
        graph: &Arc<DistGraph>,
        _world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<String>> {
        Ok(args.choose_neighbors(&mut config.training, graph))
    }

    fn metric(config: &NodeTrainingConfig, graph: &DistGraph) -> anyhow::Result<Option<Metric>> {
        Ok(Some(config.chosen_metric(graph.part().meta())?))
    }

    fn epoch_text(_args: &TaskArgs<Self>) -> impl EpochText<SeedScores> {
        SeedText::default()
    }

    fn train<B: TrainingBackend>(run: TaskRun<'_, Self, B>) -> anyhow::Result<SeedResult> {
        Ok(<B as Compiles<NodePrediction>>::train(run.data, run.config, run.world, run.device, run.observer)?.result)
    }

    fn outputs(saved: &SavedTask, config: &NetworkConfig) -> Option<OutputKind> {
        Some(saved.outputs_or_classes(config.num_outputs()))
    }

    fn reads(outputs: Option<OutputKind>) -> ReadData {
        ReadData { classes: matches!(outputs, Some(OutputKind::Classes(_))), ..ReadData::default() }
    }

    fn evaluate<B: TrainingBackend>(
        run: TaskRun<'_, Self, B>,
        saved: &SavedModel<'_>,
        open: &Open<Self, B>,
    ) -> anyhow::Result<SeedResult> {
        let TaskRun { args, config, data, world, device, .. } = run;
        let model_config = &open.config;
        config.training.step.loss = saved.loss(config.training.step.loss.take())?;
        config.scoring.decision = saved.decision();
        check_flags(
            &args.given,
            saved.path,
            &args.own.training.settings_of(model_config, model_config.graph.has_edge_features()),
        )?;
        args.choose_neighbors_of(saved, &mut config.training, data, world);
        args.adopt_sampler(saved, open.outputs, &mut config.training, data, world)?;
        Ok(<B as Compiles<NodePrediction>>::evaluate(data, config, open.trained(), world, device)?)
    }

    fn predictor<B: TrainingBackend>(network: Network<B>, config: NetworkConfig) -> Box<dyn Predictor<B>> {
        Box::new(ForNodes { network, config, targets: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::tasks::TaskCommand;
    use clap::Parser;
    use edgecut_dist_sampler::{Fanout, SamplerConfig};
    use edgecut_trainer::TrainingConfig;
    use edgecut_trainer::models::{ConvKind, SageSettings};

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let cli = Cli::try_parse_from(["train", "node", "--dataset-root-dir", "a"]).expect("a command line");
        let Command::Task(TaskCommand::Node(args)) = cli.command else { panic!("another command") };
        let config = NodeTask::config(&args, 8).expect("a configuration");
        let sampler = SamplerConfig::new([15, 10, 5].map(Fanout::Count).to_vec());
        let kind = ConvKind::Sage(SageSettings::default());
        let mut expected = TrainingConfig { dropout: 0.5, ..TrainingConfig::new(kind, sampler) };
        expected.fit.num_epochs = 100;
        expected.fit.patience = Some(20);
        assert_eq!(format!("{:?}", config.training), format!("{expected:?}"));
    }
}

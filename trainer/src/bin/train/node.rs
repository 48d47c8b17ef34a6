//! The command `train node`.

use crate::args::NodeArgs;
use crate::job::num_workers;
use crate::model_bytes::read_on_rank_0;
use crate::place::Rank;
use crate::reporter::{Reporter, cost, percent};
use crate::serving::{self, Serving};
use crate::training_args::merged;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_trainer::models::{ModelConfig, NodeModel};
use edgecut_trainer::{
    ClassificationResult, EpochReport, Improved, NodeTrainingConfig, Observer, ParameterCount, TrainingBackend,
};
use serde_json::json;
use std::path::Path;

pub(crate) fn run<B: TrainingBackend>(args: &NodeArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    args.device.check_types::<B>(args.memory.feature_precision, device)?;
    let training = args.training.config(&args.sampling, num_workers(&args.job, rank), args.memory.on(&args.device)?)?;
    let config = NodeTrainingConfig { training, metric: args.metric };
    let own = json!({
        "load_model": args.output.load_model.is_some(),
        "save_model": args.output.save_model.is_some(),
        "metric": args.metric,
    });
    let parameters = merged([own, args.training.parameters(), args.sampling.parameters()]);
    serving::run(&args.job, &args.part, rank, &parameters, |job| {
        let mut reporter =
            NodeReporter(Reporter::new(&args.output, args.training.num_epochs, rank, job.has_embeddings(), job.world)?);
        let result = match &args.output.load_model {
            Some(path) => evaluate::<B>(path, job, &config, device)?,
            None => B::train_node(&job.node, &config, job.world, device, &mut reporter)?.result,
        };
        reporter.0.classification(&result)
    })
}

fn evaluate<B: TrainingBackend>(
    path: &Path,
    job: &mut Serving<'_>,
    config: &NodeTrainingConfig,
    device: &B::Device,
) -> anyhow::Result<ClassificationResult> {
    let bytes = read_on_rank_0(path, job.world)?;
    let (model, model_config, embeddings) = B::open_model(&bytes, path, device)?;
    Ok(B::evaluate_node(&job.node, config, &model, &model_config, (&embeddings).into(), job.world, device)?)
}

/// The reporter of node classification.
struct NodeReporter(Reporter);

impl<B: Backend> Observer<B> for NodeReporter {
    fn started(&mut self, parameters: ParameterCount) {
        self.0.started(parameters);
    }

    fn step(&mut self, epoch: u64, done: usize, total: usize) {
        self.0.step(epoch, done, total);
    }

    fn epoch(&mut self, report: &EpochReport) -> Result<(), std::io::Error> {
        self.0.line("epoch", report).map_err(std::io::Error::other)?;
        self.0.say(&format!(
            "epoch {}/{}: loss {}, train {}, valid {}, {}",
            report.epoch,
            self.0.num_epochs,
            report.loss.map_or_else(|| "-".into(), |loss| format!("{loss:.4}")),
            percent(report.train_acc),
            percent(report.valid_acc),
            cost(&report.cost),
        ));
        Ok(())
    }

    fn improved(
        &mut self,
        best: &Improved<'_, NodeModel<B>, ModelConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()> {
        self.0.save(best, world)
    }
}

//! The command `train link`.

use crate::job::num_workers;
use crate::link_args::LinkArgs;
use crate::model_bytes::read_on_rank_0;
use crate::place::Rank;
use crate::reporter::{Reporter, cost, percent};
use crate::serving::{self, Serving};
use crate::training_args::merged;
use burn::tensor::backend::Backend;
use edgecut_cluster::ProcessGroup;
use edgecut_trainer::link::{LinkEpochReport, LinkObserver, LinkResult, LinkScores, LinkTrainingConfig};
use edgecut_trainer::models::{LinkModel, LinkModelConfig};
use edgecut_trainer::{Improved, ParameterCount, TrainingBackend};
use std::path::Path;

pub(crate) fn run<B: TrainingBackend>(args: &LinkArgs, rank: &Rank, device: &B::Device) -> anyhow::Result<()> {
    args.device.check_types::<B>(args.memory.feature_precision, device)?;
    let config = args.config(num_workers(&args.job, rank), args.memory.on(&args.device)?)?;
    let parameters = merged([args.parameters(), args.training.parameters(), args.sampling.parameters()]);
    serving::run(&args.job, &args.part, rank, &parameters, |job| {
        let mut reporter =
            LinkReporter(Reporter::new(&args.output, args.training.num_epochs, rank, job.has_embeddings(), job.world)?);
        let result = match &args.output.load_model {
            Some(path) => evaluate::<B>(path, job, &config, device)?,
            None => B::train_link(&job.node, &config, job.world, device, &mut reporter)?.result,
        };
        reporter.result(&result)
    })
}

fn evaluate<B: TrainingBackend>(
    path: &Path,
    job: &mut Serving<'_>,
    config: &LinkTrainingConfig,
    device: &B::Device,
) -> anyhow::Result<LinkResult> {
    let bytes = read_on_rank_0(path, job.world)?;
    let (model, model_config, embeddings) = B::open_link_model(&bytes, path, device)?;
    Ok(B::evaluate_link(&job.node, config, &model, &model_config, (&embeddings).into(), job.world, device)?)
}

/// The reporter of link prediction.
struct LinkReporter(Reporter);

impl LinkReporter {
    fn result(&mut self, result: &LinkResult) -> anyhow::Result<()> {
        if !self.0.finish(result)? {
            return Ok(());
        }
        let best = if result.best_epoch > 0 { format!(" (epoch {})", result.best_epoch) } else { String::new() };
        println!("validation: {}{best}", words(&result.valid));
        println!("test: {}", words(&result.test));
        Ok(())
    }
}

/// Formats ranking metrics as text.
fn words(scores: &LinkScores) -> String {
    let number = |share: Option<f64>| share.map_or_else(|| "-".into(), |share| format!("{share:.4}"));
    let auc = scores.roc_auc.map(|auc| format!(", ROC AUC {auc:.4}")).unwrap_or_default();
    format!(
        "MRR {}, hits@1 {}, @3 {}, @10 {}{auc} over {} edges",
        number(scores.mrr),
        number(scores.hits_at_1),
        number(scores.hits_at_3),
        number(scores.hits_at_10),
        scores.edges
    )
}

impl<B: Backend> LinkObserver<B> for LinkReporter {
    fn started(&mut self, parameters: ParameterCount) {
        self.0.started(parameters);
    }

    fn step(&mut self, epoch: u64, done: usize, total: usize) {
        self.0.step(epoch, done, total);
    }

    fn epoch(&mut self, report: &LinkEpochReport) -> std::io::Result<()> {
        self.0.line("epoch", report).map_err(std::io::Error::other)?;
        self.0.say(&format!(
            "epoch {}/{}: loss {}, train {}, valid {}, {}",
            report.epoch,
            self.0.num_epochs,
            report.loss.map_or_else(|| "-".into(), |loss| format!("{loss:.4}")),
            percent(report.train_acc),
            report.valid.as_ref().map_or_else(|| "-".into(), words),
            cost(&report.cost),
        ));
        Ok(())
    }

    fn improved(
        &mut self,
        best: &Improved<'_, LinkModel<B>, LinkModelConfig>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()> {
        self.0.save(best, world)
    }
}

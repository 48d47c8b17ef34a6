//! `train node`.

use crate::args::NodeArgs;
use crate::exit::UsageError;
use crate::job::{self, Job, num_workers};
use crate::place::Rank;
use crate::reporter::{Reporter, cost, percent};
use anyhow::{Context, bail};
use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{parse_model, save_model};
use edgecut_trainer::models::{ModelConfig, NodeModel};
use edgecut_trainer::{Embeddings, EpochReport, NodeResult, NodeTrainingConfig, Observer, evaluate_node, train_node};
use serde_json::{Value, json};
use std::path::Path;

type Cpu = NdArray<f32>;

pub(crate) fn run(args: &NodeArgs, rank: &Rank) -> anyhow::Result<()> {
    let config = config(args, num_workers(&args.job, rank))?;
    let parameters = parameters(args);
    job::run(&args.job, rank, &parameters, |job| {
        let mut reporter = NodeReporter(Reporter::new(&args.output, args.training.num_epochs, rank)?);
        let device = Default::default();
        let result = match &args.output.load_model {
            Some(path) => evaluate(path, job, &config)?,
            None => train_node::<Autodiff<Cpu>>(&job.node, &config, job.world, &device, &mut reporter)?.result,
        };
        reporter.result(&result)
    })
}

/// Evaluates a saved model. Rank 0 reads the file for all, so that all have the same one.
fn evaluate(path: &Path, job: &mut Job<'_>, config: &NodeTrainingConfig) -> anyhow::Result<NodeResult> {
    let device = Default::default();
    let mut bytes = match job.world.rank() {
        0 => std::fs::read(path).with_context(|| format!("read model {}", path.display()))?,
        _ => Vec::new(),
    };
    job.world.broadcast_bytes(&mut bytes, 0)?;
    let (model, model_config, embeddings) = parse_model::<Cpu>(&bytes, path, &device)?;
    Ok(evaluate_node(&job.node, config, &model, &model_config, &embeddings, job.world, &device)?)
}

fn config(args: &NodeArgs, num_workers: usize) -> anyhow::Result<NodeTrainingConfig> {
    let (args, sampling) = (&args.training, &args.sampling);
    let num_neighbors = args.num_neighbors.value.clone();
    let layers = args.num_layers.unwrap_or(num_neighbors.num_hops());
    if num_neighbors.num_hops() != layers {
        let given = num_neighbors.num_hops();
        bail!(UsageError(format!(
            "--num-neighbors has {given} fan-outs, but --num-layers is {layers}: give one per layer"
        )));
    }
    let eval_num_neighbors = args.eval_num_neighbors.as_ref().unwrap_or(&args.num_neighbors).value.clone();
    if eval_num_neighbors.num_hops() != layers {
        let given = eval_num_neighbors.num_hops();
        let text =
            format!("--eval-num-neighbors has {given} fan-outs, but there are {layers} layers: give one per layer");
        bail!(UsageError(text));
    }
    Ok(NodeTrainingConfig {
        kind: args.kind(),
        hidden_channels: args.hidden_channels as usize,
        dropout: args.dropout,
        input_dropout: args.input_dropout,
        residual: args.residual,
        layer_norm: args.layer_norm,
        relation_aggregation: args.relation_aggregation,
        sampler: sampling.config(num_neighbors),
        eval_num_neighbors,
        batch_size: args.batch_size as usize,
        num_epochs: args.num_epochs,
        lr: args.lr,
        embedding_lr: args.embedding_lr.unwrap_or(args.lr),
        weight_decay: args.weight_decay,
        seed: args.seed,
        concurrency: args.concurrency.map_or((num_workers / 2).clamp(2, 8), |n| n as usize),
        eval_every: args.eval_every,
        metric: args.metric,
        normalize_features: args.normalize_features,
    })
}

/// What has to be equal on all ranks, by flag.
fn parameters(args: &NodeArgs) -> Value {
    let (evaluate, sampling, args) = (args.output.load_model.is_some(), &args.sampling, &args.training);
    json!({
        "load_model": evaluate,
        "model": args.model,
        "aggregation": args.aggregation,
        "heads": args.heads,
        "attention_dropout": args.attention_dropout,
        "num_bases": args.num_bases,
        "num_blocks": args.num_blocks,
        "residual": args.residual,
        "layer_norm": args.layer_norm,
        "relation_aggregation": args.relation_aggregation,
        "hidden_channels": args.hidden_channels,
        "num_neighbors": args.num_neighbors.text,
        "eval_num_neighbors": args.eval_num_neighbors.as_ref().map(|fanouts| &fanouts.text),
        "sampling": sampling.parameters(),
        "batch_size": args.batch_size,
        "num_epochs": args.num_epochs,
        "lr": args.lr,
        "embedding_lr": args.embedding_lr,
        "weight_decay": args.weight_decay,
        "dropout": args.dropout,
        "input_dropout": args.input_dropout,
        "normalize_features": args.normalize_features,
        "seed": args.seed,
        "eval_every": args.eval_every,
        "metric": args.metric,
    })
}

/// Reports node classification.
struct NodeReporter(Reporter);

impl NodeReporter {
    fn result(&mut self, result: &NodeResult) -> anyhow::Result<()> {
        if !self.0.finish(result)? {
            return Ok(());
        }
        let best = if result.best_epoch > 0 { format!(" (epoch {})", result.best_epoch) } else { String::new() };
        println!("validation accuracy {}, test accuracy {}{best}", percent(result.valid_acc), percent(result.test_acc));
        if result.metric != Metric::Accuracy {
            let (valid, test) = (percent(result.valid_metric), percent(result.test_metric));
            println!("validation {metric} {valid}, test {metric} {test}", metric = result.metric);
        }
        Ok(())
    }
}

impl Observer<Cpu> for NodeReporter {
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
        model: &NodeModel<Cpu>,
        config: &ModelConfig,
        embeddings: &Embeddings,
    ) -> std::io::Result<()> {
        let Some(path) = &self.0.save_model else { return Ok(()) };
        let tables = embeddings.tables().map_err(std::io::Error::other)?;
        save_model(path, model, config, &tables).map_err(std::io::Error::other)
    }
}

//! `train node`.

use crate::args::{NodeArgs, TrainingArgs};
use crate::exit::UsageError;
use crate::job::{self, Job, num_workers};
use crate::place::Rank;
use anyhow::{Context, bail};
use burn::backend::Autodiff;
use burn_ndarray::NdArray;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{parse_model, save_model};
use edgecut_trainer::models::{ModelConfig, NodeModel};
use edgecut_trainer::{EpochReport, NodeResult, NodeTrainingConfig, Observer, evaluate_node, train_node};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

type Cpu = NdArray<f32>;

pub(crate) fn run(args: &NodeArgs, rank: &Rank) -> anyhow::Result<()> {
    let config = config(&args.training, num_workers(&args.job, rank))?;
    let parameters = parameters(&args.training, args.load_model.is_some());
    job::run(&args.job, rank, &parameters, |job| {
        let mut reporter = Reporter::new(args, rank)?;
        let device = Default::default();
        let result = match &args.load_model {
            Some(path) => evaluate(path, job, &config)?,
            None => train_node::<Autodiff<Cpu>>(&job.node, &config, job.world, &device, &mut reporter)?.2,
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
    let (model, model_config) = parse_model::<Cpu>(&bytes, path, &device)?;
    Ok(evaluate_node(&job.node, config, &model, &model_config, job.world, &device)?)
}

fn config(args: &TrainingArgs, num_workers: usize) -> anyhow::Result<NodeTrainingConfig> {
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
        num_neighbors,
        eval_num_neighbors,
        replace: args.replace,
        batch_size: args.batch_size as usize,
        num_epochs: args.num_epochs,
        lr: args.lr,
        weight_decay: args.weight_decay,
        seed: args.seed,
        concurrency: args.concurrency.map_or((num_workers / 2).clamp(2, 8), |n| n as usize),
        eval_every: args.eval_every,
        metric: args.metric,
        normalize_features: args.normalize_features,
    })
}

/// What has to be equal on all ranks, by flag.
fn parameters(args: &TrainingArgs, evaluate: bool) -> Value {
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
        "replace": args.replace,
        "batch_size": args.batch_size,
        "num_epochs": args.num_epochs,
        "lr": args.lr,
        "weight_decay": args.weight_decay,
        "dropout": args.dropout,
        "input_dropout": args.input_dropout,
        "normalize_features": args.normalize_features,
        "seed": args.seed,
        "eval_every": args.eval_every,
        "metric": args.metric,
    })
}

/// What rank 0 says; the other ranks are silent.
struct Reporter {
    speaks: bool,
    json: bool,
    metrics: Option<(File, String)>,
    save_model: Option<PathBuf>,
    bar: ProgressBar,
    num_epochs: u64,
}

impl Reporter {
    fn new(args: &NodeArgs, rank: &Rank) -> anyhow::Result<Self> {
        let speaks = rank.rank == 0;
        let open = |path: &PathBuf| {
            let name = path.display().to_string();
            File::create(path).with_context(|| format!("create {name}")).map(|file| (file, name))
        };
        let metrics = args.metrics.as_ref().filter(|_| speaks).map(open).transpose()?;
        let save_model = args.save_model.clone().filter(|_| speaks);
        if let Some(folder) =
            save_model.as_deref().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty())
        {
            // Better now than after the training.
            anyhow::ensure!(folder.is_dir(), "--save-model: {} is not a folder", folder.display());
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if speaks && std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} steps, {eta} left") {
            bar.set_style(style);
        }
        Ok(Self { speaks, json: args.json, metrics, save_model, bar, num_epochs: args.training.num_epochs })
    }

    fn line(&mut self, event: &str, fields: impl serde::Serialize) -> anyhow::Result<()> {
        let Some((file, name)) = &mut self.metrics else { return Ok(()) };
        let mut value = json!({ "event": event });
        let fields = serde_json::to_value(fields).context("write metrics as JSON")?;
        if let (Some(all), Value::Object(fields)) = (value.as_object_mut(), fields) {
            all.extend(fields);
        }
        writeln!(file, "{value}").with_context(|| format!("write {name}"))
    }

    fn result(&mut self, result: &NodeResult) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        self.line("result", result)?;
        if !self.speaks {
            return Ok(());
        }
        if self.json {
            println!("{}", serde_json::to_string(result).context("write the result as JSON")?);
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

impl Observer<Cpu> for Reporter {
    fn step(&mut self, epoch: u64, done: usize, total: usize) {
        if done == 1 {
            self.bar.set_message(format!("epoch {epoch}/{}", self.num_epochs));
            self.bar.set_length(total as u64);
        }
        self.bar.set_position(done as u64);
    }

    fn epoch(&mut self, report: &EpochReport) -> Result<(), std::io::Error> {
        self.line("epoch", report).map_err(std::io::Error::other)?;
        if !self.speaks {
            return Ok(());
        }
        let text = format!(
            "epoch {}/{}: loss {}, train {}, valid {}, {:.2} s (wait {:.2}, compute {:.2}, all-reduce {:.2}), {} remote nodes, {:.1} MB received",
            report.epoch,
            self.num_epochs,
            report.loss.map_or_else(|| "-".into(), |loss| format!("{loss:.4}")),
            percent(report.train_acc),
            percent(report.valid_acc),
            report.seconds,
            report.sample_wait_seconds,
            report.compute_seconds,
            report.allreduce_seconds,
            report.remote_nodes,
            report.remote_bytes as f64 / 1e6,
        );
        match self.bar.is_hidden() {
            true => eprintln!("{text}"),
            false => self.bar.println(text),
        }
        Ok(())
    }

    fn improved(&mut self, model: &NodeModel<Cpu>, config: &ModelConfig) -> std::io::Result<()> {
        match &self.save_model {
            Some(path) => save_model(path, model, config).map_err(std::io::Error::other),
            None => Ok(()),
        }
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.2} %", share * 100.0))
}

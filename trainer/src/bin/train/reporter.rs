//! What rank 0 says; the other ranks are silent.

use crate::args::OutputArgs;
use crate::metrics_file::MetricsFile;
use crate::place::Rank;
use anyhow::Context;
use burn::module::Module;
use burn::tensor::backend::Backend;
use edgecut_cluster::{Attempt, ProcessGroup};
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::model_file::{ModelSaver, ModelSettings};
use edgecut_trainer::{ClassificationResult, EpochCost, Improved, ParameterCount};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::IsTerminal;

/// Says how a run goes, on a terminal and in files.
pub(crate) struct Reporter {
    pub(crate) speaks: bool,
    pub(crate) json: bool,
    metrics: Option<MetricsFile>,
    saver: Option<ModelSaver>,
    /// The model of an earlier attempt stays and was named.
    said_kept: bool,
    bar: ProgressBar,
    pub(crate) num_epochs: u64,
}

impl Reporter {
    /// Opens and checks the files that the run writes to. Every rank calls it; `has_embeddings` says that a saved model has
    /// some.
    pub(crate) fn new(
        args: &OutputArgs,
        num_epochs: u64,
        rank: &Rank,
        has_embeddings: bool,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Self> {
        let speaks = rank.rank == 0;
        let attempt = Attempt::read()?;
        let saver = match &args.save_model {
            // An error now is better than one after the training.
            Some(path) => {
                let saver = ModelSaver::new(path, attempt.clone(), has_embeddings, world);
                Some(saver.context("--save-model")?)
            }
            None => None,
        };
        // Opened last: a model that cannot be saved leaves the old metrics alone.
        let open = |path| MetricsFile::open(path, &attempt);
        let metrics = args.metrics.as_deref().filter(|_| speaks).map(open).transpose()?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if speaks && std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} steps, {eta} left") {
            bar.set_style(style);
        }
        Ok(Self { speaks, json: args.json, metrics, saver, said_kept: false, bar, num_epochs })
    }

    /// Adds a line to the metrics.
    pub(crate) fn line(&mut self, event: &str, fields: impl Serialize) -> anyhow::Result<()> {
        self.metrics.as_mut().map_or(Ok(()), |metrics| metrics.line(event, fields))
    }

    /// Saves the best model so far, where that is wanted. Every rank calls it.
    pub(crate) fn save<B: Backend, M: Module<B>, C: ModelSettings>(
        &mut self,
        best: &Improved<'_, M, C>,
        world: &mut ProcessGroup,
    ) -> std::io::Result<()> {
        let Some(saver) = &mut self.saver else { return Ok(()) };
        let kept = saver.save(best, world).map_err(std::io::Error::other)?;
        if let Some(kept) = kept.filter(|_| !self.said_kept) {
            let text = format!(
                "--save-model: the model of attempt {}, epoch {}, stays until one is better: its {} is {}",
                kept.attempt,
                kept.epoch,
                kept.metric,
                percent(kept.valid_metric)
            );
            self.said_kept = true;
            self.say(&text);
        }
        Ok(())
    }

    /// Says a line above the progress bar.
    pub(crate) fn say(&self, text: &str) {
        if !self.speaks {
            return;
        }
        match self.bar.is_hidden() {
            true => eprintln!("{text}"),
            false => self.bar.println(text),
        }
    }

    /// Says how many values are trained.
    pub(crate) fn started(&self, parameters: ParameterCount) {
        self.say(&format!("training {parameters}"));
    }

    /// Moves the progress bar.
    pub(crate) fn step(&self, epoch: u64, done: usize, total: usize) {
        if done == 1 {
            self.bar.set_message(format!("epoch {epoch}/{}", self.num_epochs));
            self.bar.set_length(total as u64);
        }
        self.bar.set_position(done as u64);
    }

    /// Ends the progress bar, writes the result to the metrics and, where JSON is wanted, prints it; gives whether it is
    /// still to be told to people.
    pub(crate) fn finish(&mut self, result: &impl Serialize) -> anyhow::Result<bool> {
        self.bar.finish_and_clear();
        self.line("result", result)?;
        if self.speaks && self.json {
            println!("{}", serde_json::to_string(result).context("write the result as JSON")?);
        }
        Ok(self.speaks && !self.json)
    }
}

impl Reporter {
    /// Says how good a classifier of nodes or graphs has become.
    pub(crate) fn classification(&mut self, result: &ClassificationResult) -> anyhow::Result<()> {
        if !self.finish(result)? {
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

/// An epoch's times and bytes in words.
pub(crate) fn cost(cost: &EpochCost) -> String {
    format!(
        "{:.2} s (wait {:.2}, compute {:.2}, all-reduce {:.2}), {} remote nodes, {:.1} MB received",
        cost.seconds,
        cost.sample_wait_seconds,
        cost.compute_seconds,
        cost.allreduce_seconds,
        cost.remote_nodes,
        cost.remote_bytes as f64 / 1e6,
    )
}

/// A share in per cent.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.2} %", share * 100.0))
}

//! What rank 0 says; the other ranks are silent.

use crate::args::OutputArgs;
use crate::place::Rank;
use anyhow::Context;
use edgecut_trainer::metrics::Metric;
use edgecut_trainer::{ClassificationResult, EpochCost, ParameterCount};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Says how a run goes, on a terminal and in files.
pub(crate) struct Reporter {
    pub(crate) speaks: bool,
    pub(crate) json: bool,
    metrics: Option<(File, String)>,
    pub(crate) save_model: Option<PathBuf>,
    bar: ProgressBar,
    pub(crate) num_epochs: u64,
}

impl Reporter {
    pub(crate) fn new(args: &OutputArgs, num_epochs: u64, rank: &Rank) -> anyhow::Result<Self> {
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
        Ok(Self { speaks, json: args.json, metrics, save_model, bar, num_epochs })
    }

    /// Adds a line to the metrics.
    pub(crate) fn line(&mut self, event: &str, fields: impl Serialize) -> anyhow::Result<()> {
        let Some((file, name)) = &mut self.metrics else { return Ok(()) };
        let mut value = json!({ "event": event });
        let fields = serde_json::to_value(fields).context("write metrics as JSON")?;
        if let (Some(all), Value::Object(fields)) = (value.as_object_mut(), fields) {
            all.extend(fields);
        }
        writeln!(file, "{value}").with_context(|| format!("write {name}"))
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

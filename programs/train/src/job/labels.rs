//! The labels of nodes that a run reads, out of the labels of its graph.

use crate::exit::UsageError;
use crate::saved_model::read_on_rank_0;
use crate::settings::flags::Flags;
use anyhow::{Context, bail};
use clap::Args;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{LabelId, Meta, Part};
use edgecut_trainer::model_file::TrainedOn;
use serde::Serialize;
use std::path::Path;

/// The labels that a run reads.
#[derive(Clone, Debug)]
pub(crate) enum WantedLabels<'a> {
    /// The first label of each node type.
    First,
    /// The labels that a training or an evaluation predicts.
    OfTask(TaskLabels<'a>),
    /// The label of a prediction: the given one, or the only one of the model.
    OfPrediction { target: Option<&'a str>, model: &'a Path },
}

/// The labels that a training or an evaluation predicts: the given ones, or else the labels of the model.
#[derive(Clone, Debug)]
pub(crate) struct TaskLabels<'a> {
    pub(crate) given: Vec<String>,
    /// The model of an evaluation.
    pub(crate) model: Option<&'a Path>,
    /// True for a task with several labels at once.
    pub(crate) together: bool,
}

/// The flags of a task that choose labels.
pub(crate) trait LabelFlags {
    /// True if the task predicts several labels at once.
    const TOGETHER: bool = false;

    /// Returns the names of labels that are given; `None` for a task that reads no labels of nodes.
    fn labels(&self) -> Option<Vec<String>> {
        None
    }
}

/// The label of a model for nodes.
#[derive(Clone, Debug, Args, Serialize)]
#[command(next_help_heading = "Graph")]
pub(crate) struct TargetArgs {
    /// Label to predict, if nodes have several: LABEL, TYPE:LABEL if node types have labels of the same name, or the node TYPE
    /// of its only label [default: the only label, or the label of --load-model]
    #[arg(long, alias = "label", value_name = "[TYPE:]LABEL")]
    pub(crate) target: Option<String>,
}

impl LabelFlags for TargetArgs {
    fn labels(&self) -> Option<Vec<String>> {
        Some(self.target.iter().cloned().collect())
    }
}

impl<S, P> LabelFlags for Flags<S, P> {}

/// The labels that a run has chosen.
pub(crate) struct ChosenLabels {
    /// Empty for the first labels.
    ids: Vec<LabelId>,
    together: bool,
}

impl ChosenLabels {
    /// The first label of each node type.
    const FIRST: Self = Self { ids: Vec::new(), together: false };
}

impl WantedLabels<'_> {
    /// Finds the labels in a graph. Every rank must call this.
    ///
    /// # Errors
    /// [`UsageError`] for a flag that names no label, for a label twice, and for other labels than the labels of the model.
    pub(crate) fn find(&self, meta: &Meta, world: &mut ProcessGroup) -> anyhow::Result<ChosenLabels> {
        match self {
            Self::First => Ok(ChosenLabels::FIRST),
            Self::OfTask(labels) => labels.find(meta, world),
            Self::OfPrediction { target, model } => {
                let names = names_of(model, world).context("--load-model")?;
                let name = match (target, &names[..]) {
                    (Some(target), names) => position(target, names, model).map(|at| &names[at])?,
                    (None, [only]) => only,
                    (None, _) => return Ok(ChosenLabels::FIRST),
                };
                // A graph of new data may lack the label.
                let ids = meta.find_label(name).ok().into_iter().collect();
                Ok(ChosenLabels { ids, together: false })
            }
        }
    }
}

impl TaskLabels<'_> {
    fn find(&self, meta: &Meta, world: &mut ProcessGroup) -> anyhow::Result<ChosenLabels> {
        let together = self.together;
        let mut given: Vec<LabelId> = Vec::with_capacity(self.given.len());
        for flag in &self.given {
            let id = meta.find_label(flag).map_err(|why| UsageError(format!("--target {why}")))?;
            if given.contains(&id) {
                bail!(UsageError(format!("--target {flag}: it is given twice: leave one out")));
            }
            given.push(id);
        }
        let Some(path) = self.model else { return Ok(ChosenLabels { ids: given, together }) };
        let names = names_of(path, world)?;
        // A graph of new data may lack the labels, and models for one label are evaluated on the only label then.
        let of_model: Vec<LabelId> = names.iter().filter_map(|name| meta.find_label(name).ok()).collect();
        if !given.is_empty() && !names.is_empty() && given != of_model {
            bail!(UsageError(format!(
                "--target {}: the model {} predicts {}: leave the flag out, or load another model",
                self.given.join(","),
                path.display(),
                names.join(", ")
            )));
        }
        let ids = if of_model.len() == names.len() && !names.is_empty() { of_model } else { given };
        Ok(ChosenLabels { ids, together })
    }
}

/// Returns the names of the labels that a saved model predicts. Every rank must call this.
fn names_of(path: &Path, world: &mut ProcessGroup) -> anyhow::Result<Vec<String>> {
    let bytes = read_on_rank_0(path, world)?;
    Ok(TrainedOn::of_file(&bytes, path)?.unwrap_or_default().labels)
}

/// Returns the position of a target among the targets of a model: `TYPE:LABEL`, or a label that one of them alone has.
///
/// # Errors
/// [`UsageError`] for another target.
pub(crate) fn position(target: &str, names: &[String], path: &Path) -> anyhow::Result<usize> {
    let mut found = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if name == target || name.split_once(':').is_some_and(|(_, label)| label == target) {
            found.push(at);
        }
    }
    match found[..] {
        [only] => Ok(only),
        _ if names.is_empty() => bail!(UsageError(format!(
            "--target {target}: the model {} does not say the name of its label: leave the flag out",
            path.display()
        ))),
        _ => bail!(UsageError(format!(
            "--target {target}: the model {} predicts {}: choose one of them",
            path.display(),
            names.join(", ")
        ))),
    }
}

impl ChosenLabels {
    /// Puts the labels in the place of the first ones.
    pub(crate) fn of_part(&self, part: Part) -> Part {
        match &self.ids[..] {
            [] => part,
            ids if self.together => part.with_labels_together(ids),
            [first, ..] => part.with_label(*first),
        }
    }

    /// Checks that servers, which read the first labels, have the labels.
    ///
    /// # Errors
    /// [`UsageError`] for other labels.
    pub(crate) fn check_servers(&self, meta: &Meta) -> anyhow::Result<()> {
        let num_labels: usize =
            meta.node_types.iter().filter(|nodes| nodes.is_labeled()).map(|nodes| 1 + nodes.more_labels.len()).sum();
        match self.ids.first() {
            Some(label) if num_labels > 1 || self.together => bail!(UsageError(format!(
                "--target {}: servers do not choose labels: read the parts by --dataset-root-dir instead of --servers",
                meta.label_name(*label)
            ))),
            _ => Ok(()),
        }
    }
}

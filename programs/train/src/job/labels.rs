//! The labels of nodes that a run reads, out of the labels of its graph.

use crate::exit::UsageError;
use crate::saved_model::{positions, read_on_rank_0};
use crate::settings::flags::Flags;
use anyhow::{Context, bail};
use clap::Args;
use edgecut_cli::message;
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{LabelId, Meta, NodeTypeId, NodeTypeMeta, Part};
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
    /// The labels of a prediction: the given ones, or else all labels of the model.
    OfPrediction { targets: &'a [String], model: &'a Path },
}

/// The choices of a run that decide how a graph is read.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) labels: WantedLabels<'a>,
    /// The pairs of edge types that are each other's reverse, beyond those that names tell.
    pub(crate) reverse_types: &'a [(String, String)],
}

impl<'a> From<WantedLabels<'a>> for Wanted<'a> {
    fn from(labels: WantedLabels<'a>) -> Self {
        Self { labels, reverse_types: &[] }
    }
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

/// The flags of a task on which the reading of a graph depends.
pub(crate) trait GraphFlags {
    /// True if the task predicts several labels at once.
    const TOGETHER: bool = false;

    /// Returns the names of labels that are given; `None` for a task that reads no labels of nodes.
    fn labels(&self) -> Option<Vec<String>> {
        None
    }

    /// Returns the pairs of edge types that are each other's reverse, beyond those that names tell.
    fn reverse_types(&self) -> &[(String, String)] {
        &[]
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

impl GraphFlags for TargetArgs {
    fn labels(&self) -> Option<Vec<String>> {
        Some(self.target.iter().cloned().collect())
    }
}

impl<S, P> GraphFlags for Flags<S, P> {}

/// The labels that a run has chosen.
pub(crate) enum ChosenLabels {
    /// The first label of each node type.
    First,
    One(LabelId),
    Together(Vec<LabelId>),
    /// No label, since the graph lacks the labels of a model.
    None,
}

impl WantedLabels<'_> {
    /// Finds the labels in a graph. Every rank must call this.
    ///
    /// # Errors
    /// [`UsageError`] for a flag that names no label, for a label twice, and for other labels than the labels of the model.
    pub(crate) fn find(&self, meta: &Meta, world: &mut ProcessGroup) -> anyhow::Result<ChosenLabels> {
        match self {
            Self::First => Ok(ChosenLabels::First),
            Self::OfTask(labels) => labels.find(meta, world),
            Self::OfPrediction { targets, model } => {
                let names = names_of(model, world).context("--load-model")?;
                let chosen: Vec<String> =
                    positions(targets, &names, model)?.into_iter().map(|at| names[at].clone()).collect();
                // A graph of new data may lack labels.
                let Found { ids, absent } = Found::of(&chosen, meta, model, world.rank() == 0);
                Ok(match (&chosen[..], &ids[..]) {
                    ([], _) => ChosenLabels::First,
                    (_, []) if absent.is_empty() => ChosenLabels::First,
                    (_, []) => ChosenLabels::None,
                    ([_], [only]) => ChosenLabels::One(*only),
                    _ => ChosenLabels::Together(ids),
                })
            }
        }
    }
}

/// The labels of a model in a graph.
struct Found {
    ids: Vec<LabelId>,
    /// The names of labels that the graph does not have.
    absent: Vec<String>,
}

impl Found {
    /// Finds the labels of a model by their names. The only label of a type may have no name in the graph, of which a line tells
    /// if `tells`.
    fn of(names: &[String], meta: &Meta, model: &Path, tells: bool) -> Self {
        let mut found = Self { ids: Vec::new(), absent: Vec::new() };
        for name in names {
            if let Ok(id) = meta.find_label(name) {
                found.ids.push(id);
                continue;
            }
            let of_type = name.split_once(':').map_or(name.as_str(), |(of_type, _)| of_type);
            let unnamed = meta.node_types.iter().position(|nodes| {
                nodes.name == of_type
                    && nodes.is_labeled()
                    && nodes.label_name.is_none()
                    && nodes.more_labels.is_empty()
            });
            match unnamed {
                Some(t) => {
                    found.ids.push(LabelId { node_type: NodeTypeId(t as u16), label: 0 });
                    if tells {
                        message!(
                            "note: the label of node type {of_type} has no name in the parts, and is taken for {name} of the \
                             model {}",
                            model.display()
                        );
                    }
                }
                None => found.absent.push(name.clone()),
            }
        }
        found
    }
}

impl TaskLabels<'_> {
    fn find(&self, meta: &Meta, world: &mut ProcessGroup) -> anyhow::Result<ChosenLabels> {
        let mut given: Vec<LabelId> = Vec::with_capacity(self.given.len());
        for flag in &self.given {
            let id = meta.find_label(flag).map_err(|why| UsageError(format!("--target {why}")))?;
            if given.contains(&id) {
                bail!(UsageError(format!("--target {flag}: it is given twice: leave one out")));
            }
            given.push(id);
        }
        let Some(path) = self.model else { return Ok(self.chosen(given)) };
        let names = names_of(path, world)?;
        let Found { ids: of_model, absent } = Found::of(&names, meta, path, world.rank() == 0);
        if !given.is_empty() && !names.is_empty() && given != of_model {
            bail!(UsageError(format!(
                "--target {}: the model {} predicts {}: leave the flag out, or load another model",
                self.given.join(","),
                path.display(),
                names.join(", ")
            )));
        }
        // A graph without labels is an error of the evaluation.
        let is_labeled = meta.node_types.iter().any(NodeTypeMeta::is_labeled);
        if let Some(name) = absent.first().filter(|_| is_labeled) {
            bail!(
                "the model {} predicts {name}, but the graph has no such label: evaluate it on parts of tables with this label",
                path.display()
            );
        }
        Ok(self.chosen(if absent.is_empty() && !names.is_empty() { of_model } else { given }))
    }

    /// Returns the choice of labels.
    fn chosen(&self, ids: Vec<LabelId>) -> ChosenLabels {
        match &ids[..] {
            [] => ChosenLabels::First,
            _ if self.together => ChosenLabels::Together(ids),
            [first, ..] => ChosenLabels::One(*first),
        }
    }
}

/// Returns the names of the labels that a saved model predicts. Every rank must call this.
fn names_of(path: &Path, world: &mut ProcessGroup) -> anyhow::Result<Vec<String>> {
    let bytes = read_on_rank_0(path, world)?;
    Ok(TrainedOn::of_file(&bytes, path)?.unwrap_or_default().labels)
}

impl ChosenLabels {
    /// Puts the labels in the place of the first ones.
    pub(crate) fn of_part(&self, part: Part) -> Part {
        match self {
            Self::First => part,
            Self::One(label) => part.with_label(*label),
            Self::Together(labels) => part.with_labels_together(labels),
            Self::None => part.with_labels_together(&[]),
        }
    }

    /// Checks that servers, which read the first labels, have the labels.
    ///
    /// # Errors
    /// [`UsageError`] for other labels.
    pub(crate) fn check_servers(&self, meta: &Meta) -> anyhow::Result<()> {
        let num_labels: usize =
            meta.node_types.iter().filter(|nodes| nodes.is_labeled()).map(|nodes| 1 + nodes.more_labels.len()).sum();
        let label = match self {
            Self::One(label) if num_labels > 1 => label,
            Self::Together(labels) => &labels[0],
            Self::First | Self::One(_) | Self::None => return Ok(()),
        };
        bail!(UsageError(format!(
            "--target {}: servers do not choose labels: read the parts by --dataset-root-dir instead of --servers",
            meta.label_name(*label)
        )))
    }
}

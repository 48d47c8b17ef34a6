//! The rows of both ends of an edge type, for scores and best destinations.

use super::args::{Format, PredictArgs};
use super::files::NamedColumns;
use super::model::{Opened, layer_wise};
use super::node_names::{FoundNames, NodeNames};
use super::progress::Progress;
use crate::exit::UsageError;
use crate::id_map_file::UserColumn;
use crate::job::graph_session::GraphSession;
use crate::tasks::link::ForLinks;
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part};
use edgecut_trainer::TrainingBackend;
use edgecut_trainer::inference::{LinkEnds, PredictionJob, link_edge_type};
use edgecut_trainer::models::LinkModel;
use std::path::PathBuf;

/// The flags that all requests for links read.
pub(super) const OF_LINKS: &[&str] = &["edge_type", "gather", "row_numbers", "scratch_dir"];

/// The names of the columns of the ids that users know, of sources and destinations.
const USER_IDS: [&str; 2] = ["src", "dst"];

/// An edge type and its ends.
pub(super) struct Relation {
    pub(super) edge_type: EdgeTypeId,
    /// The node types of sources and destinations.
    pub(super) ends: [NodeTypeId; 2],
    /// The number of destinations.
    pub(super) num_destinations: usize,
    /// The number of sources.
    pub(super) num_sources: usize,
}

/// Returns the edge type of `--edge-type`, by default the only one that the model was trained to predict, or the only one of the
/// graph.
pub(super) fn relation<B: TrainingBackend>(opened: &Opened<'_, B>, part: &Part) -> anyhow::Result<Relation> {
    let Opened { args, saved, .. } = opened;
    let meta = part.meta();
    let mut name = args.edge_type.clone();
    if name.is_none()
        && let Some(trained_on) = &saved.trained_on
    {
        let targets = trained_on.target_names(meta);
        if targets.len() > 1 {
            let model = args.load_model.display();
            bail!("--edge-type: the model {model} predicts several edge types: choose one of {}", targets.join(", "));
        }
        name = targets.into_iter().next();
    }
    let edge_type = link_edge_type(meta, name.as_deref()).context("--edge-type")?;
    let edges = part.edges(edge_type);
    let ends = [edges.src_type, edges.dst_type];
    let [num_sources, num_destinations] = ends.map(|end| part.meta().node_types[end.index()].book.num_nodes());
    Ok(Relation { edge_type, ends, num_destinations, num_sources })
}

/// The ids that users know, of sources and destinations; `None` for an end whose ids are row numbers.
pub(super) struct EndNames([Option<NodeNames>; 2]);

/// The ids that users know, of some sources and destinations.
pub(super) struct FoundEndNames([Option<FoundNames>; 2]);

impl EndNames {
    /// Reads the ids in the parts of this process if a table is written. Every rank must call this.
    pub(super) fn open(args: &PredictArgs, relation: &Relation, job: &mut GraphSession<'_>) -> anyhow::Result<Self> {
        if args.format == Format::Npy {
            return Ok(Self([None, None]));
        }
        let [src, dst] = relation.ends;
        let src = NodeNames::open(args, &job.graph, src, job.world)?;
        let dst = NodeNames::open(args, &job.graph, dst, job.world)?;
        Ok(Self([src, dst]))
    }

    /// Returns the empty columns.
    pub(super) fn named(&self) -> NamedColumns {
        let mut columns = Vec::new();
        for (names, column) in self.0.iter().zip(USER_IDS) {
            columns.extend(names.as_ref().map(|names| (column, names.empty())));
        }
        columns
    }

    /// Finds the ids of nodes, given by their original ids. Every rank must call this with the same nodes.
    pub(super) fn of(&self, ends: [Vec<u32>; 2], world: &mut ProcessGroup) -> anyhow::Result<FoundEndNames> {
        let mut found = [None, None];
        for ((found, names), nodes) in found.iter_mut().zip(&self.0).zip(ends) {
            if let Some(names) = names {
                *found = Some(names.of(nodes, world)?);
            }
        }
        Ok(FoundEndNames(found))
    }
}

impl FoundEndNames {
    /// Returns the columns of some of the sources and destinations.
    pub(super) fn columns(&self, ends: [&[u32]; 2]) -> anyhow::Result<Vec<UserColumn>> {
        let mut columns = Vec::new();
        for (names, nodes) in self.0.iter().zip(ends) {
            if let Some(names) = names {
                columns.push(names.column(nodes)?);
            }
        }
        Ok(columns)
    }
}

/// A model for links, and the rows of the nodes that an edge type connects.
pub(super) struct Encoded<'a, B: TrainingBackend> {
    pub(super) model: &'a LinkModel<B>,
    pub(super) ends: LinkEnds,
    /// True if the training read no later neighbors, while the rows are computed with all of them.
    pub(super) reads_later_neighbors: bool,
}

/// Computes the rows of the nodes that an edge type connects. Every rank must call this.
///
/// # Errors
/// A model of other items, and an edge type that the model was not trained to score.
pub(super) fn encode<'a, B: TrainingBackend>(
    opened: &'a Opened<'_, B>,
    edge_type: EdgeTypeId,
    scratch_dir: PathBuf,
    progress: &Progress,
    job: &mut GraphSession<'_>,
    device: &B::Device,
) -> anyhow::Result<Encoded<'a, B>> {
    let Opened { args, saved, .. } = opened;
    let (model, config) = opened.predictor::<ForLinks<B>>()?;
    let meta = job.graph.part().meta();
    if let Some(trained_on) = &saved.trained_on
        && !trained_on.is_trained_to_score(meta, edge_type, config.decoder.is_relational())
    {
        let name = meta.edge_types[edge_type.index()].full_name();
        bail!(UsageError(format!(
            "--edge-type {name}: the model {} was trained to predict {}, and has learned nothing of other edge types: choose \
             one of these",
            args.load_model.display(),
            trained_on.target_names(meta).join(", ")
        )));
    }
    let limits = layer_wise(args, saved.trained_on.as_ref(), scratch_dir);
    let prediction = PredictionJob { graph: &job.graph, world: job.world, device, progress };
    let ends = B::encode_link_ends(prediction, model, config, opened.embeddings(), edge_type, &limits)?;
    let reads_later_neighbors = saved.trained_on.as_ref().is_some_and(|trained_on| trained_on.time_attr.is_some());
    Ok(Encoded { model, ends, reads_later_neighbors })
}

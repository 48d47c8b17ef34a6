//! The nodes whose predictions are written.

use super::args::PredictArgs;
use crate::job::graph_session::GraphSession;
use crate::node_ids::{IdFileForm, NodeIdFile};
use anyhow::bail;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, NodeFields};
use edgecut_graph::{NodeTypeId, Split};
use edgecut_settings::{near_path, suggestion};
use edgecut_trainer::loss::Target;
use edgecut_trainer::multi::{KnownNodes, TargetLabel};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The nodes of `--nodes`.
pub(super) enum Selection {
    All,
    Split(Split),
    /// The ids in a file.
    Listed(NodeIdFile),
}

/// The splits of the nodes of a type.
#[derive(Clone, Copy)]
pub(super) enum Splits<'a> {
    /// The splits of the graph.
    OfGraph,
    /// The splits of a label in a graph whose labels are together.
    OfLabel(&'a TargetLabel),
    /// No node is in a split, since the graph lacks the label.
    Unknown,
}

impl Selection {
    /// Reads the value of the flag, and the file that it may name.
    pub(super) fn read(args: &PredictArgs) -> anyhow::Result<Self> {
        let text = args.nodes.as_str();
        let split = Split::ALL.into_iter().find(|split| split.name() == text);
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(split) = split {
            return Ok(Self::Split(split));
        }
        if !Path::new(text).exists() {
            let near = suggestion(text, ["all", "train", "valid", "test"]);
            let near = near_path(Path::new(text)).map_or(near, |file| format!(" (did you mean {}?)", file.display()));
            bail!("--nodes {text}: there is no such file{near}: give all, train, valid, test or a file of ids");
        }
        let file = NodeIdFile::read("--nodes", Path::new(text), IdFileForm::Nodes, args.row_numbers);
        file.map(Self::Listed)
    }

    /// Returns the checksum of the listed ids, which must be equal on all ranks.
    pub(super) fn checksum(&self) -> Option<String> {
        match self {
            Self::Listed(file) => Some(file.checksum()),
            Self::All | Self::Split(_) => None,
        }
    }

    /// Returns the original ids of listed nodes, in the order of the file. Every rank must call this.
    pub(super) fn listed(
        &self,
        node_type: NodeTypeId,
        root: Option<&Path>,
        job: &mut GraphSession<'_>,
    ) -> anyhow::Result<Option<Vec<u32>>> {
        let Self::Listed(file) = self else { return Ok(None) };
        Ok(Some(file.find(&[node_type], root, &job.graph, job.world)?.concat()))
    }

    /// Returns the original ids of the nodes, ascending and distinct; `None` for all nodes. `listed` has the listed nodes.
    /// Every rank must call this.
    pub(super) fn ids(
        &self,
        listed: Option<Vec<u32>>,
        graph: &Arc<DistGraph>,
        node_type: NodeTypeId,
        splits: Splits<'_>,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Vec<u32>>> {
        let Self::Split(split) = self else {
            let ids: Option<BTreeSet<u32>> = listed.map(|ids| ids.into_iter().collect());
            return Ok(ids.map(|ids| ids.into_iter().collect()));
        };
        let own = splits.nodes(graph, node_type, *split)?;
        let own = graph.handle().block_on(graph.original_ids(node_type, own))?;
        let mut ids = Vec::new();
        for of_rank in world.all_gather(bytemuck::cast_slice(&own))? {
            ids.extend(bytemuck::pod_collect_to_vec::<u8, u32>(&of_rank));
        }
        // Ranks that share parts have found the same nodes.
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(ids))
    }
}

impl Splits<'_> {
    /// Returns the nodes of a split in this process's part, which are global ids. Ranks that share a part find the same nodes.
    pub(super) fn nodes(self, graph: &Arc<DistGraph>, node_type: NodeTypeId, split: Split) -> anyhow::Result<Vec<u32>> {
        let label = match self {
            Self::OfGraph => return Ok(graph.split_nodes(node_type, split)?),
            Self::OfLabel(label) => label,
            Self::Unknown => return Ok(Vec::new()),
        };
        let nodes = graph.split_nodes(node_type, split)?;
        let wanted = NodeFields { labels: true, ..NodeFields::default() };
        let together = Target::of_nodes(graph.handle().block_on(graph.fetch(node_type, nodes.clone(), wanted))?);
        Ok(match label.known(&together, split) {
            Some(KnownNodes { rows: Some(rows), .. }) => rows.into_iter().map(|row| nodes[row as usize]).collect(),
            Some(KnownNodes { rows: None, .. }) => nodes,
            None => Vec::new(),
        })
    }
}

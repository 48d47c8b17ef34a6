//! The nodes whose predictions are written.

use crate::sample::npy_numbers::read_numbers;
use anyhow::{Context, bail};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistRows, NodeFields};
use edgecut_graph::Split;
use std::path::{Path, PathBuf};

/// The nodes of `--nodes`.
pub(super) enum Selection {
    All,
    Split(Split),
    /// Ids in a file, ascending and distinct.
    Listed(PathBuf, Vec<u32>),
}

impl Selection {
    /// Reads the value of the flag, and the file that it may name.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let split = Split::ALL.into_iter().find(|split| split.name() == text);
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(split) = split {
            return Ok(Self::Split(split));
        }
        let path = Path::new(text);
        let mut ids =
            read_numbers(path, "node id").context("--nodes: expected all, train, valid, test or a .npy file")?;
        ids.sort_unstable();
        ids.dedup();
        Ok(Self::Listed(path.to_owned(), ids))
    }

    /// Returns the checksum of the listed ids, which must be equal on all ranks.
    pub(super) fn checksum(&self) -> Option<String> {
        match self {
            Self::Listed(_, ids) => Some(edgecut_graph::checksum(bytemuck::cast_slice(ids))),
            Self::All | Self::Split(_) => None,
        }
    }

    /// Returns the ids of the nodes, ascending; `None` for all nodes. Every rank must call this.
    pub(super) fn ids(&self, rows: &DistRows, world: &mut ProcessGroup) -> anyhow::Result<Option<Vec<u32>>> {
        let graph = rows.node();
        let node_type = rows.node_type();
        match self {
            Self::All => Ok(None),
            Self::Listed(path, ids) => {
                let num_nodes = graph.part().meta().node_types[node_type.index()].book.num_nodes();
                if let Some(id) = ids.last().filter(|&&id| id as usize >= num_nodes) {
                    bail!("--nodes {}: there is no node {id}, the graph has {num_nodes}", path.display());
                }
                Ok(Some(ids.clone()))
            }
            Self::Split(split) => {
                let own = graph.split_nodes(node_type, *split)?;
                let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
                let own = graph.handle().block_on(graph.fetch(node_type, own, wanted))?.original_ids;
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
    }
}

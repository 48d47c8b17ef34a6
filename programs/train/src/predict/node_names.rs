//! The ids that users know of any nodes, of which each rank has those in its own parts.

use super::args::PredictArgs;
use crate::id_map_file::{UserColumn, UserIds};
use anyhow::{Context, ensure};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

/// The bytes that all ranks together send in one step, but for the last id of each.
const BYTES_AT_ONCE: usize = 16 << 20;

/// The ids of the nodes of a type in the parts of this process.
pub(super) struct NodeNames {
    graph: Arc<DistGraph>,
    node_type: NodeTypeId,
    own: UserIds,
}

/// The ids of some nodes.
pub(super) struct FoundNames {
    /// Original ids, ascending and distinct.
    nodes: Vec<u32>,
    names: UserColumn,
}

impl NodeNames {
    /// Reads the ids in the parts of this process; `None` for a type whose ids are row numbers. Every rank must call this.
    pub(super) fn open(
        args: &PredictArgs,
        graph: &Arc<DistGraph>,
        node_type: NodeTypeId,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Option<Self>> {
        let Some(root) = args.part.dataset_root_dir.as_deref() else { return Ok(None) };
        if !graph.part().meta().node_types[node_type.index()].has_id_map {
            return Ok(None);
        }
        let mut own = UserIds::of_parts(root, graph.part(), node_type, graph.part().parts_on_disk())?;
        // A process whose parts have no nodes does not know the type of the ids.
        let mut are_texts = [u64::from(matches!(own, UserIds::Texts(_)))];
        world.all_reduce(&mut are_texts, ReduceOp::Max)?;
        if are_texts[0] == 1 && matches!(&own, UserIds::Numbers(parts) if parts.is_empty()) {
            own = UserIds::Texts(Vec::new());
        }
        Ok(Some(Self { graph: graph.clone(), node_type, own }))
    }

    /// Returns an empty column of the type of the ids.
    pub(super) fn empty(&self) -> UserColumn {
        self.own.empty()
    }

    /// Finds the ids of nodes, given by their original ids. Every rank must call this with the same nodes.
    pub(super) fn of(&self, mut nodes: Vec<u32>, world: &mut ProcessGroup) -> anyhow::Result<FoundNames> {
        nodes.sort_unstable();
        nodes.dedup();
        let global = self.graph.handle().block_on(self.graph.find_originals(self.node_type, &nodes))?;
        let mut mine = (0..global.len()).filter(|&at| self.own.has(global[at])).peekable();
        let mut names = vec![None; nodes.len()];
        let limit = BYTES_AT_ONCE / world.size();
        loop {
            let mut sent = Vec::new();
            while let Some(at) = mine.next_if(|_| sent.len() < limit) {
                let name = self.own.of(&global[at..=at])?.bytes(0);
                sent.extend_from_slice(&(at as u32).to_le_bytes());
                sent.extend_from_slice(&(name.len() as u32).to_le_bytes());
                sent.extend_from_slice(&name);
            }
            for received in world.all_gather(&sent)? {
                let mut rest = &received[..];
                while !rest.is_empty() {
                    let at = u32::from_le_bytes(taken(&mut rest, 4)?.try_into()?);
                    let len = u32::from_le_bytes(taken(&mut rest, 4)?.try_into()?);
                    let name = taken(&mut rest, len as usize)?;
                    *names.get_mut(at as usize).context("a rank sent the id of a node that is not wanted")? =
                        Some(name.to_vec());
                }
            }
            let mut is_left = [u64::from(mine.peek().is_some())];
            world.all_reduce(&mut is_left, ReduceOp::Max)?;
            if is_left[0] == 0 {
                break;
            }
        }
        let mut column = self.empty();
        for (node, name) in nodes.iter().zip(names) {
            column.push(&name.with_context(|| format!("no process has the id of node {node}"))?)?;
        }
        Ok(FoundNames { nodes, names: column })
    }
}

/// Takes bytes from the start of a message.
fn taken<'a>(rest: &mut &'a [u8], len: usize) -> anyhow::Result<&'a [u8]> {
    ensure!(len <= rest.len(), "a rank sent a truncated list of ids");
    let (first, others) = rest.split_at(len);
    *rest = others;
    Ok(first)
}

impl FoundNames {
    /// Returns the ids of some of the nodes.
    pub(super) fn column(&self, nodes: &[u32]) -> anyhow::Result<UserColumn> {
        let mut rows = Vec::with_capacity(nodes.len());
        for node in nodes {
            rows.push(
                self.nodes.binary_search(node).ok().with_context(|| format!("the id of node {node} was not read"))?,
            );
        }
        Ok(self.names.rows(&rows))
    }
}

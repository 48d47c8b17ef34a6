//! The nodes of a split, which processes ask the owners for.

use crate::arrays::ids_in;
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::requests::SplitRequest;
use edgecut_graph::{NodeTypeId, PartitionId, Split};
use std::ops::Range;

impl DistGraph {
    /// Returns the global ids of the nodes of a split from which this process's seeds are taken, ascending: those of the
    /// parts in [`DistGraph::seed_share`]. Must not be called from async code.
    ///
    /// # Errors
    /// An error of a peer.
    pub fn split_nodes(&self, node_type: NodeTypeId, split: Split) -> Result<Vec<u32>, SampleError> {
        self.split_of_parts(node_type, split, self.seed_share().parts)
    }

    /// Returns the global ids of the nodes of a split in all parts, ascending. Must not be called from async code.
    ///
    /// # Errors
    /// An error of a peer.
    pub fn split_nodes_of_all_parts(&self, node_type: NodeTypeId, split: Split) -> Result<Vec<u32>, SampleError> {
        self.split_of_parts(node_type, split, 0..self.num_seed_groups() as u32)
    }

    fn split_of_parts(&self, node_type: NodeTypeId, split: Split, parts: Range<u32>) -> Result<Vec<u32>, SampleError> {
        let mut nodes = Vec::new();
        for part in parts {
            nodes.extend(self.handle().block_on(self.split_of_part(node_type, split, part))?);
        }
        Ok(nodes)
    }

    async fn split_of_part(&self, node_type: NodeTypeId, split: Split, part: u32) -> Result<Vec<u32>, SampleError> {
        let Some(peer) = &self.peers[part as usize] else {
            let start = self.part().owned(node_type).start;
            return Ok(self.part().nodes(node_type).splits.get(split).iter().map(|row| start + row).collect());
        };
        let owned = self.part().meta().node_types[node_type.index()].book.range(PartitionId(part));
        let mut nodes = Vec::new();
        loop {
            let request = SplitRequest { node_type, split, start: nodes.len() as u64 };
            let reply = peer.ask(request, None).await?;
            let words = ids_in(&reply).map_err(|why| peer.failed(&request, why))?;
            let Some((&total, rows)) = words.split_first() else {
                return Err(peer.failed(&request, "the reply is empty".into()));
            };
            if let Some(row) = rows.iter().find(|&&row| row as usize >= owned.len()) {
                return Err(peer.failed(&request, format!("the reply has row {row}, the part has {}", owned.len())));
            }
            nodes.extend(rows.iter().map(|row| owned.start + row));
            if nodes.len() == total as usize {
                return Ok(nodes);
            }
            if rows.is_empty() || nodes.len() > total as usize {
                let why = format!("the replies have {} nodes of {total}", nodes.len());
                return Err(peer.failed(&request, why));
            }
        }
    }
}

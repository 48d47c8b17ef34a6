//! Removal of overlaps.

use super::typed_edges::{Relation, is_declared_reverse};
use crate::dataset::held_out_index::{Candidate, HeldOutIndex};
use crate::dataset::{Dataset, EdgeData, EdgeList, Splits};
use crate::memory::{Buffer, Workspace};
use crate::{GraphError, NodeTypeId, parallel};
use bytemuck::Pod;

/// The name of the step in progress reports.
const STEP: &str = "removing overlaps";

impl Splits {
    /// Keeps each node in the last of its splits only.
    fn keep_last(&mut self) {
        let train = ids_not_in(&self.train, [&self.valid, &self.test]);
        self.valid = ids_not_in(&self.valid, [&self.test, &[]]);
        self.train = train;
    }
}

/// Returns the ids that are not in two other ascending lists.
fn ids_not_in(ids: &[u32], others: [&[u32]; 2]) -> Buffer<u32> {
    parallel::filter_map(ids.len(), |at| {
        Some(ids[at]).filter(|id| others.iter().all(|other| other.binary_search(id).is_err()))
    })
    .into()
}

impl Dataset {
    /// Removes overlaps between splits and between training and held-out edges:
    ///
    /// * Training edges that are held out, or whose reverse is held out in the type that `rev_` declares as the
    ///   reverse.
    /// * Validation edges that are also test edges.
    /// * Nodes in two splits, which stay only in the last of them.
    ///
    /// If `undirected` is true, an edge and its reverse are the same edge. The other edges keep their order and
    /// attributes. Arrays are made in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub(crate) fn remove_overlaps(&mut self, space: &Workspace, undirected: bool) -> Result<(), GraphError> {
        for nodes in &mut self.node_types {
            nodes.splits.keep_last();
            nodes.more_labels.iter_mut().for_each(|label| label.splits.keep_last());
        }
        // All types are indexed before any is changed, since a type is compared with the held-out edges of its reverse.
        let indices: Vec<HeldOutIndex> = self.edge_types.iter().map(index).collect();
        let relations: Vec<(NodeTypeId, String, NodeTypeId)> =
            self.edge_types.iter().map(|e| (e.src_type, e.relation.clone(), e.dst_type)).collect();
        let relation_at = |at: usize| {
            let (src_type, relation, dst_type) = &relations[at];
            Relation { src_type: *src_type, relation, dst_type: *dst_type }
        };
        for (at, edges) in self.edge_types.iter_mut().enumerate() {
            let own = &indices[at];
            let reverse: Vec<&HeldOutIndex> = (0..relations.len())
                .filter(|&other| is_declared_reverse(relation_at(at), relation_at(other)) && !indices[other].is_empty())
                .map(|other| &indices[other])
                .collect();
            // The reverse of an edge can only equal another edge of the type if both ends have the same node type.
            let mirrors = undirected && edges.src_type == edges.dst_type;
            if own.is_empty() && reverse.is_empty() {
                continue;
            }
            let is_held_out = |edge: Candidate| {
                own.contains(edge)
                    || mirrors && own.contains(edge.reversed())
                    || reverse.iter().any(|index| index.contains(edge.reversed()))
            };
            let is_test_edge = |edge: Candidate| own.is_test_edge(edge) || mirrors && own.is_test_edge(edge.reversed());
            edges.keep_training_edges(space, |edge| !is_held_out(edge))?;
            let valid = std::mem::take(&mut edges.held_out.valid);
            edges.held_out.valid = kept(valid, |edge| !is_test_edge(edge))?;
        }
        Ok(())
    }
}

fn index(edges: &EdgeData) -> HeldOutIndex {
    let lists = [vec![&edges.held_out.valid], vec![&edges.held_out.test]];
    HeldOutIndex::new(&lists, edges.attributes.times.is_some())
}

impl EdgeData {
    fn keep_training_edges(
        &mut self,
        space: &Workspace,
        keep: impl Fn(Candidate) -> bool + Sync,
    ) -> Result<(), GraphError> {
        let positions = positions(space, &self.src, &self.dst, self.attributes.times.as_deref(), keep)?;
        if positions.len() == self.src.len() {
            return Ok(());
        }
        self.src = select(space, &self.src, &positions)?;
        self.dst = select(space, &self.dst, &positions)?;
        self.attributes = self.attributes.select_in(space, &positions)?;
        Ok(())
    }
}

fn kept(list: EdgeList, keep: impl Fn(Candidate) -> bool + Sync) -> Result<EdgeList, GraphError> {
    let space = &Workspace::default();
    let positions = positions(space, &list.src, &list.dst, list.times.as_deref(), keep)?;
    if positions.len() == list.len() {
        return Ok(list);
    }
    Ok(EdgeList {
        src: select(space, &list.src, &positions)?,
        dst: select(space, &list.dst, &positions)?,
        times: list.times.as_ref().map(|times| select(space, times, &positions)).transpose()?,
        negatives: list.negatives.as_ref().map(|negatives| negatives.select(&positions)),
    })
}

/// Returns the positions of the edges to keep, ascending.
fn positions(
    space: &Workspace,
    src: &[u32],
    dst: &[u32],
    times: Option<&[i64]>,
    keep: impl Fn(Candidate) -> bool + Sync,
) -> Result<Buffer<u64>, GraphError> {
    let edge = |at: usize| Candidate { src: src[at], dst: dst[at], time: times.map(|times| times[at]) };
    space.filter_map(src.len(), STEP, |at| keep(edge(at)).then_some(at as u64))
}

fn select<T: Pod + Default + Send + Sync>(
    space: &Workspace,
    values: &[T],
    positions: &[u64],
) -> Result<Buffer<T>, GraphError> {
    space.build(positions.len(), STEP, |range| Ok(parallel::map(&positions[range], |&at| values[at as usize])))
}

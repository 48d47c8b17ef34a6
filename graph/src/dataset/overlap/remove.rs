//! Removal of overlaps.

use super::filter::OverlapFilter;
use crate::dataset::held_out_index::Candidate;
use crate::dataset::{Dataset, EdgeData, EdgeList, Splits};
use crate::memory::{Buffer, Workspace};
use crate::{EdgeTypeId, GraphError, parallel};

/// The name of the step in progress reports.
const STEP: &str = "removing overlaps";

impl Splits {
    /// Keeps each node in the last of its splits only.
    pub(crate) fn keep_last(&mut self) {
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
    /// * Training edges that are held out, or whose reverse is held out in the type that `rev_` or a pair of
    ///   `reverse_types` declares as the reverse.
    /// * Validation edges that are also test edges.
    /// * Nodes in two splits, which stay only in the last of them.
    ///
    /// If `undirected` is true, an edge and its reverse are the same edge. The other edges keep their order and
    /// attributes. Arrays are made in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    pub(crate) fn remove_overlaps(
        &mut self,
        space: &Workspace,
        undirected: bool,
        reverse_types: &[(String, String)],
    ) -> Result<(), GraphError> {
        for nodes in &mut self.node_types {
            nodes.splits.keep_last();
            nodes.more_labels.iter_mut().for_each(|label| label.splits.keep_last());
        }
        // All types are indexed before any is changed, since a type is compared with the held-out edges of its reverse.
        let filter = OverlapFilter::new(&self.typed_edges(reverse_types), undirected);
        for (at, edges) in (0..).map(EdgeTypeId).zip(&mut self.edge_types) {
            if !filter.concerns(at) {
                continue;
            }
            edges.keep_training_edges(space, |edge| !filter.removes(at, edge))?;
            let valid = std::mem::take(&mut edges.held_out.valid);
            edges.held_out.valid = kept(valid, |edge| !filter.is_test_edge(at, edge))?;
        }
        Ok(())
    }
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
        self.src = space.select_rows(&self.src, 1, &positions, STEP)?;
        self.dst = space.select_rows(&self.dst, 1, &positions, STEP)?;
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
    Ok(list.select(&positions))
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

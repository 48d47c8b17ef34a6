//! Removal of overlaps.

use super::typed_edges::{Relation, is_declared_reverse};
use crate::dataset::held_out_index::{Candidate, HeldOutIndex};
use crate::dataset::{Dataset, EdgeData, EdgeList, Splits};
use crate::memory::Buffer;
use crate::{NodeTypeId, parallel};

impl Dataset {
    /// Removes overlaps between splits and between training and held-out edges:
    ///
    /// * Training edges that are held out, or whose reverse is held out in the type that `rev_` declares as the
    ///   reverse.
    /// * Validation edges that are also test edges.
    /// * Nodes in two splits, which stay only in the last of them.
    ///
    /// If `undirected` is true, an edge and its reverse are the same edge. The other edges keep their order and
    /// attributes.
    pub(crate) fn remove_overlaps(&mut self, undirected: bool) {
        for nodes in &mut self.node_types {
            let Splits { train, valid, test } = &nodes.splits;
            let not_in = |ids: &[u32], others: [&[u32]; 2]| -> Buffer<u32> {
                let is_free = |id: &u32| others.iter().all(|other| other.binary_search(id).is_err());
                parallel::filter_map(ids.len(), |at| Some(ids[at]).filter(is_free)).into()
            };
            let train = not_in(train, [valid, test]);
            let valid = not_in(valid, [test, &[]]);
            nodes.splits = Splits { train, valid, test: test.clone() };
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
            edges.keep_training_edges(|edge| !is_held_out(edge));
            let valid = std::mem::take(&mut edges.held_out.valid);
            edges.held_out.valid = kept(valid, |edge| !is_test_edge(edge));
        }
    }
}

fn index(edges: &EdgeData) -> HeldOutIndex {
    let lists = [vec![&edges.held_out.valid], vec![&edges.held_out.test]];
    HeldOutIndex::new(&lists, edges.attributes.times.is_some())
}

impl EdgeData {
    fn keep_training_edges(&mut self, keep: impl Fn(Candidate) -> bool + Sync) {
        let positions = positions(&self.src, &self.dst, self.attributes.times.as_deref(), keep);
        if positions.len() == self.src.len() {
            return;
        }
        self.src = select(&self.src, &positions);
        self.dst = select(&self.dst, &positions);
        self.attributes = self.attributes.select(&positions);
    }
}

fn kept(list: EdgeList, keep: impl Fn(Candidate) -> bool + Sync) -> EdgeList {
    let positions = positions(&list.src, &list.dst, list.times.as_deref(), keep);
    if positions.len() == list.len() {
        return list;
    }
    EdgeList {
        src: select(&list.src, &positions),
        dst: select(&list.dst, &positions),
        times: list.times.as_ref().map(|times| select(times, &positions)),
        negatives: list.negatives.as_ref().map(|negatives| negatives.select(&positions)),
    }
}

/// Returns the positions of the edges to keep, ascending.
fn positions(src: &[u32], dst: &[u32], times: Option<&[i64]>, keep: impl Fn(Candidate) -> bool + Sync) -> Vec<u64> {
    let edge = |at: usize| Candidate { src: src[at], dst: dst[at], time: times.map(|times| times[at]) };
    parallel::filter_map(src.len(), |at| keep(edge(at)).then_some(at as u64))
}

fn select<T: Copy + Default + Send + Sync>(values: &[T], positions: &[u64]) -> Buffer<T> {
    parallel::map(positions, |&at| values[at as usize]).into()
}

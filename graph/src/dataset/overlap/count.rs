//! Counting overlaps.

use super::overlaps::{EdgeOverlap, NodeOverlap, Overlaps};
use super::typed_edges::TypedEdges;
use crate::dataset::held_out_index::{Candidate, HeldOutIndex, IN_REVERSE_TYPE, MIRRORED, SAME};
use crate::dataset::{Dataset, NodeData, Split, Splits};
use crate::edge_type_names::{EdgeTypeNames, check_reverse_pairs};
use crate::parallel;

/// The number of training edges that one task looks up.
const EDGES_PER_TASK: usize = 1 << 13;

impl Dataset {
    /// Counts the held-out edges that are also training edges, and the nodes that are in two splits. Training edges are
    /// read once, and once more for each type with held-out edges in the opposite direction. Only the held-out edges take
    /// additional memory.
    pub fn overlaps(&self) -> Overlaps {
        self.overlaps_with(&[])
    }

    /// Counts overlaps as [`Dataset::overlaps`] does, also with the edge types in pairs that are each other's reverse.
    pub(crate) fn overlaps_with(&self, reverse_types: &[(String, String)]) -> Overlaps {
        let labels = self.node_types.iter().flat_map(NodeData::by_label);
        let node_types = labels.map(|nodes| NodeOverlap::count(&nodes.shown_name(), &nodes.splits));
        let node_types = node_types.filter(NodeOverlap::is_some).collect();
        Overlaps { node_types, edge_types: count_edge_overlaps(&self.typed_edges(reverse_types)) }
    }

    /// Checks pairs of reverse types. Pairs with a name that `is_later` accepts are not checked.
    ///
    /// # Errors
    /// Describes the first pair whose types do not exist, or cannot be each other's reverse.
    pub(crate) fn check_reverse_types(
        &self,
        pairs: &[(String, String)],
        is_later: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let names: Vec<EdgeTypeNames> = self.edge_types.iter().map(|edges| self.edge_type_names(edges)).collect();
        check_reverse_pairs(pairs, &names, is_later)
    }

    /// Returns the edge types in the form in which overlaps are counted and removed.
    pub(super) fn typed_edges<'a>(&'a self, reverse_types: &'a [(String, String)]) -> Vec<TypedEdges<'a>> {
        let typed = self.edge_types.iter().map(|edges| TypedEdges {
            names: self.edge_type_names(edges),
            reverse_types,
            held_out: [vec![&edges.held_out.valid], vec![&edges.held_out.test]],
            has_times: edges.attributes.times.is_some(),
            train: Box::new(|visit| {
                let times = edges.attributes.times.as_deref();
                let src = &edges.src[..];
                let dst = &edges.dst[..];
                parallel::for_each_range(src.len(), EDGES_PER_TASK, &|range| {
                    for at in range {
                        visit(Candidate { src: src[at], dst: dst[at], time: times.map(|times| times[at]) });
                    }
                });
            }),
        });
        typed.collect()
    }
}

/// Counts the overlaps of each edge type, and returns those with an overlap. `types` are all edge types of a graph.
pub(crate) fn count_edge_overlaps(types: &[TypedEdges]) -> Vec<EdgeOverlap> {
    let with_held_out = types.iter().filter(|edges| edges.held_out.iter().flatten().any(|list| !list.is_empty()));
    with_held_out.map(|edges| edges.overlap(types)).filter(EdgeOverlap::is_some).collect()
}

impl TypedEdges<'_> {
    fn overlap(&self, types: &[TypedEdges]) -> EdgeOverlap {
        let index = HeldOutIndex::new(&self.held_out, self.has_times);
        let joins_one_type = self.joins_one_type();
        // A reverse is only comparable within one id space. A self loop is its own reverse, and SAME already counts it.
        (self.train)(&|edge: Candidate| {
            index.mark(edge, SAME);
            if joins_one_type && edge.src != edge.dst {
                index.mark(edge.reversed(), MIRRORED);
            }
        });
        for other in types.iter().filter(|other| self.is_reverse_of(other)) {
            (other.train)(&|edge: Candidate| index.mark(edge.reversed(), IN_REVERSE_TYPE));
        }
        let [valid_in_test, mirrored] = index.valid_in_test();
        EdgeOverlap {
            edge_type: self.names.full_name(),
            held_out: [0, 1].map(|split| self.held_out[split].iter().map(|list| list.len() as u64).sum()),
            in_train: index.marked(SAME),
            mirrored_in_train: index.marked(MIRRORED),
            in_reverse_type: index.marked(IN_REVERSE_TYPE),
            at_other_times: index.at_other_times(),
            valid_in_test,
            valid_mirrored_in_test: if joins_one_type { mirrored } else { 0 },
            undeclared_reverses: self.undeclared_reverses(types, &index),
        }
    }
}

impl NodeOverlap {
    /// Counts the nodes of one type that are in two splits.
    pub(crate) fn count(node_type: &str, splits: &Splits) -> Self {
        let common = |a: Split, b: Split| count_common(splits.get(a), splits.get(b));
        Self {
            node_type: node_type.into(),
            train_valid: common(Split::Train, Split::Valid),
            train_test: common(Split::Train, Split::Test),
            valid_test: common(Split::Valid, Split::Test),
        }
    }

    /// Returns true if any node is in two splits.
    pub(crate) fn is_some(&self) -> bool {
        self.train_valid + self.train_test + self.valid_test > 0
    }
}

impl EdgeOverlap {
    fn is_some(&self) -> bool {
        let pairs = [self.in_train, self.mirrored_in_train, self.in_reverse_type, self.at_other_times];
        pairs.iter().flatten().sum::<u64>() + self.valid_in_test + self.valid_mirrored_in_test > 0
            || !self.undeclared_reverses.is_empty()
    }
}

/// Returns the number of ids that are in both of two ascending lists.
fn count_common(a: &[u32], b: &[u32]) -> u64 {
    // Binary searches for the ids of the shorter list in the longer one.
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    parallel::count(few.len(), |at| many.binary_search(&few[at]).is_ok()) as u64
}

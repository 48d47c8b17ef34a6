//! Counting overlaps.

use super::super::held_out_index::{Candidate, HeldOutIndex, IN_REVERSE_TYPE, MIRRORED, SAME};
use super::super::{Dataset, EdgeList, Split, Splits};
use super::{EdgeOverlap, NodeOverlap, Overlaps};
use crate::{EdgeTypeId, NodeTypeId, Part};
use rayon::prelude::*;

/// A function that passes every training edge of a type to its argument, from many threads.
type Stream<'a> = Box<dyn Fn(&(dyn Fn(Candidate) + Sync)) + 'a>;

/// The training and held-out edges of one type, of a dataset or of parts.
struct TypedEdges<'a> {
    /// The name, such as `author__writes__paper`.
    name: String,
    src_type: NodeTypeId,
    relation: &'a str,
    dst_type: NodeTypeId,
    /// The validation and test edges.
    held_out: [Vec<&'a EdgeList>; 2],
    has_times: bool,
    train: Stream<'a>,
}

impl Dataset {
    /// Counts the held-out edges that are also training edges, and the nodes that are in two splits. Training edges are
    /// read once, or twice for a type with a declared reverse. Only the held-out edges take additional memory.
    pub fn overlaps(&self) -> Overlaps {
        let node_types = self.node_types.iter().map(|nodes| NodeOverlap::count(&nodes.name, &nodes.splits));
        let node_types = node_types.filter(NodeOverlap::is_some).collect();
        let typed = self.edge_types.iter().map(|edges| TypedEdges {
            name: self.edge_type_name(edges),
            src_type: edges.src_type,
            relation: &edges.relation,
            dst_type: edges.dst_type,
            held_out: [vec![&edges.held_out.valid], vec![&edges.held_out.test]],
            has_times: edges.attributes.times.is_some(),
            train: Box::new(|visit| {
                let times = edges.attributes.times.as_deref();
                let ends = edges.src.par_iter().zip(&edges.dst[..]).enumerate();
                ends.for_each(|(at, (&src, &dst))| visit(Candidate { src, dst, time: times.map(|times| times[at]) }));
            }),
        });
        Overlaps { node_types, edge_types: count(&typed.collect::<Vec<_>>()) }
    }
}

/// Counts the overlaps of a partitioned graph. `parts` must be all of its parts.
pub(crate) fn count_in_parts(parts: &[Part]) -> Overlaps {
    let Some(meta) = parts.first().map(Part::meta) else { return Overlaps::default() };
    let mut node_types = Vec::new();
    for (t, nodes) in meta.node_types.iter().enumerate() {
        let mut of_type = NodeOverlap { node_type: nodes.name.clone(), ..NodeOverlap::default() };
        for part in parts {
            let of_part = NodeOverlap::count(&nodes.name, &part.nodes(NodeTypeId(t as u16)).splits);
            of_type.train_valid += of_part.train_valid;
            of_type.train_test += of_part.train_test;
            of_type.valid_test += of_part.valid_test;
        }
        node_types.push(of_type);
    }
    node_types.retain(NodeOverlap::is_some);
    let typed = meta.edge_types.iter().enumerate().map(|(e, t)| {
        let edge_type = EdgeTypeId(e as u16);
        let of_parts = || parts.iter().map(move |part| part.edges(edge_type));
        let src_type = parts[0].edges(edge_type).src_type;
        let dst_type = parts[0].edges(edge_type).dst_type;
        TypedEdges {
            name: format!("{}__{}__{}", t.src_type, t.relation, t.dst_type),
            src_type,
            relation: &t.relation,
            dst_type,
            held_out: [
                of_parts().map(|edges| &edges.held_out.valid).collect(),
                of_parts().map(|edges| &edges.held_out.test).collect(),
            ],
            has_times: t.has_times,
            train: Box::new(move |visit| {
                for part in parts {
                    let edges = part.edges(edge_type);
                    let start = part.owned(dst_type).start;
                    let csc = &edges.csc;
                    let times = edges.attributes.times.as_deref();
                    (0..csc.num_rows()).into_par_iter().with_min_len(256).for_each(|row| {
                        let first = csc.indptr()[row] as usize;
                        for (at, &src) in csc.neighbors(row).iter().enumerate() {
                            let time = times.map(|times| times[first + at]);
                            visit(Candidate { src, dst: start + row as u32, time });
                        }
                    });
                }
            }),
        }
    });
    Overlaps { node_types, edge_types: count(&typed.collect::<Vec<_>>()) }
}

fn count(types: &[TypedEdges]) -> Vec<EdgeOverlap> {
    let with_held_out = types.iter().filter(|edges| edges.held_out.iter().flatten().any(|list| !list.is_empty()));
    with_held_out.map(|edges| edges.overlap(types)).filter(EdgeOverlap::is_some).collect()
}

impl TypedEdges<'_> {
    fn overlap(&self, types: &[TypedEdges]) -> EdgeOverlap {
        let index = HeldOutIndex::new(&self.held_out, self.has_times);
        let joins_one_type = self.src_type == self.dst_type;
        // A reverse is only comparable within one id space. A self loop is its own reverse, and SAME already counts it.
        (self.train)(&|edge: Candidate| {
            index.mark(edge, SAME);
            if joins_one_type && edge.src != edge.dst {
                index.mark(edge.reversed(), MIRRORED);
            }
        });
        for other in types.iter().filter(|other| is_declared_reverse(self.triple(), other.triple())) {
            (other.train)(&|edge: Candidate| index.mark(edge.reversed(), IN_REVERSE_TYPE));
        }
        let [valid_in_test, mirrored] = index.valid_in_test();
        EdgeOverlap {
            edge_type: self.name.clone(),
            held_out: [0, 1].map(|split| self.held_out[split].iter().map(|list| list.len() as u64).sum()),
            in_train: index.marked(SAME),
            mirrored_in_train: index.marked(MIRRORED),
            in_reverse_type: index.marked(IN_REVERSE_TYPE),
            at_other_times: index.at_other_times(),
            valid_in_test,
            valid_mirrored_in_test: if joins_one_type { mirrored } else { 0 },
        }
    }

    fn triple(&self) -> Triple<'_> {
        Triple { src_type: self.src_type, relation: self.relation, dst_type: self.dst_type }
    }
}

/// An edge type, identified by its end types and its relation.
#[derive(Clone, Copy)]
pub(super) struct Triple<'a> {
    pub(super) src_type: NodeTypeId,
    pub(super) relation: &'a str,
    pub(super) dst_type: NodeTypeId,
}

/// Returns true if the names say that each type holds the reverse edges of the other, as `writes` and `rev_writes` do.
pub(super) fn is_declared_reverse(one: Triple, other: Triple) -> bool {
    let is_rev = |one: &str, other: &str| one.strip_prefix("rev_") == Some(other);
    let ends_swapped = one.src_type == other.dst_type && one.dst_type == other.src_type;
    ends_swapped && (is_rev(one.relation, other.relation) || is_rev(other.relation, one.relation))
}

impl NodeOverlap {
    fn count(node_type: &str, splits: &Splits) -> Self {
        let common = |a: Split, b: Split| count_common(splits.get(a), splits.get(b));
        Self {
            node_type: node_type.into(),
            train_valid: common(Split::Train, Split::Valid),
            train_test: common(Split::Train, Split::Test),
            valid_test: common(Split::Valid, Split::Test),
        }
    }

    fn is_some(&self) -> bool {
        self.train_valid + self.train_test + self.valid_test > 0
    }
}

impl EdgeOverlap {
    fn is_some(&self) -> bool {
        let pairs = [self.in_train, self.mirrored_in_train, self.in_reverse_type, self.at_other_times];
        pairs.iter().flatten().sum::<u64>() + self.valid_in_test + self.valid_mirrored_in_test > 0
    }
}

/// Returns the number of ids that are in both of two ascending lists.
fn count_common(a: &[u32], b: &[u32]) -> u64 {
    // Binary searches for the ids of the shorter list in the longer one.
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    few.par_iter().filter(|id| many.binary_search(id).is_ok()).count() as u64
}

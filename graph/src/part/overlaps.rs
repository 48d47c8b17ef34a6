//! Overlaps between the training and the held-out data of a partitioned graph.

use super::Part;
use crate::dataset::{Candidate, NodeOverlap, Overlaps, TypedEdges, count_edge_overlaps};
use crate::{EdgeTypeId, NodeTypeId, parallel};

/// The number of rows whose edges one task reads.
const ROWS_PER_TASK: usize = 256;

impl Part {
    /// Counts the held-out edges that are also training edges, also of a type that the parts record as the reverse, and the
    /// nodes that are in two splits. `parts` must be all parts of a graph. Reads the edges of all parts if any edge is held out.
    pub fn overlaps(parts: &[Self]) -> Overlaps {
        let Some(meta) = parts.first().map(Self::meta) else { return Overlaps::default() };
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
            let dst_type = parts[0].edges(edge_type).dst_type;
            TypedEdges {
                names: t.names(),
                reverse_types: &meta.provenance.reverse_types,
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
                        parallel::for_each_range(csc.num_rows(), ROWS_PER_TASK, &|rows| {
                            for row in rows {
                                let first = csc.indptr()[row] as usize;
                                for (at, &src) in csc.neighbors(row).iter().enumerate() {
                                    let time = times.map(|times| times[first + at]);
                                    visit(Candidate { src, dst: start + row as u32, time });
                                }
                            }
                        });
                    }
                }),
            }
        });
        Overlaps { node_types, edge_types: count_edge_overlaps(&typed.collect::<Vec<_>>()) }
    }
}

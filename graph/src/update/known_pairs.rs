//! The lists of the edges that join the same nodes as added edges.

use super::nodes::{NONE, Numbering};
use crate::dataset::{Dataset, EdgeData, KnownPairs, Split};
use crate::{EdgeTypeId, GraphError, NodeTypeId, Part};

/// Finds the lists in `parts` of the pairs of nodes that edges of `added` join, whose types are at the positions
/// `edge_types`. The nodes of `added` have their numbers after an update in which the nodes of `removed` are removed, which
/// has an entry per node type and original id. Edges of the types `in_parts` of the parts are searched, held-out edges
/// included.
///
/// # Errors
/// [`GraphError::Dataset`] if the original ids of the parts do not belong together.
pub fn known_pairs(
    parts: &[Part],
    removed: &[Vec<bool>],
    added: &Dataset,
    edge_types: &[EdgeTypeId],
    in_parts: &[EdgeTypeId],
) -> Result<KnownPairs, GraphError> {
    let mut numberings = Vec::with_capacity(removed.len());
    for (t, is_removed) in (0..).map(NodeTypeId).zip(removed) {
        let numbering = Numbering::new(parts, t, is_removed)
            .map_err(|why| GraphError::Dataset { dataset: added.name.clone(), why })?;
        numberings.push(numbering);
    }
    // True for each node that stays and that an added edge joins with another such node. Only its edges are looked up.
    let mut is_end: Vec<Vec<bool>> = numberings.iter().map(|of_type| vec![false; of_type.globals.len()]).collect();
    let mut pairs = KnownPairs::default();
    for edge_type in edge_types {
        let edges: &EdgeData = &added.edge_types[edge_type.index()];
        for (&src, &dst) in edges.src.iter().zip(&edges.dst[..]) {
            let ends = [(edges.src_type, src), (edges.dst_type, dst)];
            if ends.iter().all(|(t, number)| (*number as usize) < is_end[t.index()].len()) {
                pairs.want(ends);
                ends.iter().for_each(|(t, number)| is_end[t.index()][*number as usize] = true);
            }
        }
    }
    let is_wanted = |(t, number): (NodeTypeId, u32)| number != NONE && is_end[t.index()][number as usize];
    for part in parts {
        for &edge_type in in_parts {
            let edges = part.edges(edge_type);
            let [src, dst] = [edges.src_type, edges.dst_type].map(|t| &numberings[t.index()].of_global);
            let first = part.owned(edges.dst_type).start;
            for row in 0..edges.csc.num_rows() {
                let destination = (edges.dst_type, dst[first as usize + row]);
                if !is_wanted(destination) {
                    continue;
                }
                for &source in edges.csc.neighbors(row) {
                    let source = (edges.src_type, src[source as usize]);
                    if is_wanted(source) {
                        pairs.found([source, destination], Split::Train);
                    }
                }
            }
            for (split, list) in [(Split::Valid, &edges.held_out.valid), (Split::Test, &edges.held_out.test)] {
                for (&source, &destination) in list.src.iter().zip(&list.dst[..]) {
                    let ends = [(edges.src_type, src[source as usize]), (edges.dst_type, dst[destination as usize])];
                    if ends.into_iter().all(is_wanted) {
                        pairs.found(ends, split);
                    }
                }
            }
        }
    }
    Ok(pairs)
}

//! Lookups of edges in the part that this process holds.

use crate::arrays::ids_in;
use crate::part::local_part::{LocalPart, check_rows};
use crate::part::requests::{HasEdgesRequest, Refusal};
use bytes::Bytes;
use edgecut_graph::HeldOutEdges;
use rayon::prelude::*;

impl LocalPart {
    /// Returns one byte per pair: 1 if the pair is an edge into a node of this part, else 0.
    pub(crate) fn has_edges(&self, request: &HasEdgesRequest) -> Result<Bytes, Refusal> {
        let pairs = ids_in(&request.pairs).map_err(Refusal::Invalid)?;
        let edges = self.edges(request.edge_type)?;
        check_rows(pairs.iter().step_by(2), edges.csc.num_rows())?;
        let start = self.part.owned(edges.dst_type).start;
        let held_out = self.held_out[request.edge_type.index()].get_or_init(|| {
            let HeldOutEdges { valid, test } = &edges.held_out;
            [valid, test].iter().flat_map(|list| list.src.iter().copied().zip(list.dst.iter().copied())).collect()
        });
        let hubs = &self.hubs[request.edge_type.index()];
        let is_edge = |pair: &[u32]| {
            let &[row, src] = pair else { return 0 };
            let held_out = request.held_out && held_out.contains(&(src, start + row));
            u8::from(held_out || hubs.contains(&edges.csc, row, src))
        };
        Ok(pairs.par_chunks(2).with_min_len(256).map(is_edge).collect::<Vec<u8>>().into())
    }
}

//! The CSR of a batch, built hop by hop from the replies of all parts.

use crate::batch::batch_builder::{BatchBuilder, Numbers};
use crate::batch::hop_plan::HopPlan;
use crate::batch::seeds::Excluded;
use crate::batch::subgraph::SampledEdges;
use crate::error::SampleError;
use crate::numbering::Numbering;
use crate::part::hop_reply::{HopReply, SectionReply};
use bytes::Bytes;
use std::time::{Duration, Instant};

/// Distance, in nodes, between a prefetch in the number table and its use.
const NODES_AHEAD: usize = 24;

impl BatchBuilder {
    /// Adds the replies of a hop to the batch. `numbered` receives the index of each edge type and its time.
    pub(crate) fn add_hop(
        &mut self,
        plan: &HopPlan,
        replies: &[Bytes],
        numbered: impl Fn(usize, Duration),
    ) -> Result<(), SampleError> {
        let Self { numbers, hop_offsets, edges, excluded, .. } = self;
        match numbers {
            Numbers::Shared(numbers) => {
                CsrBuilder { numbers, hop_offsets, edges, excluded }.add_hop(plan, replies, numbered)
            }
            Numbers::Disjoint(numbers) => {
                CsrBuilder { numbers, hop_offsets, edges, excluded }.add_hop(plan, replies, numbered)
            }
        }
    }
}

/// The parts of a batch that a hop extends. Compiled for each numbering, so that numbering a neighbor is no virtual
/// call.
struct CsrBuilder<'a, N> {
    numbers: &'a mut [N],
    hop_offsets: &'a mut [Vec<u32>],
    edges: &'a mut [SampledEdges],
    excluded: &'a Excluded,
}

impl<N: Numbering> CsrBuilder<'_, N> {
    /// Stitches the replies in the order of the frontier, edge type by edge type, and numbers the new nodes.
    fn add_hop(self, plan: &HopPlan, replies: &[Bytes], numbered: impl Fn(usize, Duration)) -> Result<(), SampleError> {
        let replies: Vec<HopReply<'_>> =
            replies.iter().zip(&plan.requests).map(|(data, request)| HopReply::new(request, data)).collect();
        for (e, &(src_type, dst_type)) in plan.edge_types.iter().enumerate() {
            let start = Instant::now();
            let mut sections: Vec<SectionReply<'_>> = replies.iter().map(|reply| reply.section(e)).collect();
            let SampledEdges { indptr, indices, positions } = &mut self.edges[e];
            let drawn: usize = sections.iter().map(|section| section.neighbors.len()).sum();
            if indices.len() + drawn > u32::MAX as usize {
                let what = "a batch has 2^32 or more edges: reduce the batch size or the fan-out".into();
                return Err(SampleError::Layout { what });
            }
            indices.reserve(drawn);
            // Each reply lists its rows in the order of the frontier, so taking the next row of each owner restores that
            // order.
            for &owner in &plan.routes[dst_type.index()].owners {
                let row = indptr.len() - 1;
                let section = &mut sections[owner as usize];
                let upcoming = section.neighbors;
                let (neighbors, theirs) = section.next_row();
                let dst = &self.numbers[dst_type.index()];
                let batch = dst.batch_of(row);
                // Excluded edges are drawn by the owner and dropped here, so that requests do not have to carry them.
                let forbidden =
                    if self.excluded.is_empty() { None } else { self.excluded.sources(e, batch, dst.nodes()[row]) };
                let numbers = &mut self.numbers[src_type.index()];
                match forbidden {
                    None => {
                        positions.extend_from_slice(theirs);
                        indices.extend(neighbors.iter().enumerate().map(|(i, &id)| {
                            if let Some(&soon) = upcoming.get(i + NODES_AHEAD) {
                                numbers.prefetch(soon);
                            }
                            numbers.number(batch, id)
                        }))
                    }
                    Some(forbidden) => {
                        for (i, &id) in neighbors.iter().enumerate().filter(|(_, id)| !forbidden.contains(id)) {
                            indices.push(numbers.number(batch, id));
                            positions.extend(theirs.get(i));
                        }
                    }
                }
                indptr.push(indices.len() as u32);
            }
            numbered(e, start.elapsed());
        }
        for (offsets, numbers) in self.hop_offsets.iter_mut().zip(self.numbers) {
            offsets.push(numbers.nodes().len() as u32);
        }
        Ok(())
    }
}

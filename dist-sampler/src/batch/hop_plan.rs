//! The plan of one hop: the requests to all parts.

use crate::arrays::bytes_of;
use crate::batch::batch_builder::BatchBuilder;
use crate::batch_key::BatchKey;
use crate::config::fan_out::Fanout;
use crate::config::sampling_policy::SamplingPolicy;
use crate::dist_graph::routing::Routes;
use crate::numbering::Numbering;
use crate::part::requests::{HopRequest, HopSection, words_per_row};
use edgecut_graph::{NodeTypeId, Part};

/// The plan of one hop: the frontier of each node type grouped by owner, and the request to each part.
pub(crate) struct HopPlan {
    /// Source and destination type of each edge type.
    pub(crate) edge_types: Vec<(NodeTypeId, NodeTypeId)>,
    pub(crate) routes: Vec<Routes>,
    pub(crate) requests: Vec<HopRequest>,
}

/// The settings of one hop of a sampler.
pub(crate) struct HopSettings<'a> {
    pub(crate) part: &'a Part,
    /// The fan-out of each edge type.
    pub(crate) fanouts: &'a [Fanout],
    pub(crate) rule: SamplingPolicy,
    pub(crate) disjoint: bool,
    /// True to request the positions of the neighbors in their lists.
    pub(crate) positions: bool,
}

impl HopSettings<'_> {
    /// Groups the frontier by owner and prepares the request to each part.
    pub(crate) fn plan(&self, draft: &BatchBuilder, hop: usize, key: BatchKey) -> HopPlan {
        let part = self.part;
        let meta = part.meta();
        let width = words_per_row(self.disjoint, self.rule);
        let mut routes = Vec::with_capacity(meta.node_types.len());
        // The words sent for each frontier: its rows, and with them the draws and times of their seeds if the sampler needs these.
        let mut words = Vec::with_capacity(meta.node_types.len());
        for (t, node_type) in meta.node_types.iter().enumerate() {
            let from = hop.checked_sub(1).map_or(0, |last| draft.hop_offsets[t][last]) as usize;
            let to = draft.hop_offsets[t][hop] as usize;
            let numbers = draft.numbers.of_type(t);
            let of_type = Routes::new(&node_type.book, &numbers.nodes()[from..to]);
            words.push(if width == 1 { Vec::new() } else { self.words(&of_type, numbers, from, draft) });
            routes.push(of_type);
        }
        let request = |p: usize| {
            let mut sections = Vec::new();
            let mut rows = Vec::new();
            for edge_type in part.edge_type_ids() {
                let dst_type = part.edges(edge_type).dst_type.index();
                let fanout = self.fanouts[edge_type.index()];
                // Sections stay aligned with edge types.
                let mine: &[u32] = match fanout {
                    Fanout::Count(0) => &[],
                    _ if width == 1 => &routes[dst_type].rows[p],
                    _ => &words[dst_type][p],
                };
                rows.extend_from_slice(mine);
                sections.push(HopSection { edge_type, fanout, num_rows: (mine.len() / width) as u32 });
            }
            HopRequest {
                key,
                hop: hop as u16,
                rule: self.rule,
                disjoint: self.disjoint,
                positions: self.positions,
                sections,
                rows: bytes_of(rows),
            }
        };
        let requests = (0..meta.num_parts as usize).map(request).collect();
        let edge_types = part.edge_type_ids().map(|e| (part.edges(e).src_type, part.edges(e).dst_type)).collect();
        HopPlan { edge_types, routes, requests }
    }

    /// Returns the request words of each part's rows. `from` is the number of the first node of the frontier.
    fn words(&self, routes: &Routes, numbers: &dyn Numbering, from: usize, draft: &BatchBuilder) -> Vec<Vec<u32>> {
        let mut words = vec![Vec::new(); routes.rows.len()];
        let mut rows: Vec<_> = routes.rows.iter().map(|rows| rows.iter()).collect();
        for (position, &owner) in routes.owners.iter().enumerate() {
            let words = &mut words[owner as usize];
            let row = rows[owner as usize].next();
            let batch = numbers.batch_of(from + position);
            words.extend(row);
            if self.disjoint {
                words.push(draft.draws_of(batch));
            }
            if self.rule.temporal.is_some() {
                let time = draft.times[batch as usize] as u64;
                words.extend([time as u32, (time >> 32) as u32]);
            }
        }
        words
    }
}

//! Replies to `sample_hop`: validated once, then split into sections.

use crate::arrays::ids_in;
use crate::part::requests::{HopRequest, HopSection};
use crate::part::uniform_hop::Draw;
use bytes::Bytes;
use edgecut_graph::Meta;

/// Checks lengths, counts and ids of a reply to `request`, so that [`HopReply`] can split it without checks.
pub(crate) fn check_hop(meta: &Meta, request: &HopRequest, data: &Bytes) -> Result<(), String> {
    let mut rest = ids_in(data)?;
    for section in &request.sections {
        let edge_type = &meta.edge_types[section.edge_type.index()];
        let source = meta.node_types.iter().find(|t| t.name == edge_type.src_type);
        let num_sources = source.map_or(0, |t| t.book.num_nodes());
        let cut = || format!("the reply of {} bytes is shorter than its counts require", data.len());
        let (counts, others) = rest.split_at_checked(section.num_rows as usize).ok_or_else(cut)?;
        let draw = Draw { fanout: section.fanout, replace: request.rule.replace, key: 0 };
        if let Some(count) = counts.iter().find(|&&count| count as usize > draw.count(u32::MAX as usize)) {
            return Err(format!("the reply has {count} neighbors for a node, above the fan-out {}", section.fanout));
        }
        let edges: usize = counts.iter().map(|&count| count as usize).sum();
        let (neighbors, others) = others.split_at_checked(edges).ok_or_else(cut)?;
        if let Some(id) = neighbors.iter().find(|&&id| id as usize >= num_sources) {
            return Err(format!("the reply names node {id}, but the graph has {num_sources} nodes"));
        }
        let (_, others) = others.split_at_checked(if request.positions { edges } else { 0 }).ok_or_else(cut)?;
        rest = others;
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("the reply has {} bytes too many", rest.len() * 4)) }
}

/// A reply to `sample_hop`, split into sections. It has been checked or was made by this process.
pub(crate) struct HopReply<'a> {
    sections: Vec<SectionReply<'a>>,
}

/// The neighbors drawn for one section of a hop.
#[derive(Clone, Copy)]
pub(crate) struct SectionReply<'a> {
    /// The number of neighbors drawn for each row.
    pub(crate) counts: &'a [u32],
    /// Global ids of the neighbors of all rows, end to end.
    pub(crate) neighbors: &'a [u32],
    /// The position of each neighbor in the list of its row. Empty unless requested.
    pub(crate) positions: &'a [u32],
}

impl<'a> HopReply<'a> {
    /// Splits a reply whose lengths were checked.
    pub(crate) fn new(request: &HopRequest, data: &'a Bytes) -> Self {
        let mut rest = ids_in(data).unwrap_or_default();
        let cut = |section: &HopSection| {
            let (counts, others) = rest.split_at(section.num_rows as usize);
            let (neighbors, others) = others.split_at(counts.iter().map(|&count| count as usize).sum());
            let (positions, others) = others.split_at(if request.positions { neighbors.len() } else { 0 });
            rest = others;
            SectionReply { counts, neighbors, positions }
        };
        Self { sections: request.sections.iter().map(cut).collect() }
    }

    pub(crate) fn section(&self, index: usize) -> SectionReply<'a> {
        self.sections[index]
    }
}

impl<'a> SectionReply<'a> {
    /// Takes the next row. Returns its neighbors and, if requested, their positions.
    pub(crate) fn next_row(&mut self) -> (&'a [u32], &'a [u32]) {
        let Some((&count, counts)) = self.counts.split_first() else { return (&[], &[]) };
        let (mine, rest) = self.neighbors.split_at(count as usize);
        let (positions, others) = self.positions.split_at((count as usize).min(self.positions.len()));
        (self.counts, self.neighbors, self.positions) = (counts, rest, others);
        (mine, positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::bytes_of;
    use crate::batch_key::BatchKey;
    use crate::config::sampling_policy::SamplingPolicy;
    use edgecut_graph::{EdgeTypeId, Fanout};

    /// Returns the description of a graph of 10 nodes in 2 parts.
    fn meta() -> Meta {
        let node = serde_json::json!({"name": "node", "book": [0, 5, 10], "feature_dim": 0, "feature_dtype": "f32",
            "has_labels": false, "num_classes": 0, "split_sizes": [0, 0, 0]});
        let edge = serde_json::json!({"src_type": "node", "relation": "to", "dst_type": "node", "num_edges": 9});
        let part = serde_json::json!({"nodes": 5, "edges": 4, "train_nodes": 0, "halo_nodes": 1});
        serde_json::from_value(serde_json::json!({
            "format": "edgecut-partition", "version": 1, "dataset": "test", "num_parts": 2,
            "provenance": {"method": "random", "recursive": false, "seed": 0, "balance": [], "split": null,
                "to_undirected": false},
            "node_types": [node], "edge_types": [edge], "files": {},
            "report": {"parts": [part, part], "cut_edges": 0, "cut_fraction": 0.0, "remote_neighbor_fraction": 0.0},
        }))
        .expect("a description")
    }

    fn request(fanout: Fanout, replace: bool) -> HopRequest {
        let section = |num_rows| HopSection { edge_type: EdgeTypeId(0), fanout, num_rows };
        let sections = vec![section(2), section(1)];
        let rows = bytes_of(vec![0_u32, 1, 2]);
        HopRequest {
            key: BatchKey { seed: 0, epoch: 0, batch: 0 },
            hop: 0,
            rule: SamplingPolicy { replace, ..SamplingPolicy::default() },
            disjoint: false,
            positions: false,
            sections,
            rows,
        }
    }

    fn check(fanout: Fanout, words: &[u32]) -> Result<(), String> {
        check_hop(&meta(), &request(fanout, false), &bytes_of(words.to_vec()))
    }

    #[test]
    fn a_right_reply_is_cut_into_rows() {
        let words = [2, 1, 7, 8, 9, 1, 4];
        check(Fanout::Count(2), &words).expect("a right reply");
        let data = bytes_of(words.to_vec());
        let request = request(Fanout::Count(2), false);
        let reply = HopReply::new(&request, &data);
        let mut first = reply.section(0);
        let mut second = reply.section(1);
        let next = |section: &mut SectionReply<'_>| section.next_row().0.to_vec();
        assert_eq!([next(&mut first), next(&mut first), next(&mut first)], [vec![7, 8], vec![9], vec![]]);
        assert_eq!([next(&mut second), next(&mut second)], [vec![4], vec![]]);
    }

    #[test]
    fn rejects_every_kind_of_wrong_reply() {
        for (words, why) in [
            (&[][..], "shorter"),
            (&[2, 1, 7, 8, 9][..], "shorter"),
            (&[2, 1, 7, 8, 9, 1][..], "shorter"),
            (&[2, 1, 7, 8, 9, 1, 4, 4][..], "4 bytes too many"),
            (&[3, 0, 7, 8, 9, 1, 4][..], "above the fan-out 2"),
            (&[2, 1, 7, 8, 10, 1, 4][..], "names node 10"),
            (&[u32::MAX, u32::MAX, 0][..], "above the fan-out"),
        ] {
            let error = check(Fanout::Count(2), words).expect_err("a wrong reply");
            assert!(error.contains(why), "{words:?}: {error}");
        }
        let odd = Bytes::from_static(&[0; 7]);
        assert!(check_hop(&meta(), &request(Fanout::All, false), &odd).expect_err("a wrong reply").contains("7 bytes"));
        check(Fanout::All, &[3, 0, 7, 8, 9, 1, 4]).expect("no fan-out, no bound");
    }
}

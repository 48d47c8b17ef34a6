//! The directory that maps original ids to global ids, sharded over the parts.

use crate::arrays::ids_in;
use crate::part::requests::OriginalsRequest;
use bytes::Bytes;
use edgecut_graph::{NodeTypeId, Part, PartEdges};
use std::ops::Range;
use std::sync::OnceLock;

/// The division of a node type's original ids over the parts. Part `p` answers lookups of the `p`-th stretch of ids,
/// whichever parts own the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    num_nodes: u32,
    /// The number of ids per part, at least 1.
    size: u32,
}

impl Shares {
    /// Makes the division for a node type of a part's graph.
    pub(crate) fn new(part: &Part, node_type: NodeTypeId) -> Self {
        let num_nodes = part.meta().node_types[node_type.index()].book.num_nodes();
        Self::of(num_nodes as u32, part.meta().num_parts)
    }

    fn of(num_nodes: u32, num_parts: u32) -> Self {
        Self { num_nodes, size: num_nodes.div_ceil(num_parts.max(1)).max(1) }
    }

    /// Returns the part that answers lookups of an original id.
    pub(crate) fn owner(self, original: u32) -> usize {
        (original / self.size) as usize
    }

    /// Returns the original ids for which a part answers.
    pub(crate) fn range(self, part: u32) -> Range<u32> {
        let start = |part: u64| (u64::from(self.size) * part).min(u64::from(self.num_nodes)) as u32;
        start(u64::from(part))..start(u64::from(part) + 1)
    }
}

/// A part's share of the directory of one node type.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// The global id of each original id in the share.
    globals: OnceLock<Vec<u32>>,
    /// Inclusive prefix sums of the in-degrees of the share's nodes, over all edge types.
    degree_sums: OnceLock<Vec<u64>>,
    /// Set once all parts have filled their shares.
    complete: OnceLock<()>,
    /// By part, the sum of the in-degrees of all nodes up to the end of its share. Set once all parts have their sums.
    totals: OnceLock<Vec<u64>>,
}

impl Directory {
    pub(crate) fn globals(&self) -> Option<&[u32]> {
        self.globals.get().map(Vec::as_slice)
    }

    pub(crate) fn degree_sums(&self) -> Option<&[u64]> {
        self.degree_sums.get().map(Vec::as_slice)
    }

    /// Stores the share. Values that are already set are kept, since they are equal.
    pub(crate) fn fill(&self, share: Share) {
        let Share { globals, degrees } = share;
        if let Some(degrees) = degrees {
            let mut sum = 0;
            let mut up_to = |degree: u32| {
                sum += u64::from(degree);
                sum
            };
            let _ = self.degree_sums.set(degrees.into_iter().map(&mut up_to).collect());
        }
        let _ = self.globals.set(globals);
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.complete.get().is_some()
    }

    pub(crate) fn set_complete(&self) {
        let _ = self.complete.set(());
    }

    pub(crate) fn totals(&self) -> Option<&[u64]> {
        self.totals.get().map(Vec::as_slice)
    }

    pub(crate) fn set_totals(&self, totals: Vec<u64>) {
        let _ = self.totals.set(totals);
    }
}

/// A share that is being filled.
#[derive(Debug)]
pub(crate) struct Share {
    globals: Vec<u32>,
    degrees: Option<Vec<u32>>,
}

impl Share {
    pub(crate) fn new(len: usize, with_degrees: bool) -> Self {
        Self { globals: vec![u32::MAX; len], degrees: with_degrees.then(|| vec![0; len]) }
    }

    /// Stores the nodes of one page. `range` is the range of the share, `owned` the global ids of the part that sent
    /// the page.
    pub(crate) fn place(&mut self, page: &OriginalsPage<'_>, range: &Range<u32>, owned: &Range<u32>) {
        for (i, &original) in page.originals.iter().enumerate() {
            let at = (original - range.start) as usize;
            self.globals[at] = owned.start + page.rows[i];
            if let Some(degrees) = &mut self.degrees {
                degrees[at] = page.degrees[i];
            }
        }
    }

    /// Returns the first original id that no part has sent, relative to the start of the share.
    pub(crate) fn missing(&self) -> Option<usize> {
        self.globals.iter().position(|&global| global == u32::MAX)
    }
}

/// A reply to [`OriginalsRequest`], which may hold the first nodes only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginalsPage<'a> {
    /// The number of nodes in the requested range that the part owns, including those of later pages.
    pub(crate) num_left: usize,
    /// Original ids, ascending.
    pub(crate) originals: &'a [u32],
    /// Their rows in the part.
    pub(crate) rows: &'a [u32],
    /// In-degrees of the nodes. Empty unless requested.
    pub(crate) degrees: &'a [u32],
}

impl<'a> OriginalsPage<'a> {
    /// Validates and splits a reply of a part that owns `num_rows` nodes of the type.
    pub(crate) fn read(data: &'a Bytes, request: &OriginalsRequest, num_rows: usize) -> Result<Self, String> {
        let words = ids_in(data)?;
        let Some((&num_left, rest)) = words.split_first() else {
            return Err("the reply is empty".into());
        };
        let width = request.words_per_row();
        let count = rest.len() / width;
        let (originals, rest_of_rows) = rest.split_at(count);
        let (rows, degrees) = rest_of_rows.split_at(count);
        let num_left = num_left as usize;
        let is_in_range = originals.iter().all(|id| (request.start..request.end).contains(id));
        let is_ascending = originals.windows(2).all(|pair| pair[0] < pair[1]);
        let fits = rows.iter().all(|&row| (row as usize) < num_rows) && originals.len() <= num_left;
        let is_whole = rest.len().is_multiple_of(width) && (num_left == 0) == originals.is_empty();
        if !(is_in_range && is_ascending && fits && is_whole) {
            let start = request.start;
            let end = request.end;
            return Err(format!("the reply is not a valid list of the part's original ids from {start} to {end}"));
        }
        Ok(Self { num_left, originals, rows, degrees })
    }
}

/// Returns the in-edges of a part's nodes of one type, by edge type.
pub(crate) fn edges_into(part: &Part, node_type: NodeTypeId) -> Vec<&PartEdges> {
    part.edge_type_ids().map(|e| part.edges(e)).filter(|edges| edges.dst_type == node_type).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrays::bytes_of;

    #[test]
    fn every_original_id_is_in_the_share_of_its_owner() {
        for num_nodes in [0, 1, 2, 7, 64, 1000, u32::MAX] {
            for num_parts in [1, 2, 3, 7, 512] {
                let shares = Shares::of(num_nodes, num_parts);
                let mut end = 0;
                for part in 0..num_parts {
                    let range = shares.range(part);
                    assert!(range.start <= range.end && (range.start == end || range.is_empty()));
                    for id in range.clone().take(2).chain(range.end.checked_sub(1).filter(|id| range.contains(id))) {
                        assert_eq!(shares.owner(id), part as usize, "{id} of {num_nodes} in {num_parts}");
                    }
                    end = end.max(range.end);
                }
                assert_eq!(end, num_nodes);
            }
        }
    }

    #[test]
    fn replies_that_are_no_list_of_original_ids_are_refused() {
        let request = OriginalsRequest { node_type: NodeTypeId(0), start: 10, end: 20, max_rows: 4, degrees: true };
        let read = |words: &[u32]| {
            let data = bytes_of(words.to_vec());
            OriginalsPage::read(&data, &request, 5).map(|page| page.originals.to_vec())
        };
        assert_eq!(read(&[2, 10, 19, 4, 0, 7, 7]), Ok(vec![10, 19]));
        assert_eq!(read(&[0]), Ok(vec![]));
        let wrong: [&[u32]; 8] = [
            &[],
            // No nodes although some are left, and more nodes than are left.
            &[1],
            &[1, 10, 11, 0, 1, 7, 7],
            // Ids outside of the range on both sides, and ids out of order.
            &[1, 9, 0, 7],
            &[1, 20, 0, 7],
            &[2, 12, 11, 0, 1, 7, 7],
            // A row that the part does not have, and a missing degree.
            &[2, 10, 19, 4, 5, 7, 7],
            &[2, 10, 19, 0, 1, 7],
        ];
        for words in wrong {
            assert!(read(words).is_err(), "{words:?}");
        }
    }
}

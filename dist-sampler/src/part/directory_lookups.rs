//! Lookups in this process's share of the directory.

use crate::arrays::{bytes_of, ids_in};
use crate::part::directory::{Shares, edges_into};
use crate::part::local_part::LocalPart;
use crate::part::node_attributes::Degrees;
use crate::part::requests::{LookUpBy, LookUpRequest, OriginalsRequest, Refusal};
use bytes::Bytes;
use edgecut_graph::PartEdges;

impl LocalPart {
    /// Returns the original ids in a range that this part owns, in the layout of
    /// [`ArrayReply`](crate::rpc::messages::ArrayReply).
    pub(crate) fn originals(&self, request: &OriginalsRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        self.check_node_type(request.node_type)?;
        let nodes = self.part.nodes(request.node_type);
        let first = nodes.num_below(request.start);
        let end = nodes.num_below(request.end).max(first);
        let fitting = (max_bytes / size_of::<u32>()).saturating_sub(1) / request.words_per_row();
        let rows = (first..end).take(fitting.min(request.max_rows as usize).max(1)).map(|at| nodes.row_at(at));
        let mut words = Vec::with_capacity(1 + rows.len() * request.words_per_row());
        words.push((end - first) as u32);
        words.extend(rows.clone().map(|row| nodes.original_ids[row]));
        words.extend(rows.clone().map(|row| row as u32));
        if request.degrees {
            let degrees = Degrees::new(&self.part, request.node_type);
            words.extend(rows.map(|row| degrees.of(row)));
        }
        Ok(bytes_of(words))
    }

    /// Returns the global ids of keys in this part's share of the directory.
    pub(crate) fn look_up(&self, request: &LookUpRequest) -> Result<Bytes, Refusal> {
        self.check_node_type(request.node_type)?;
        let words = ids_in(&request.keys).map_err(Refusal::Invalid)?;
        let part = &*self.part;
        let directory = self.directory(request.node_type);
        let absent = || Refusal::Invalid("the directory of original ids does not exist yet".into());
        let found: Option<Vec<u32>> = match request.by {
            LookUpBy::OriginalId if part.has_original_order(request.node_type) => {
                words.iter().map(|&id| part.find_original(request.node_type, id).map(|node| node.0)).collect()
            }
            LookUpBy::OriginalId => {
                let globals = directory.globals().ok_or_else(absent)?;
                let start = Shares::new(part, request.node_type).range(part.id().0).start;
                words.iter().map(|&id| globals.get(id.checked_sub(start)? as usize).copied()).collect()
            }
            LookUpBy::InEdge if part.has_original_order(request.node_type) => {
                let edges = edges_into(part, request.node_type);
                in_edges_of(words).map(|in_edge| row_of_in_edge(&edges, in_edge)).collect()
            }
            LookUpBy::InEdge => {
                let sums = directory.degree_sums().ok_or_else(absent)?;
                let globals = directory.globals().ok_or_else(absent)?;
                in_edges_of(words)
                    .map(|in_edge| globals.get(sums.partition_point(|&sum| sum <= in_edge)).copied())
                    .collect()
            }
        };
        let found = found.ok_or_else(|| Refusal::Invalid("a key is not in the part's share of the nodes".into()))?;
        Ok(bytes_of(found))
    }
}

/// Decodes numbers of in-edges from their low and high halves.
fn in_edges_of(words: &[u32]) -> impl Iterator<Item = u64> {
    words.chunks_exact(2).map(|halves| u64::from(halves[1]) << 32 | u64::from(halves[0]))
}

/// Finds the row that holds the in-edge with this number, counting in-edges row by row over all edge types. The offsets
/// of the edges already are prefix sums of degrees, so an only part in the original order needs no directory.
fn row_of_in_edge(edges: &[&PartEdges], in_edge: u64) -> Option<u32> {
    let num_rows = edges.first()?.csc.num_rows();
    let sum_up_to = |row: usize| edges.iter().map(|edges| edges.csc.indptr()[row + 1]).sum::<u64>();
    let mut low = 0;
    let mut high = num_rows;
    // A binary search for the first row whose prefix sum exceeds the number.
    while low < high {
        let middle = low + (high - low) / 2;
        if sum_up_to(middle) <= in_edge {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    (low < num_rows).then_some(low as u32)
}

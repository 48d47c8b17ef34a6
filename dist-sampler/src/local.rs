//! Answers to requests about the part that this process holds.

use crate::config::Fanout;
use crate::constrained::{ConstrainedDraw, Query};
use crate::directory::Directory;
use crate::hub_index::{HubBudget, HubIndex};
use crate::kernel::{self, Draw};
use crate::rule::TimeAttr;
use crate::transport::{bytes_of, ids_in};
use crate::wire::{
    FetchEdgesRequest, FetchRequest, FindRequest, HasEdgesRequest, HopRequest, HopSection, LookUpRequest, Refusal,
    Wanted,
};
use crate::workers::{LINE_BYTES, ON_POOL};
use bytes::Bytes;
use edgecut_graph::rng::combine;
use edgecut_graph::{
    Buffer, EdgeTypeId, Features, HeldOutEdges, HopError, HopKernel, Meta, NodeTypeId, Part, PartEdges, PlainHop,
};
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Pairs of source and destination, as global ids.
type Pairs = FxHashSet<(u32, u32)>;

/// The part that this process holds.
#[derive(Clone)]
pub(crate) struct LocalPart {
    pub(crate) part: Arc<Part>,
    /// By edge type, the held-out edges as (source, destination). Built on first use.
    held_out: Arc<Vec<OnceLock<Pairs>>>,
    /// By edge type.
    hubs: Arc<Vec<HubIndex>>,
    /// The kernel that draws plain hops instead of the CPU, for the edge types that it accepts.
    kernel: Arc<OnceLock<Arc<dyn HopKernel>>>,
    /// By node type.
    pub(crate) directories: Arc<Vec<Directory>>,
}

impl LocalPart {
    /// Serves `part`. Sorted copies of the in-neighbors of hubs take up to `max_hub_index_bytes`.
    pub(crate) fn new(part: Arc<Part>, max_hub_index_bytes: usize) -> Self {
        let held_out = part.edge_type_ids().map(|_| OnceLock::new()).collect();
        let budget = Arc::new(HubBudget::new(max_hub_index_bytes));
        let hubs = part.edge_type_ids().map(|_| HubIndex::new(budget.clone())).collect();
        let directories = part.meta().node_types.iter().map(|_| Directory::default()).collect();
        Self {
            part,
            held_out: Arc::new(held_out),
            hubs: Arc::new(hubs),
            kernel: Arc::default(),
            directories: Arc::new(directories),
        }
    }

    /// Sets the kernel that draws the plain hops it accepts. Returns false if a kernel is already set.
    pub(crate) fn draw_with(&self, kernel: Arc<dyn HopKernel>) -> bool {
        self.kernel.set(kernel).is_ok()
    }

    /// Returns the kernel that draws a section of a request, or `None` if the CPU draws it.
    fn kernel_for(&self, request: &HopRequest, section: &HopSection) -> Option<&dyn HopKernel> {
        let num_rows = section.num_rows as usize;
        let kernel = self.kernel.get().filter(|_| request.is_plain() && num_rows > 0)?;
        kernel.takes(section.edge_type, num_rows).then_some(&**kernel)
    }

    /// Estimates the cache lines that a hop reads. Neighbor lists and the drawn entries are at random addresses, so
    /// each counts as a line of its own.
    pub(crate) fn lines_of_hop(&self, request: &HopRequest) -> usize {
        let lines = |section: &HopSection| match section.fanout() {
            _ if section.num_rows == 0 => 0,
            _ if self.hop_may_wait_for_disk(section.edge_type) => ON_POOL,
            // Weighted and temporal draws read the attributes of all neighbors.
            _ if !request.is_plain() => ON_POOL,
            // The kernel waits for a device.
            _ if self.kernel_for(request, section).is_some() => ON_POOL,
            Fanout::All => ON_POOL,
            Fanout::Count(count) => (section.num_rows as usize).saturating_mul(2 + count as usize),
        };
        request.sections.iter().map(lines).fold(0, usize::saturating_add)
    }

    /// Returns whether the plain kernel reads a mapped file for an edge type: the edges, or the original ids that key
    /// its draws.
    fn hop_may_wait_for_disk(&self, edge_type: EdgeTypeId) -> bool {
        if edge_type.index() >= self.part.meta().edge_types.len() {
            return false;
        }
        let edges = self.part.edges(edge_type);
        edges.csc.is_mapped() || self.part.nodes(edges.dst_type).original_ids.is_mapped()
    }

    /// Estimates the cache lines that the attributes of rows take. Returns [`ON_POOL`] if reading them may wait for the
    /// disk.
    pub(crate) fn lines_of_fetch(&self, node_type: NodeTypeId, wanted: Wanted, num_rows: usize) -> usize {
        let Some(t) = self.part.meta().node_types.get(node_type.index()) else { return 0 };
        if self.fetch_may_wait_for_disk(node_type, wanted) {
            return ON_POOL;
        }
        let row_lines = bytes_per_row(wanted, t.feature_dim * t.feature_dtype.size()).div_ceil(LINE_BYTES);
        num_rows.saturating_mul(row_lines)
    }

    fn fetch_may_wait_for_disk(&self, node_type: NodeTypeId, wanted: Wanted) -> bool {
        let nodes = self.part.nodes(node_type);
        (wanted.labels && nodes.labels.as_ref().is_some_and(Buffer::is_mapped))
            || (wanted.times && nodes.times.as_ref().is_some_and(Buffer::is_mapped))
            || (wanted.original_ids && nodes.original_ids.is_mapped())
            || (wanted.degrees && Degrees::new(&self.part, node_type).is_mapped())
            || (wanted.features && nodes.features.as_ref().is_some_and(Features::is_mapped))
    }

    /// Estimates the cache lines that a search for original ids reads. Returns [`ON_POOL`] if reading them may wait for
    /// the disk.
    pub(crate) fn lines_of_find(&self, node_type: NodeTypeId, num_ids: usize) -> usize {
        let is_node_type = node_type.index() < self.part.meta().node_types.len();
        if is_node_type && self.part.nodes(node_type).original_ids.is_mapped() {
            return ON_POOL;
        }
        // A binary search reads about one line per step.
        num_ids.saturating_mul(u32::BITS as usize)
    }

    /// Estimates the cache lines that a lookup of keys reads. Returns [`ON_POOL`] if reading them may wait for the
    /// disk. A graph of one part has no directory in memory and reads mapped files.
    pub(crate) fn lines_of_look_up(&self, request: &LookUpRequest) -> usize {
        if self.part.meta().num_parts == 1 {
            return ON_POOL;
        }
        // A binary search reads about one line per step.
        (request.keys.len() / size_of::<u32>()).saturating_mul(u32::BITS as usize)
    }

    /// Answers a hop request. Checks the request first, and refuses it if the reply would exceed `max_bytes`. `drawn`
    /// receives the time of each section.
    pub(crate) fn sample_hop(
        &self,
        request: &HopRequest,
        max_bytes: usize,
        drawn: impl Fn(EdgeTypeId, Duration),
    ) -> Result<Bytes, Refusal> {
        let rows = as_ids(&request.rows)?;
        let mut jobs = Vec::with_capacity(request.sections.len());
        let mut rest = rows;
        let words_per_row = request.words_per_row();
        for section in &request.sections {
            let words = (section.num_rows as usize).saturating_mul(words_per_row);
            let Some((mine, others)) = rest.split_at_checked(words) else {
                return Err(Refusal::Invalid("the request has fewer rows than its sections declare".into()));
            };
            let edges = self.edges(section.edge_type)?;
            check_rows(mine.iter().step_by(words_per_row), edges.csc.num_rows())?;
            // A section without rows draws nothing, so its edge type may lack weights or times.
            if section.num_rows > 0 {
                check_attributes(edges, request, self.part.meta())?;
            }
            if section.fanout == Some(0) {
                return Err(Refusal::Invalid("the request has a fan-out of 0".into()));
            }
            jobs.push((edges, mine, section));
            rest = others;
        }
        if !rest.is_empty() {
            return Err(Refusal::Invalid("the request has more rows than its sections declare".into()));
        }
        let mut out = Vec::new();
        for (edges, rows, section) in jobs {
            let original_ids = &self.part.nodes(edges.dst_type).original_ids[..];
            let key = key_of(request, section);
            let fanout = section.fanout();
            let max_len = max_bytes / size_of::<u32>();
            let start = Instant::now();
            let result = if let Some(kernel) = self.kernel_for(request, section) {
                let hop = PlainHop {
                    edge_type: section.edge_type,
                    rows,
                    fanout: section.fanout,
                    replace: request.rule.replace,
                    key,
                };
                draw_elsewhere(kernel, &hop, &mut out, max_len)
            } else if request.is_plain() {
                let draw = Draw { fanout, replace: request.rule.replace, key };
                let drawn = kernel::sample_hop(&edges.csc, original_ids, rows, &draw, &mut out, max_len);
                drawn.map_err(|kernel::TooLarge| Refusal::TooLarge)
            } else {
                let queries: Vec<Query> = rows.chunks_exact(words_per_row).map(|words| request.query(words)).collect();
                let rule = request.rule;
                let positions = request.positions;
                let draw = ConstrainedDraw { edges, original_ids, fanout, rule, key, positions };
                draw.sample_hop(&queries, &mut out, max_len).map_err(|kernel::TooLarge| Refusal::TooLarge)
            };
            drawn(section.edge_type, start.elapsed());
            result?;
        }
        Ok(bytes_of(out))
    }

    /// Returns attributes of rows, in the layout of [`ArrayReply`](crate::wire::ArrayReply).
    pub(crate) fn fetch(&self, request: &FetchRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let rows = as_ids(&request.rows)?;
        let Some(t) = self.part.meta().node_types.get(request.node_type.index()) else {
            return Err(Refusal::Invalid(format!("there is no node type {}", request.node_type.0)));
        };
        let nodes = self.part.nodes(request.node_type);
        check_rows(rows.iter(), nodes.original_ids.len())?;
        let feature_bytes = t.feature_dim * t.feature_dtype.size();
        let per_row = bytes_per_row(request.wanted, feature_bytes);
        let Some(bytes) = per_row.checked_mul(rows.len()).filter(|&bytes| bytes <= max_bytes) else {
            return Err(Refusal::TooLarge);
        };
        let mut out = Vec::with_capacity(bytes);
        if request.wanted.labels {
            let labels = nodes.labels.as_deref().ok_or_else(|| Refusal::Invalid("the graph has no labels".into()))?;
            append(&mut out, rows, |row| labels[row]);
        }
        if request.wanted.times {
            let times = nodes.times.as_deref().ok_or_else(|| Refusal::Invalid("the graph has no times".into()))?;
            append(&mut out, rows, |row| times[row]);
        }
        if request.wanted.original_ids {
            append(&mut out, rows, |row| nodes.original_ids[row]);
        }
        if request.wanted.degrees {
            let degrees = Degrees::new(&self.part, request.node_type);
            append(&mut out, rows, |row| degrees.of(row));
        }
        if request.wanted.features {
            let features =
                nodes.features.as_ref().ok_or_else(|| Refusal::Invalid("the graph has no features".into()))?;
            features.append_rows(rows, &mut out);
        }
        Ok(out.into())
    }

    /// Returns the global ids of original ids, `u32::MAX` for nodes that this part does not own.
    pub(crate) fn find(&self, request: &FindRequest) -> Result<Bytes, Refusal> {
        if request.node_type.index() >= self.part.meta().node_types.len() {
            return Err(Refusal::Invalid(format!("there is no node type {}", request.node_type.0)));
        }
        let find = |&id: &u32| self.part.find_original(request.node_type, id).map_or(u32::MAX, |node| node.0);
        Ok(bytes_of(as_ids(&request.originals)?.iter().map(find).collect::<Vec<u32>>()))
    }

    fn fetch_edges_may_wait_for_disk(&self, request: &FetchEdgesRequest) -> bool {
        let edges = self.part.edges(request.edge_type);
        let attributes = &edges.attributes;
        edges.csc.is_mapped()
            || (request.wanted.times && attributes.times.as_ref().is_some_and(Buffer::is_mapped))
            || (request.wanted.weights && attributes.weights.as_ref().is_some_and(Buffer::is_mapped))
            || (request.wanted.features && attributes.features.as_ref().is_some_and(Features::is_mapped))
    }

    /// Estimates the cache lines that attributes of edges take. Returns [`ON_POOL`] if reading them may wait for the
    /// disk.
    pub(crate) fn lines_of_fetch_edges(&self, request: &FetchEdgesRequest) -> usize {
        let types = &self.part.meta().edge_types;
        let Some(t) = types.get(request.edge_type.index()) else { return 0 };
        if self.fetch_edges_may_wait_for_disk(request) {
            return ON_POOL;
        }
        let dim = t.feature_dim * t.feature_dtype.size();
        (request.edges.len() / (2 * size_of::<u32>())).saturating_mul(2 + dim.div_ceil(LINE_BYTES))
    }

    /// Returns attributes of edges, in the layout of [`ArrayReply`](crate::wire::ArrayReply).
    pub(crate) fn fetch_edges(&self, request: &FetchEdgesRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let words = as_ids(&request.edges)?;
        let edges = self.edges(request.edge_type)?;
        check_rows(words.iter().step_by(2), edges.csc.num_rows())?;
        let mut at = Vec::with_capacity(words.len() / 2);
        for pair in words.chunks_exact(2) {
            let row = pair[0] as usize;
            let position = pair[1] as usize;
            if position >= edges.csc.degree(row) {
                return Err(Refusal::Invalid(format!(
                    "in-edge {position} of row {row} was requested, but the row has {} in-edges",
                    edges.csc.degree(row)
                )));
            }
            at.push(edges.csc.indptr()[row] as usize + position);
        }
        let absent = || Refusal::Invalid("the edges lack a requested attribute".into());
        let attributes = &edges.attributes;
        let features = attributes.features.as_ref().map_or(0, |f| f.dim() * f.dtype().size());
        if at.len().saturating_mul(request.wanted.bytes_per_edge(features)) > max_bytes {
            return Err(Refusal::TooLarge);
        }
        let mut out = Vec::new();
        if request.wanted.times {
            let times = attributes.times.as_ref().ok_or_else(absent)?;
            at.iter().for_each(|&at| out.extend_from_slice(&times[at].to_le_bytes()));
        }
        if request.wanted.weights {
            let weights = attributes.weights.as_ref().ok_or_else(absent)?;
            at.iter().for_each(|&at| out.extend_from_slice(&weights[at].to_le_bytes()));
        }
        if request.wanted.features {
            let features = attributes.features.as_ref().ok_or_else(absent)?;
            at.iter().for_each(|&at| out.extend_from_slice(features.row_bytes(at)));
        }
        Ok(out.into())
    }

    /// Returns one byte per pair: 1 if the pair is an edge into a node of this part, else 0.
    pub(crate) fn has_edges(&self, request: &HasEdgesRequest) -> Result<Bytes, Refusal> {
        let pairs = as_ids(&request.pairs)?;
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

    fn edges(&self, edge_type: EdgeTypeId) -> Result<&PartEdges, Refusal> {
        match self.part.meta().edge_types.len() {
            types if edge_type.index() < types => Ok(self.part.edges(edge_type)),
            types => Err(Refusal::Invalid(format!("there is no edge type {}, the graph has {types}", edge_type.0))),
        }
    }
}

/// In-degrees of the nodes of one type, over all edge types that enter it.
pub(crate) struct Degrees<'a>(Vec<&'a PartEdges>);

impl<'a> Degrees<'a> {
    pub(crate) fn new(part: &'a Part, node_type: NodeTypeId) -> Self {
        Self(part.edge_type_ids().map(|e| part.edges(e)).filter(|e| e.dst_type == node_type).collect())
    }

    fn is_mapped(&self) -> bool {
        self.0.iter().any(|edges| edges.csc.is_mapped())
    }

    pub(crate) fn of(&self, row: usize) -> u32 {
        let degree: usize = self.0.iter().map(|edges| edges.csc.degree(row)).sum();
        u32::try_from(degree).unwrap_or(u32::MAX)
    }
}

/// Returns the bytes of a row in a reply to `fetch`, over all wanted attributes.
pub(crate) fn bytes_per_row(wanted: Wanted, feature_bytes: usize) -> usize {
    let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
    size(wanted.labels, 8)
        + size(wanted.times, 8)
        + size(wanted.original_ids, 4)
        + size(wanted.degrees, 4)
        + size(wanted.features, feature_bytes)
}

/// Draws a hop with `kernel`. Checks the length of the result, since a wrong length would shift the sections that
/// follow.
fn draw_elsewhere(
    kernel: &dyn HopKernel,
    hop: &PlainHop<'_>,
    out: &mut Vec<u32>,
    max_len: usize,
) -> Result<(), Refusal> {
    let start = out.len();
    kernel.sample_hop(hop, max_len, out).map_err(|error| match error {
        HopError::TooLarge => Refusal::TooLarge,
        error => Refusal::Failed(with_causes(&error)),
    })?;
    let (counts, neighbors) = out.get(start..).unwrap_or_default().split_at_checked(hop.rows.len()).unwrap_or_default();
    let said: usize = counts.iter().map(|&count| count as usize).sum();
    if counts.len() != hop.rows.len() || said != neighbors.len() {
        let rows = hop.rows.len();
        let words = out.len().saturating_sub(start);
        return Err(Refusal::Failed(format!(
            "the device returned {words} words for a hop of {rows} rows, which differs from its counts"
        )));
    }
    Ok(())
}

/// Formats an error and its causes in one line.
fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn key_of(request: &HopRequest, section: &HopSection) -> u64 {
    combine(combine(request.stream, u64::from(request.hop)), u64::from(section.edge_type.0))
}

/// Refuses a request for weights or times that the edges do not have. A sampler checks its own graph, so such a request
/// comes from a process with a different graph.
fn check_attributes(edges: &PartEdges, request: &HopRequest, meta: &Meta) -> Result<(), Refusal> {
    let rule = request.rule;
    if rule.weighted && edges.attributes.weights.is_none() {
        return Err(Refusal::Invalid(format!("edges of dataset {} have no weights", meta.dataset)));
    }
    let by_edge = rule.temporal.is_some_and(|temporal| temporal.attr == TimeAttr::EdgeTime);
    if by_edge && edges.attributes.times.is_none() {
        return Err(Refusal::Invalid(format!("edges of dataset {} have no times", meta.dataset)));
    }
    Ok(())
}

fn as_ids(bytes: &Bytes) -> Result<&[u32], Refusal> {
    ids_in(bytes).map_err(Refusal::Invalid)
}

fn check_rows<'a>(mut rows: impl Iterator<Item = &'a u32>, bound: usize) -> Result<(), Refusal> {
    match rows.find(|&&row| row as usize >= bound) {
        Some(row) => Err(Refusal::Invalid(format!("row {row} was requested, but the part has {bound} rows"))),
        None => Ok(()),
    }
}

/// Appends one value per row.
fn append<T: bytemuck::Pod>(out: &mut Vec<u8>, rows: &[u32], value: impl Fn(usize) -> T) {
    for &row in rows {
        out.extend_from_slice(bytemuck::bytes_of(&value(row as usize)));
    }
}

#[cfg(test)]
mod tests;

//! Answers questions about the part that this process holds.

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

/// Sources and destinations, global ids.
type Pairs = FxHashSet<(u32, u32)>;

/// The process's own part.
#[derive(Clone)]
pub(crate) struct LocalPart {
    pub(crate) part: Arc<Part>,
    /// By edge type the held-out edges as (source, destination), made when they are first asked for.
    held_out: Arc<Vec<OnceLock<Pairs>>>,
    /// By edge type.
    hubs: Arc<Vec<HubIndex>>,
    /// What draws plain hops instead of this process's CPU, for the edge types that it takes.
    kernel: Arc<OnceLock<Arc<dyn HopKernel>>>,
    /// By node type.
    pub(crate) directories: Arc<Vec<Directory>>,
}

impl LocalPart {
    /// Serves `part`, with sorted copies of the in-neighbors of hubs in up to `max_hub_index_bytes`.
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

    /// Lets `kernel` draw the plain hops that it takes; false if there is one already.
    pub(crate) fn draw_with(&self, kernel: Arc<dyn HopKernel>) -> bool {
        self.kernel.set(kernel).is_ok()
    }

    /// What draws a section of a request, if it is not the CPU.
    fn kernel_for(&self, request: &HopRequest, section: &HopSection) -> Option<&dyn HopKernel> {
        let num_rows = section.num_rows as usize;
        let kernel = self.kernel.get().filter(|_| request.is_plain() && num_rows > 0)?;
        kernel.takes(section.edge_type, num_rows).then_some(&**kernel)
    }

    /// About how many cache lines a hop reads: the neighbors of a node are anywhere, each drawn one is somewhere else.
    pub(crate) fn lines_of_hop(&self, request: &HopRequest) -> usize {
        let lines = |section: &HopSection| match section.fanout() {
            _ if section.num_rows == 0 => 0,
            _ if self.hop_may_wait_for_disk(section.edge_type) => ON_POOL,
            // Weights and times are read of all neighbors.
            _ if !request.is_plain() => ON_POOL,
            // A device is waited for.
            _ if self.kernel_for(request, section).is_some() => ON_POOL,
            Fanout::All => ON_POOL,
            Fanout::Count(count) => (section.num_rows as usize).saturating_mul(2 + count as usize),
        };
        request.sections.iter().map(lines).fold(0, usize::saturating_add)
    }

    /// Reports whether the plain kernel reads a mapped file: edges, or the original ids by which it draws.
    fn hop_may_wait_for_disk(&self, edge_type: EdgeTypeId) -> bool {
        if edge_type.index() >= self.part.meta().edge_types.len() {
            return false;
        }
        let edges = self.part.edges(edge_type);
        edges.csc.is_mapped() || self.part.nodes(edges.dst_type).original_ids.is_mapped()
    }

    /// About how many cache lines the attributes of rows take; [`ON_POOL`] if reading them may wait for the disk.
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

    /// About how many cache lines are read to find original ids; [`ON_POOL`] if reading them may wait for the disk.
    pub(crate) fn lines_of_find(&self, node_type: NodeTypeId, num_ids: usize) -> usize {
        let is_node_type = node_type.index() < self.part.meta().node_types.len();
        if is_node_type && self.part.nodes(node_type).original_ids.is_mapped() {
            return ON_POOL;
        }
        // A binary search reads a line a step.
        num_ids.saturating_mul(u32::BITS as usize)
    }

    /// About how many cache lines are read to look up keys; [`ON_POOL`] if reading them may wait for the disk, as it may
    /// where the graph is one part and there is no directory in memory.
    pub(crate) fn lines_of_look_up(&self, request: &LookUpRequest) -> usize {
        if self.part.meta().num_parts == 1 {
            return ON_POOL;
        }
        // A binary search reads a line a step.
        (request.keys.len() / size_of::<u32>()).saturating_mul(u32::BITS as usize)
    }

    /// Answers a peer: checks the request, and refuses a reply of more than `max_bytes`. `drawn` is told how long each
    /// section took.
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
                return Err(Refusal::Invalid("the request has fewer rows than its sections say".into()));
            };
            let edges = self.edges(section.edge_type)?;
            check_rows(mine.iter().step_by(words_per_row), edges.csc.num_rows())?;
            // Of an edge type of which nothing is drawn there are no rows, and it may lack what the others have.
            if section.num_rows > 0 {
                check_attributes(edges, request, self.part.meta())?;
            }
            if section.fanout == Some(0) {
                return Err(Refusal::Invalid("a fan-out of 0".into()));
            }
            jobs.push((edges, mine, section));
            rest = others;
        }
        if !rest.is_empty() {
            return Err(Refusal::Invalid("the request has more rows than its sections say".into()));
        }
        let mut out = Vec::new();
        for (edges, rows, section) in jobs {
            let original_ids = &self.part.nodes(edges.dst_type).original_ids[..];
            let (key, fanout, max_len) = (key_of(request, section), section.fanout(), max_bytes / size_of::<u32>());
            let start = Instant::now();
            let result = if let Some(kernel) = self.kernel_for(request, section) {
                let (edge_type, fanout, replace) = (section.edge_type, section.fanout, request.rule.replace);
                let hop = PlainHop { edge_type, rows, fanout, replace, key };
                draw_elsewhere(kernel, &hop, &mut out, max_len)
            } else if request.is_plain() {
                let draw = Draw { fanout, replace: request.rule.replace, key };
                let drawn = kernel::sample_hop(&edges.csc, original_ids, rows, &draw, &mut out, max_len);
                drawn.map_err(|kernel::TooLarge| Refusal::TooLarge)
            } else {
                let queries: Vec<Query> = rows.chunks_exact(words_per_row).map(|words| request.query(words)).collect();
                let (rule, positions) = (request.rule, request.positions);
                let draw = ConstrainedDraw { edges, original_ids, fanout, rule, key, positions };
                draw.sample_hop(&queries, &mut out, max_len).map_err(|kernel::TooLarge| Refusal::TooLarge)
            };
            drawn(section.edge_type, start.elapsed());
            result?;
        }
        Ok(bytes_of(out))
    }

    /// Attributes of rows, in the layout of [`ArrayReply`](crate::wire::ArrayReply).
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

    /// Global ids of original ids, `u32::MAX` where another part owns the node or there is none.
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

    /// About how many cache lines attributes of edges take; [`ON_POOL`] if reading them may wait for the disk.
    pub(crate) fn lines_of_fetch_edges(&self, request: &FetchEdgesRequest) -> usize {
        let types = &self.part.meta().edge_types;
        let Some(t) = types.get(request.edge_type.index()) else { return 0 };
        if self.fetch_edges_may_wait_for_disk(request) {
            return ON_POOL;
        }
        let dim = t.feature_dim * t.feature_dtype.size();
        (request.edges.len() / (2 * size_of::<u32>())).saturating_mul(2 + dim.div_ceil(LINE_BYTES))
    }

    /// Attributes of edges, in the layout of [`ArrayReply`](crate::wire::ArrayReply).
    pub(crate) fn fetch_edges(&self, request: &FetchEdgesRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let words = as_ids(&request.edges)?;
        let edges = self.edges(request.edge_type)?;
        check_rows(words.iter().step_by(2), edges.csc.num_rows())?;
        let mut at = Vec::with_capacity(words.len() / 2);
        for pair in words.chunks_exact(2) {
            let (row, position) = (pair[0] as usize, pair[1] as usize);
            if position >= edges.csc.degree(row) {
                return Err(Refusal::Invalid(format!(
                    "in-edge {position} of row {row} was asked for, which has fewer"
                )));
            }
            at.push(edges.csc.indptr()[row] as usize + position);
        }
        let absent = || Refusal::Invalid("the edges have no such attribute".into());
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

    /// A byte per pair, 1 if it is an edge into one of the part's nodes.
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
            types => Err(Refusal::Invalid(format!("edge type {} of {types}", edge_type.0))),
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

/// Bytes that a row takes in a reply to `fetch`, over all wanted attributes.
pub(crate) fn bytes_per_row(wanted: Wanted, feature_bytes: usize) -> usize {
    let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
    size(wanted.labels, 8)
        + size(wanted.times, 8)
        + size(wanted.original_ids, 4)
        + size(wanted.degrees, 4)
        + size(wanted.features, feature_bytes)
}

/// Draws a hop by `kernel`; an answer of another length than it says itself would shift what follows it.
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
        let (rows, words) = (hop.rows.len(), out.len().saturating_sub(start));
        return Err(Refusal::Failed(format!("a hop of {rows} rows came back from the device with {words} words")));
    }
    Ok(())
}

/// An error and what has caused it, in one line.
fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn key_of(request: &HopRequest, section: &HopSection) -> u64 {
    combine(combine(request.stream, u64::from(request.hop)), u64::from(section.edge_type.0))
}

/// A request for weights or times that the edges do not have comes from a process with another graph: samplers check.
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
        Some(row) => Err(Refusal::Invalid(format!("row {row} was asked for, but the part has {bound}"))),
        None => Ok(()),
    }
}

/// Appends a value a row.
fn append<T: bytemuck::Pod>(out: &mut Vec<u8>, rows: &[u32], value: impl Fn(usize) -> T) {
    for &row in rows {
        out.extend_from_slice(bytemuck::bytes_of(&value(row as usize)));
    }
}

#[cfg(test)]
mod tests;

//! Answers questions about the part that this process holds.

use crate::config::Fanout;
use crate::kernel::{self, Draw};
use crate::transport::{bytes_of, ids_in};
use crate::wire::{FetchRequest, FindRequest, HopRequest, HopSection, Refusal, Wanted};
use crate::workers::LINE_BYTES;
use bytes::Bytes;
use edgecut_graph::rng::combine;
use edgecut_graph::{EdgeTypeId, NodeTypeId, Part, PartEdges};
use std::sync::Arc;

/// The process's own part.
#[derive(Clone, Debug)]
pub(crate) struct LocalPart(pub(crate) Arc<Part>);

impl LocalPart {
    /// About how many cache lines a hop reads: the neighbors of a node are anywhere, each drawn one is somewhere else.
    pub(crate) fn lines_of_hop(&self, request: &HopRequest) -> usize {
        let lines = |section: &HopSection| match section.fanout() {
            _ if section.num_rows == 0 => 0,
            Fanout::All => usize::MAX,
            Fanout::Count(count) => (section.num_rows as usize).saturating_mul(2 + count as usize),
        };
        request.sections.iter().map(lines).fold(0, usize::saturating_add)
    }

    /// About how many cache lines the attributes of rows take.
    pub(crate) fn lines_of_fetch(&self, request: &FetchRequest) -> usize {
        let types = &self.0.meta().node_types;
        let feature_bytes = types.get(request.node_type.index()).map_or(0, |t| t.feature_dim * t.feature_dtype.size());
        let row_lines = bytes_per_row(request.wanted, feature_bytes).div_ceil(LINE_BYTES);
        (request.rows.len() / size_of::<u32>()).saturating_mul(row_lines)
    }

    /// Answers a peer: checks the request, and refuses a reply of more than `max_bytes`.
    pub(crate) fn sample_hop(&self, request: &HopRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let rows = as_ids(&request.rows)?;
        let mut jobs = Vec::with_capacity(request.sections.len());
        let mut rest = rows;
        for section in &request.sections {
            let Some((mine, others)) = rest.split_at_checked(section.num_rows as usize) else {
                return Err(Refusal::Invalid("the request has fewer rows than its sections say".into()));
            };
            let edges = self.edges(section.edge_type)?;
            check_rows(mine, edges.csc.num_rows())?;
            jobs.push((edges, mine, draw_of(request, section)));
            rest = others;
        }
        if !rest.is_empty() {
            return Err(Refusal::Invalid("the request has more rows than its sections say".into()));
        }
        let mut out = Vec::new();
        for (edges, rows, draw) in jobs {
            let originals = &self.0.nodes(edges.dst_type).original_ids;
            kernel::sample_hop(&edges.csc, originals, rows, &draw, &mut out, max_bytes / size_of::<u32>())
                .map_err(|kernel::TooLarge| Refusal::TooLarge)?;
        }
        Ok(bytes_of(out))
    }

    /// Attributes of rows, in the layout of [`ArrayReply`](crate::wire::ArrayReply).
    pub(crate) fn fetch(&self, request: &FetchRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let rows = as_ids(&request.rows)?;
        let Some(t) = self.0.meta().node_types.get(request.node_type.index()) else {
            return Err(Refusal::Invalid(format!("there is no node type {}", request.node_type.0)));
        };
        let nodes = self.0.nodes(request.node_type);
        check_rows(rows, nodes.original_ids.len())?;
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
        if request.wanted.original_ids {
            append(&mut out, rows, |row| nodes.original_ids[row]);
        }
        if request.wanted.degrees {
            let degrees = Degrees::new(&self.0, request.node_type);
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
        if request.node_type.index() >= self.0.meta().node_types.len() {
            return Err(Refusal::Invalid(format!("there is no node type {}", request.node_type.0)));
        }
        let find = |&id: &u32| self.0.find_original(request.node_type, id).map_or(u32::MAX, |node| node.0);
        Ok(bytes_of(as_ids(&request.originals)?.iter().map(find).collect::<Vec<u32>>()))
    }

    fn edges(&self, edge_type: EdgeTypeId) -> Result<&PartEdges, Refusal> {
        match self.0.meta().edge_types.len() {
            types if edge_type.index() < types => Ok(self.0.edges(edge_type)),
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

    pub(crate) fn of(&self, row: usize) -> u32 {
        let degree: usize = self.0.iter().map(|edges| edges.csc.degree(row)).sum();
        u32::try_from(degree).unwrap_or(u32::MAX)
    }
}

/// Bytes that a row takes in a reply to `fetch`, over all wanted attributes.
pub(crate) fn bytes_per_row(wanted: Wanted, feature_bytes: usize) -> usize {
    let size = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
    size(wanted.labels, 8)
        + size(wanted.original_ids, 4)
        + size(wanted.degrees, 4)
        + size(wanted.features, feature_bytes)
}

fn draw_of(request: &HopRequest, section: &HopSection) -> Draw {
    let key = combine(combine(request.stream, u64::from(request.hop)), u64::from(section.edge_type.0));
    Draw { fanout: section.fanout(), replace: section.replace, key }
}

fn as_ids(bytes: &Bytes) -> Result<&[u32], Refusal> {
    ids_in(bytes).map_err(Refusal::Invalid)
}

fn check_rows(rows: &[u32], bound: usize) -> Result<(), Refusal> {
    match rows.iter().find(|&&row| row as usize >= bound) {
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

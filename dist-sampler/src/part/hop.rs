//! Hops of the part that this process holds.

use crate::arrays::{bytes_of, ids_in};
use crate::config::sampling_policy::TimeAttr;
use crate::part::constrained_hop::{ConstrainedDraw, Query, SharedNumbers};
use crate::part::layer_variates::LayerVariates;
use crate::part::local_part::{LocalPart, check_rows};
use crate::part::requests::{HopRequest, HopSection, Refusal};
use crate::part::uniform_hop::{self, Draw, TooLarge};
use bytes::Bytes;
use edgecut_cluster::with_causes;
use edgecut_graph::rng::combine;
use edgecut_graph::{EdgeTypeId, Fanout, HopError, HopKernel, Meta, PartEdges, PlainHop};
use std::time::{Duration, Instant};

impl LocalPart {
    /// Answers a hop request. Checks the request first, and refuses it if the reply would exceed `max_bytes`. `drawn`
    /// receives the time of each section.
    pub(crate) fn sample_hop(
        &self,
        request: &HopRequest,
        max_bytes: usize,
        drawn: impl Fn(EdgeTypeId, Duration),
    ) -> Result<Bytes, Refusal> {
        let rows = ids_in(&request.rows).map_err(Refusal::Invalid)?;
        request.rule.check_labor().map_err(Refusal::Invalid)?;
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
                if section.fanout == Fanout::Count(0) {
                    return Err(Refusal::Invalid("the request has rows with a fan-out of 0".into()));
                }
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
            let fanout = section.fanout;
            let max_len = max_bytes / size_of::<u32>();
            let start = Instant::now();
            let result = if let Some(kernel) = self.kernel_for(request, section) {
                let hop = PlainHop { edge_type: section.edge_type, rows, fanout, replace: request.rule.replace, key };
                draw_elsewhere(kernel, &hop, &mut out, max_len)
            } else if request.is_plain() {
                let draw = Draw { fanout, replace: request.rule.replace, key };
                let drawn = uniform_hop::sample_hop(&edges.csc, original_ids, rows, &draw, &mut out, max_len);
                drawn.map_err(|TooLarge| Refusal::TooLarge)
            } else {
                let queries: Vec<Query> = rows.chunks_exact(words_per_row).map(|words| request.query(words)).collect();
                let rule = request.rule;
                let positions = request.positions;
                let shared = self.shared_numbers(request, section)?;
                let book = &self.part.meta().node_types[edges.src_type.index()].book;
                let sources = rule.isolated.then(|| book.range(self.part.id()));
                let draw = ConstrainedDraw { edges, original_ids, fanout, rule, key, positions, shared, sources };
                draw.sample_hop(&queries, &mut out, max_len).map_err(|TooLarge| Refusal::TooLarge)
            };
            drawn(section.edge_type, start.elapsed());
            result?;
        }
        Ok(bytes_of(out))
    }

    /// Returns the random numbers of the sources of a section in layer-neighbor sampling.
    fn shared_numbers(&self, request: &HopRequest, section: &HopSection) -> Result<Option<SharedNumbers<'_>>, Refusal> {
        let Some(labor) = request.rule.labor.filter(|_| section.num_rows > 0) else { return Ok(None) };
        let Some(sources) = self.sources_of(section.edge_type) else {
            return Err(Refusal::Failed("the sources of edges are not known yet".into()));
        };
        let variates = LayerVariates::new(labor, request.key, self.part.edges(section.edge_type).src_type);
        Ok(Some(SharedNumbers { variates, sources }))
    }

    /// Returns the kernel that draws a section of a request, or `None` if the CPU draws it.
    pub(crate) fn kernel_for(&self, request: &HopRequest, section: &HopSection) -> Option<&dyn HopKernel> {
        let num_rows = section.num_rows as usize;
        let kernel = self.kernel.get().filter(|_| request.is_plain() && num_rows > 0)?;
        kernel.takes(section.edge_type, num_rows).then_some(&**kernel)
    }
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

fn key_of(request: &HopRequest, section: &HopSection) -> u64 {
    combine(combine(request.key.stream(), u64::from(request.hop)), u64::from(section.edge_type.0))
}

/// Refuses a request for weights or times that the edges do not have. A sampler checks its own graph, so such a request
/// comes from a process with a different graph.
fn check_attributes(edges: &PartEdges, request: &HopRequest, meta: &Meta) -> Result<(), Refusal> {
    let rule = request.rule;
    if edges.csc.num_edges() == 0 {
        return Ok(());
    }
    if rule.weighted && edges.attributes.weights.is_none() {
        return Err(Refusal::Invalid(format!("edges of dataset {} have no weights", meta.dataset)));
    }
    let by_edge = rule.temporal.is_some_and(|temporal| temporal.attr == TimeAttr::EdgeTime);
    if by_edge && edges.attributes.times.is_none() {
        return Err(Refusal::Invalid(format!("edges of dataset {} have no times", meta.dataset)));
    }
    Ok(())
}

//! Attributes of the edges of the part that this process holds.

use crate::arrays::ids_in;
use crate::part::local_part::{LocalPart, check_rows};
use crate::part::requests::{EdgeIdsRequest, FetchEdgesRequest, Refusal};
use bytes::Bytes;
use edgecut_graph::{EdgeId, EdgeIds, EdgeLabelValues, PartEdges};

impl LocalPart {
    /// Returns attributes of edges, in the layout of [`ArrayReply`](crate::rpc::messages::ArrayReply).
    pub(crate) fn fetch_edges(&self, request: &FetchEdgesRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let edges = self.edges(request.edge_type)?;
        let at = positions(edges, &request.edges)?;
        let absent = || Refusal::Invalid("the edges lack a requested attribute".into());
        let attributes = &edges.attributes;
        let of_type = &self.part.meta().edge_types[request.edge_type.index()];
        if at.len().saturating_mul(request.wanted.bytes_per_edge(of_type)) > max_bytes {
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
        if request.wanted.labels {
            match &attributes.labels.as_ref().ok_or_else(absent)?.values {
                EdgeLabelValues::Classes { of_edges, .. } => {
                    at.iter().for_each(|&at| out.extend_from_slice(&of_edges[at].to_le_bytes()));
                }
                EdgeLabelValues::Targets(targets) => {
                    at.iter().for_each(|&at| out.extend_from_slice(bytemuck::cast_slice(targets.row(at))));
                }
            }
        }
        if request.wanted.ids {
            let Some(EdgeIds::Numbers(ids)) = &attributes.ids else { return Err(absent()) };
            at.iter().for_each(|&at| out.extend_from_slice(&ids[at].to_le_bytes()));
        }
        Ok(out.into())
    }

    /// Returns the ids of edges, in the layout of [`ArrayReply`](crate::rpc::messages::ArrayReply).
    pub(crate) fn edge_ids(&self, request: &EdgeIdsRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let edges = self.edges(request.edge_type)?;
        let at = positions(edges, &request.edges)?;
        let Some(ids) = &edges.attributes.ids else { return Err(Refusal::Invalid("the edges have no ids".into())) };
        let mut out = Vec::new();
        let mut texts = Vec::new();
        for at in at {
            match ids.get(at) {
                EdgeId::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
                EdgeId::Text(text) => {
                    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    texts.extend_from_slice(text);
                }
            }
            if out.len() + texts.len() > max_bytes {
                return Err(Refusal::TooLarge);
            }
        }
        out.extend(texts);
        Ok(out.into())
    }
}

/// Returns the positions of requested edges in the arrays of their type.
fn positions(edges: &PartEdges, requested: &Bytes) -> Result<Vec<usize>, Refusal> {
    let words = ids_in(requested).map_err(Refusal::Invalid)?;
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
    Ok(at)
}

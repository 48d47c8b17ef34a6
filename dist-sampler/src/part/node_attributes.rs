//! Attributes and ids of the nodes of the part that this process holds.

use crate::arrays::{bytes_of, ids_in};
use crate::config::node_fields::NodeFields;
use crate::part::local_part::{LocalPart, check_rows};
use crate::part::requests::{FetchRequest, FindRequest, Refusal};
use bytes::Bytes;
use edgecut_graph::{Buffer, Features, NodeTypeId, Part, PartEdges, TargetMeta};

impl LocalPart {
    /// Returns attributes of rows, in the layout of [`ArrayReply`](crate::rpc::messages::ArrayReply).
    pub(crate) fn fetch(&self, request: &FetchRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let num_rows = request.rows.len() / size_of::<u32>();
        self.watch_fetch(request.node_type, request.wanted, num_rows, || self.gather(request, max_bytes))
    }

    fn gather(&self, request: &FetchRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        let mut out = self.gather_others(request, max_bytes)?;
        if request.wanted.features {
            let rows = ids_in(&request.rows).map_err(Refusal::Invalid)?;
            self.features(request.node_type)?.append_rows(rows, &mut out);
        }
        Ok(out.into())
    }

    /// Returns the features of the nodes of a type that the graph has.
    pub(crate) fn features(&self, node_type: NodeTypeId) -> Result<&Features, Refusal> {
        let features = self.part.nodes(node_type).features.as_ref();
        features.ok_or_else(|| Refusal::Invalid("the graph has no features".into()))
    }

    /// Checks a request, and returns all of its attributes but the features, which are the last ones of a reply.
    pub(crate) fn gather_others(&self, request: &FetchRequest, max_bytes: usize) -> Result<Vec<u8>, Refusal> {
        let rows = ids_in(&request.rows).map_err(Refusal::Invalid)?;
        let Some(t) = self.part.meta().node_types.get(request.node_type.index()) else {
            return Err(Refusal::Invalid(format!("there is no node type {}", request.node_type.0)));
        };
        let nodes = self.part.nodes(request.node_type);
        check_rows(rows.iter(), nodes.original_ids.len())?;
        let per_row = request.wanted.bytes_per_node(t);
        if per_row.checked_mul(rows.len()).is_none_or(|bytes| bytes > max_bytes) {
            return Err(Refusal::TooLarge);
        }
        let others = NodeFields { features: false, ..request.wanted };
        let mut out = Vec::with_capacity(others.bytes_per_node(t) * rows.len());
        let targets = nodes.targets.as_deref().zip(t.targets).filter(|_| request.wanted.labels);
        if request.wanted.labels {
            match nodes.labels.as_deref() {
                Some(labels) => append(&mut out, rows, |row| labels[row]),
                None if targets.is_some() => {}
                None => return Err(Refusal::Invalid("the graph has no labels".into())),
            }
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
        if request.wanted.in_weights {
            let degrees = Degrees::new(&self.part, request.node_type);
            append(&mut out, rows, |row| degrees.weight_of(row));
        }
        // After all numbers of 8 bytes, which the receiver reads in place.
        if let Some((values, TargetMeta { dim, .. })) = targets {
            let row_of = |&row: &u32| &values[row as usize * dim..][..dim];
            rows.iter().for_each(|row| out.extend_from_slice(bytemuck::cast_slice(row_of(row))));
        }
        Ok(out)
    }

    /// Returns the global ids of original ids, `u32::MAX` for nodes that this part does not own.
    pub(crate) fn find(&self, request: &FindRequest) -> Result<Bytes, Refusal> {
        if request.node_type.index() >= self.part.meta().node_types.len() {
            return Err(Refusal::Invalid(format!("there is no node type {}", request.node_type.0)));
        }
        let find = |&id: &u32| self.part.find_original(request.node_type, id).map_or(u32::MAX, |node| node.0);
        Ok(bytes_of(ids_in(&request.originals).map_err(Refusal::Invalid)?.iter().map(find).collect::<Vec<u32>>()))
    }
}

/// In-degrees of the nodes of one type, over all edge types that enter it.
pub(crate) struct Degrees<'a>(Vec<&'a PartEdges>);

impl<'a> Degrees<'a> {
    pub(crate) fn new(part: &'a Part, node_type: NodeTypeId) -> Self {
        Self(part.edge_type_ids().map(|e| part.edges(e)).filter(|e| e.dst_type == node_type).collect())
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.0.iter().any(|edges| edges.csc.is_mapped())
    }

    pub(crate) fn of(&self, row: usize) -> u32 {
        let degree: usize = self.0.iter().map(|edges| edges.csc.degree(row)).sum();
        u32::try_from(degree).unwrap_or(u32::MAX)
    }

    /// Returns the sum of the weights of a node's in-edges. Edges without weights count 1.
    pub(crate) fn weight_of(&self, row: usize) -> f32 {
        let mut sum = 0.0;
        for edges in &self.0 {
            match &edges.attributes.weights {
                None => sum += edges.csc.degree(row) as f64,
                Some(weights) => {
                    let start = edges.csc.indptr()[row] as usize;
                    let of_row = &weights[start..start + edges.csc.degree(row)];
                    sum += of_row.iter().map(|&weight| f64::from(weight)).sum::<f64>();
                }
            }
        }
        sum as f32
    }

    /// Returns true if the sums of weights are read from a mapped file.
    pub(crate) fn has_mapped_weights(&self) -> bool {
        self.is_mapped() || self.0.iter().any(|edges| edges.attributes.weights.as_ref().is_some_and(Buffer::is_mapped))
    }
}

/// Appends one value per row.
fn append<T: bytemuck::Pod>(out: &mut Vec<u8>, rows: &[u32], value: impl Fn(usize) -> T) {
    for &row in rows {
        out.extend_from_slice(bytemuck::bytes_of(&value(row as usize)));
    }
}

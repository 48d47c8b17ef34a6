//! Attributes of a batch's nodes while they arrive.

use crate::config::node_fields::NodeFields;
use crate::dist_graph::node_attributes::NodeAttributes;
use crate::dist_graph::routing::Sources;
use crate::error::SampleError;
use crate::part::node_attributes::Degrees;
use bytes::Bytes;
use edgecut_graph::{FeatureDtype, Features, GatheredRows, NodeTypeId, Part};
use std::sync::Arc;

/// The requested attributes of a node type, and the layout of one row of a reply.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) node_type: NodeTypeId,
    pub(super) wanted: NodeFields,
    pub(super) feature_dim: usize,
    pub(super) target_dim: usize,
    pub(super) dtype: FeatureDtype,
    pub(super) bytes_per_node: usize,
}

/// Attributes with some rows still missing.
pub(super) struct Draft {
    /// All but the features.
    found: NodeAttributes,
    /// The features, which replies go to while they arrive.
    pub(super) features: Option<Arc<GatheredRows>>,
}

impl Draft {
    /// Creates a draft of `num_nodes` nodes.
    pub(super) fn new(part: &Part, num_nodes: usize, shape: Shape) -> Self {
        let has_features = shape.wanted.features && part.nodes(shape.node_type).features.is_some();
        let features = has_features.then(|| Arc::new(GatheredRows::new(num_nodes, shape.feature_dim)));
        Self { found: NodeAttributes::default(), features }
    }

    /// Gathers the rows that are in `part` or in the cache, and leaves the others empty.
    pub(super) fn gather(&mut self, part: &Part, sources: &Sources, cached: Option<&Features>, shape: Shape) {
        let Shape { node_type, wanted, .. } = shape;
        let rows = &sources.own;
        let nodes = part.nodes(node_type);
        let degrees = Degrees::new(part, node_type);
        self.found = NodeAttributes {
            labels: match &nodes.labels {
                Some(labels) => values_if(wanted.labels, rows, |row| labels[row]),
                None => Vec::new(),
            },
            targets: match &nodes.targets {
                Some(targets) => target_rows(targets, shape.target_dim, rows),
                None => Vec::new(),
            },
            target_dim: shape.target_dim,
            times: match &nodes.times {
                Some(times) => values_if(wanted.times, rows, |row| times[row]),
                None => Vec::new(),
            },
            original_ids: values_if(wanted.original_ids, rows, |row| nodes.original_ids[row]),
            degrees: values_if(wanted.degrees, rows, |row| degrees.of(row)),
            in_weights: values_if(wanted.in_weights, rows, |row| degrees.weight_of(row)),
            features: Vec::new(),
            feature_dim: shape.feature_dim,
        };
        if let Some((gathered, stored)) = self.features.as_ref().zip(nodes.features.as_ref()) {
            gathered.gather(stored, rows);
            if let Some(cached) = cached.filter(|_| sources.num_cached > 0) {
                gathered.gather(cached, &sources.cached);
            }
        }
    }

    /// Stores all attributes but the features of one reply, whose length was checked, at the positions of its rows.
    pub(super) fn place(&mut self, positions: &[u32], data: &Bytes, shape: Shape) {
        let wanted = shape.wanted;
        let positions = &positions[..data.len() / shape.bytes_per_node.max(1)];
        let found = &mut self.found;
        let mut rest = &data[..];
        if wanted.labels && shape.target_dim == 0 {
            place(&mut found.labels, positions, &mut rest);
        }
        if wanted.times {
            place(&mut found.times, positions, &mut rest);
        }
        if wanted.original_ids {
            place(&mut found.original_ids, positions, &mut rest);
        }
        if wanted.degrees {
            place(&mut found.degrees, positions, &mut rest);
        }
        if wanted.in_weights {
            place(&mut found.in_weights, positions, &mut rest);
        }
        if shape.target_dim > 0 {
            place_rows(&mut found.targets, shape.target_dim, positions, &mut rest);
        }
    }

    /// Stores some rows of a reply with features only. `rows` are pairs of a position and a row of the reply.
    pub(super) fn place_rows(&self, rows: &[(u32, u32)], data: &Bytes, shape: Shape) {
        if let Some(features) = &self.features {
            features.place_rows(rows, shape.dtype, data);
        }
    }

    /// Returns the complete attributes.
    ///
    /// # Errors
    /// [`SampleError::Internal`] if a reply is still being placed.
    pub(super) fn finish(self) -> Result<NodeAttributes, SampleError> {
        let Some(features) = self.features else { return Ok(self.found) };
        let Some(features) = Arc::into_inner(features) else {
            return Err(SampleError::Internal { what: "a batch's features are used before they are complete".into() });
        };
        Ok(NodeAttributes { features: features.finish(), ..self.found })
    }
}

/// Returns one value per row if `wanted`, the default for rows of other parts, else nothing.
fn values_if<T: Default>(wanted: bool, rows: &[u32], value: impl Fn(usize) -> T) -> Vec<T> {
    let value = |&row: &u32| if row == GatheredRows::ELSEWHERE { T::default() } else { value(row as usize) };
    if wanted { rows.iter().map(value).collect() } else { Vec::new() }
}

/// Returns the targets of each row, zeros for rows of other parts. They are empty if `dim` is 0.
fn target_rows(targets: &[f32], dim: usize, rows: &[u32]) -> Vec<f32> {
    let mut values = vec![0.0; rows.len() * dim];
    for (out, &row) in values.chunks_exact_mut(dim.max(1)).zip(rows) {
        if row != GatheredRows::ELSEWHERE {
            out.copy_from_slice(&targets[row as usize * dim..][..dim]);
        }
    }
    values
}

fn place_rows(out: &mut [f32], dim: usize, positions: &[u32], rest: &mut &[u8]) {
    let (mine, others) = rest.split_at(positions.len() * dim * size_of::<f32>());
    for (&to, row) in positions.iter().zip(bytemuck::cast_slice::<u8, f32>(mine).chunks_exact(dim)) {
        out[to as usize * dim..][..dim].copy_from_slice(row);
    }
    *rest = others;
}

fn place<T: bytemuck::Pod>(out: &mut [T], positions: &[u32], rest: &mut &[u8]) {
    let (mine, others) = rest.split_at(positions.len() * size_of::<T>());
    for (&to, &value) in positions.iter().zip(bytemuck::cast_slice::<u8, T>(mine)) {
        out[to as usize] = value;
    }
    *rest = others;
}

//! Attributes of a batch's nodes, from whichever parts own them.

use crate::SampleError;
use crate::local::{Degrees, bytes_per_row};
use crate::node::SamplingNode;
use crate::route::Routes;
use crate::wire::Wanted;
use crate::workers::LINE_BYTES;
use bytes::Bytes;
use edgecut_graph::{FeatureDtype, Features, NodeTypeId};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use half::f16;
use half::slice::HalfFloatSliceExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio_util::task::AbortOnDropHandle;

/// Attributes of nodes, a row a node in the order asked for; what was not wanted is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAttributes {
    /// A class per node, -1 where unlabelled.
    pub labels: Vec<i64>,
    /// The id in the dataset.
    pub original_ids: Vec<u32>,
    /// The in-degree in the whole graph.
    pub degrees: Vec<u32>,
    /// `[num_nodes, feature_dim]`, row-major.
    pub features: Vec<f32>,
    /// Features per node; 0 if features were not wanted.
    pub feature_dim: usize,
}

impl SamplingNode {
    /// Fetches attributes of `nodes`, distinct global ids of one type: own rows from the mapped part, the others in
    /// bounded pieces from their owners, all at the same time.
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] if the graph has no such attribute, or an error of a peer.
    pub async fn fetch(
        self: &Arc<Self>,
        node_type: NodeTypeId,
        nodes: Vec<u32>,
        wanted: Wanted,
    ) -> Result<NodeAttributes, SampleError> {
        let shape = self.shape(node_type, wanted)?;
        let meta = self.part().meta().clone();
        let num_nodes = nodes.len();
        let route = move || Arc::new(Routes::new(&meta.node_types[node_type.index()].book, &nodes));
        // Per node a few sequential reads and writes of 4 bytes.
        let routes = self.workers.run_sized(num_nodes / 4, route).await?;
        let mut pieces = FuturesUnordered::new();
        for (part, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            let rows = &routes.rows[part];
            if wanted.features {
                self.traffic.nodes.fetch_add(rows.len() as u64, Ordering::Relaxed);
            }
            let per_piece = (self.config.fetch_chunk_bytes / shape.bytes_per_row.max(1)).max(1);
            for (i, rows) in rows.chunks(per_piece).enumerate() {
                let (peer, rows) = (peer.clone(), rows.to_vec());
                let task = tokio::spawn(async move { peer.fetch(node_type, wanted, rows).await });
                let task = AbortOnDropHandle::new(task);
                pieces.push(async move { (part, i * per_piece, task.await) });
            }
        }
        let node = self.clone();
        let own_routes = routes.clone();
        let gather = move || node.gather_own(node_type, &own_routes, wanted, shape);
        let row_lines = shape.bytes_per_row.div_ceil(LINE_BYTES);
        let mut out = self.workers.run_sized(num_nodes.saturating_mul(row_lines), gather).await?;
        while let Some((part, start, reply)) = pieces.next().await {
            let data = reply.map_err(|e| SampleError::Internal { what: format!("fetch from part {part}: {e}") })??;
            let (routes, lines) = (routes.clone(), data.len().div_ceil(LINE_BYTES));
            let scatter = move || {
                let positions = &routes.positions[part][start..];
                scatter(&mut out, positions, &data, wanted, shape);
                out
            };
            out = self.workers.run_sized(lines, scatter).await?;
        }
        Ok(out)
    }

    fn shape(&self, node_type: NodeTypeId, wanted: Wanted) -> Result<Shape, SampleError> {
        let t = &self.part().meta().node_types[node_type.index()];
        let missing = |what: &str| {
            let what = format!("nodes of type {} have no {what} in dataset {}", t.name, self.part().meta().dataset);
            Err(SampleError::NoSuchNode { what })
        };
        if wanted.features && t.feature_dim == 0 {
            return missing("features");
        }
        if wanted.labels && !t.has_labels {
            return missing("labels");
        }
        let bytes_per_row = bytes_per_row(wanted, t.feature_dim * t.feature_dtype.size());
        Ok(Shape {
            feature_dim: if wanted.features { t.feature_dim } else { 0 },
            dtype: t.feature_dtype,
            bytes_per_row,
        })
    }

    fn gather_own(&self, node_type: NodeTypeId, routes: &Routes, wanted: Wanted, shape: Shape) -> NodeAttributes {
        let part = self.part();
        let (own, nodes) = (part.id().index(), part.nodes(node_type));
        let len = routes.owners.len();
        let sized = |wanted: bool| if wanted { len } else { 0 };
        let (rows, positions) = (&routes.rows[own], &routes.positions[own]);
        let mut features = Vec::new();
        if let (true, Some(stored)) = (wanted.features, &nodes.features) {
            let mut row_of = vec![Features::NO_ROW; len];
            for (&row, &to) in rows.iter().zip(positions) {
                row_of[to as usize] = row;
            }
            features = stored.gather(&row_of);
        }
        let mut out = NodeAttributes {
            labels: vec![0; sized(wanted.labels)],
            original_ids: vec![0; sized(wanted.original_ids)],
            degrees: vec![0; sized(wanted.degrees)],
            features,
            feature_dim: shape.feature_dim,
        };
        let degrees = Degrees::new(part, node_type);
        for (&row, &to) in rows.iter().zip(positions) {
            let (row, to) = (row as usize, to as usize);
            if let (true, Some(labels)) = (wanted.labels, &nodes.labels) {
                out.labels[to] = labels[row];
            }
            if wanted.original_ids {
                out.original_ids[to] = nodes.original_ids[row];
            }
            if wanted.degrees {
                out.degrees[to] = degrees.of(row);
            }
        }
        out
    }
}

/// What one row of a reply looks like.
#[derive(Clone, Copy)]
struct Shape {
    feature_dim: usize,
    dtype: FeatureDtype,
    bytes_per_row: usize,
}

/// Puts the rows of one reply, whose length was checked, in their places.
fn scatter(out: &mut NodeAttributes, positions: &[u32], data: &Bytes, wanted: Wanted, shape: Shape) {
    let rows = data.len() / shape.bytes_per_row.max(1);
    let positions = &positions[..rows];
    let mut rest = &data[..];
    if wanted.labels {
        place(&mut out.labels, positions, &mut rest);
    }
    if wanted.original_ids {
        place(&mut out.original_ids, positions, &mut rest);
    }
    if wanted.degrees {
        place(&mut out.degrees, positions, &mut rest);
    }
    let dim = shape.feature_dim;
    if wanted.features {
        for (&to, row) in positions.iter().zip(rest.chunks_exact(dim * shape.dtype.size())) {
            let out = &mut out.features[to as usize * dim..][..dim];
            match shape.dtype {
                FeatureDtype::F32 => out.copy_from_slice(bytemuck::cast_slice(row)),
                FeatureDtype::F16 => bytemuck::cast_slice::<u8, f16>(row).convert_to_f32_slice(out),
            }
        }
    }
}

fn place<T: bytemuck::Pod>(out: &mut [T], positions: &[u32], rest: &mut &[u8]) {
    let (mine, others) = rest.split_at(positions.len() * size_of::<T>());
    for (&to, &value) in positions.iter().zip(bytemuck::cast_slice::<u8, T>(mine)) {
        out[to as usize] = value;
    }
    *rest = others;
}

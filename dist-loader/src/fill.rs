//! From a sampled neighborhood to a batch.

use crate::batch::{EdgeBatch, MiniBatch, NodeBatch};
use edgecut_dist_sampler::{
    BatchKey, SampleError, SampledEdgeAttributes, SampledEdges, SampledSubgraph, SamplingNode, Wanted, WantedOfEdges,
};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::sync::Arc;

/// Fetches what is wanted of the nodes and edges of a neighborhood, labels excepted.
pub(crate) async fn fill(
    node: &Arc<SamplingNode>,
    subgraph: SampledSubgraph,
    (wanted, of_edges): (Wanted, WantedOfEdges),
    key: BatchKey,
    num_seeds: usize,
    labels: Vec<i64>,
) -> Result<MiniBatch, SampleError> {
    let node_types = &node.part().meta().node_types;
    let mut nodes = Vec::with_capacity(node_types.len());
    for (t, sampled) in subgraph.nodes.into_iter().enumerate() {
        // Some types may have none.
        let has_features = node_types[t].feature_dim > 0;
        let has_times = node_types[t].has_times;
        let wanted = Wanted {
            labels: false,
            features: wanted.features && has_features,
            times: wanted.times && has_times,
            ..wanted
        };
        let attributes = node.fetch(NodeTypeId(t as u16), sampled.ids.clone(), wanted).await?;
        nodes.push(NodeBatch {
            input_nodes: sampled.ids,
            hop_offsets: sampled.hop_offsets,
            batch: sampled.batch,
            original_ids: attributes.original_ids,
            degrees: attributes.degrees,
            times: attributes.times,
            features: attributes.features,
            feature_dim: attributes.feature_dim,
        });
    }
    let mut edges = Vec::with_capacity(subgraph.edges.len());
    for (e, SampledEdges { indptr, indices, positions }) in subgraph.edges.into_iter().enumerate() {
        let edge_type = EdgeTypeId(e as u16);
        let meta = &node.part().meta().edge_types[e];
        // Of several types some may have none.
        let wanted = WantedOfEdges {
            features: of_edges.features && meta.feature_dim > 0,
            weights: of_edges.weights && meta.has_weights,
            times: of_edges.times && meta.has_times,
        };
        let mut attributes = SampledEdgeAttributes::default();
        if wanted.any() {
            let destinations = &nodes[node.part().edges(edge_type).dst_type.index()].input_nodes;
            let mut of_edges = Vec::with_capacity(indices.len());
            for (ends, &destination) in indptr.windows(2).zip(destinations) {
                of_edges.resize(ends[1] as usize, destination);
            }
            attributes = node.fetch_edges(edge_type, &of_edges, &positions, wanted).await?;
        }
        edges.push(EdgeBatch { indptr, indices, attributes });
    }
    Ok(MiniBatch { key, num_seeds, nodes, edges, labels })
}

//! From a sampled neighborhood to a batch.

use crate::batch::{EdgeBatch, MiniBatch, NodeBatch};
use edgecut_dist_sampler::{BatchKey, SampleError, SampledSubgraph, SamplingNode, Wanted};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

/// Fetches what is wanted of the nodes of a neighborhood, labels excepted.
pub(crate) async fn fill(
    node: &Arc<SamplingNode>,
    subgraph: SampledSubgraph,
    wanted: Wanted,
    key: BatchKey,
    num_seeds: usize,
    labels: Vec<i64>,
) -> Result<MiniBatch, SampleError> {
    let node_types = &node.part().meta().node_types;
    let mut nodes = Vec::with_capacity(node_types.len());
    for (t, sampled) in subgraph.nodes.into_iter().enumerate() {
        // In a graph of several types some may have none.
        let has_features = node_types[t].feature_dim > 0 || node_types.len() == 1;
        let has_times = node_types[t].has_times || node_types.len() == 1;
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
    let edges = subgraph.edges.into_iter().map(|e| EdgeBatch { indptr: e.indptr, indices: e.indices }).collect();
    Ok(MiniBatch { key, num_seeds, nodes, edges, labels })
}

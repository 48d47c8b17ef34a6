//! Conversion of a sampled neighborhood to a batch.

use crate::batch::cached_rows::CachedRows;
use crate::batch::mini_batch::{EdgeBatch, MiniBatch, NodeBatch};
use edgecut_dist_sampler::{
    BatchKey, CachedFetch, DistGraph, DistNeighborSampler, DistRows, EdgeFields, NodeAttributes, NodeFields,
    SampleError, SampledEdgeAttributes, SampledEdges, SampledSubgraph,
};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::sync::Arc;

/// The sampler of batches, and the attributes to fetch for them.
#[derive(Clone)]
pub struct Collation {
    pub(crate) sampler: Arc<DistNeighborSampler>,
    pub(crate) wanted: NodeFields,
    /// The nodes whose features are not fetched.
    pub(crate) cache: Option<Arc<CachedRows>>,
    /// By node type, the rows that take the place of features, if there are any. Empty if features are fetched.
    pub(crate) rows: Vec<Option<Arc<DistRows>>>,
}

impl Collation {
    /// Returns whether the features of all nodes are fetched.
    pub(crate) fn fetches_features(&self) -> bool {
        self.wanted.features && self.cache.is_none() && self.rows.is_empty()
    }

    /// Fetches the requested attributes of the nodes and edges of a neighborhood, except labels. Features come from the
    /// cache that looks ahead as `ahead` tells.
    pub(crate) async fn collate(
        &self,
        subgraph: SampledSubgraph,
        key: BatchKey,
        num_seeds: usize,
        ahead: Option<&Arc<CachedFetch>>,
    ) -> Result<MiniBatch, SampleError> {
        let graph = self.sampler.node();
        let of_edges = self.sampler.edge_attributes();
        let node_types = &graph.part().meta().node_types;
        let mut nodes = Vec::with_capacity(node_types.len());
        for (t, sampled) in subgraph.nodes.into_iter().enumerate() {
            // Some node types may lack features or times.
            let has_features = node_types[t].feature_dim > 0;
            let has_times = node_types[t].has_times;
            let wanted = NodeFields {
                labels: false,
                features: self.wanted.features && has_features && self.rows.is_empty(),
                times: self.wanted.times && has_times,
                ..self.wanted
            };
            let node_type = NodeTypeId(t as u16);
            let (cache_slots, attributes) = match self.cache.as_ref().filter(|_| wanted.features) {
                Some(cache) => fetch_uncached(graph, node_type, &sampled.ids, wanted, cache).await?,
                None => (Vec::new(), fetch_if_any(graph, node_type, &sampled.ids, wanted, ahead).await?),
            };
            let (features, feature_dim) = match self.rows.get(t).and_then(Option::as_ref) {
                Some(rows) => (rows.pull(&sampled.ids).await?, rows.dim()),
                None => (attributes.features, attributes.feature_dim),
            };
            nodes.push(NodeBatch {
                input_nodes: sampled.ids,
                hop_offsets: sampled.hop_offsets,
                batch: sampled.batch,
                original_ids: attributes.original_ids,
                degrees: attributes.degrees,
                in_weights: attributes.in_weights,
                times: attributes.times,
                cache_slots,
                features,
                feature_dim,
            });
        }
        let mut edges = Vec::with_capacity(subgraph.edges.len());
        for (e, SampledEdges { indptr, indices, positions }) in subgraph.edges.into_iter().enumerate() {
            let edge_type = EdgeTypeId(e as u16);
            let meta = &graph.part().meta().edge_types[e];
            // Some edge types may lack some of the attributes.
            let wanted = of_edges.and(EdgeFields::all_of(meta));
            let mut attributes = SampledEdgeAttributes::default();
            if wanted.any() {
                let destinations = &nodes[graph.part().edges(edge_type).dst_type.index()].input_nodes;
                // Repeats each destination once per sampled in-edge: edges are named by destination and position.
                let mut of_edges = Vec::with_capacity(indices.len());
                for (ends, &destination) in indptr.windows(2).zip(destinations) {
                    of_edges.resize(ends[1] as usize, destination);
                }
                attributes = graph.fetch_edges(edge_type, &of_edges, &positions, wanted).await?;
            }
            let positions = if self.sampler.keeps_positions() { positions } else { Vec::new() };
            edges.push(EdgeBatch { indptr, indices, positions, attributes });
        }
        Ok(MiniBatch { num_seeds, nodes, edges, seed_times: subgraph.seed_times, ..MiniBatch::empty(key) })
    }
}

/// Returns the slots of `nodes` and their attributes: features of the nodes without a slot, other attributes of all
/// nodes.
async fn fetch_uncached(
    graph: &Arc<DistGraph>,
    node_type: NodeTypeId,
    nodes: &[u32],
    wanted: NodeFields,
    cache: &Arc<CachedRows>,
) -> Result<(Vec<u32>, NodeAttributes), SampleError> {
    let (slots, missing) = cache.split(graph, node_type, nodes.to_vec()).await?;
    if missing.len() == nodes.len() {
        return Ok((slots, graph.fetch(node_type, missing, wanted).await?));
    }
    let others = NodeFields { features: false, ..wanted };
    let features = NodeFields::FEATURES;
    let (others, features) = futures::try_join!(
        fetch_if_any(graph, node_type, nodes, others, None),
        graph.fetch(node_type, missing, features)
    )?;
    let NodeAttributes { features, feature_dim, .. } = features;
    Ok((slots, NodeAttributes { features, feature_dim, ..others }))
}

/// Fetches the requested attributes of `nodes`, unless none is requested.
async fn fetch_if_any(
    graph: &Arc<DistGraph>,
    node_type: NodeTypeId,
    nodes: &[u32],
    wanted: NodeFields,
    ahead: Option<&Arc<CachedFetch>>,
) -> Result<NodeAttributes, SampleError> {
    if wanted == NodeFields::default() {
        Ok(NodeAttributes::default())
    } else {
        graph.fetch_with(node_type, nodes.to_vec(), wanted, ahead).await
    }
}

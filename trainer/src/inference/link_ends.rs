//! Scores of node pairs from the rows of all nodes.

use super::layer_wise::{LayerWiseConfig, LayerWiseInput, layer_wise_types};
use super::predict::{PredictionJob, Trained};
use crate::edge_type_name::edge_type;
use crate::embeddings::EmbeddingSource;
use crate::error::TrainError;
use crate::models::{LayeredModel, LinkModel, LinkModelConfig};
use burn::tensor::{Tensor, TensorData};
use edgecut_dist_sampler::{DistGraph, DistRows};
use edgecut_gnn::nn::{EdgeEnd, LinkQueries};
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::{EdgeTypeId, EdgeTypeMeta, Meta, NodeTypeId};
use std::sync::Arc;

/// The rows of the nodes that an edge type connects, computed by the encoder of a model for links.
pub struct LinkEnds {
    edge_type: EdgeTypeId,
    src: Arc<DistRows>,
    /// The same rows as `src` if the edges connect nodes of one type.
    dst: Arc<DistRows>,
}

/// Computes the rows of all nodes at both ends of an edge type, layer by layer. Every rank must call this with the same
/// arguments.
///
/// # Errors
/// The errors of [`predict_node`](super::predict_node).
pub fn encode_link_ends<'s, B: GnnBackend>(
    job: PredictionJob<'_, '_, B>,
    model: &LinkModel<B>,
    model_config: &LinkModelConfig,
    saved: impl Into<EmbeddingSource<'s>>,
    edge_type: EdgeTypeId,
    limits: &LayerWiseConfig,
) -> Result<LinkEnds, TrainError> {
    let PredictionJob { graph, world, device, progress } = job;
    let trained = Trained::new(&model.encoder, &model_config.encoder);
    let embeddings = trained.embeddings(graph, saved, world)?;
    let edges = graph.part().edges(edge_type);
    let mut ends = vec![edges.src_type, edges.dst_type];
    ends.dedup();
    let (schema, options) = (&model_config.encoder.graph, trained.options);
    let input = LayerWiseInput { graph, schema, options, embeddings: &embeddings, progress };
    let passes = trained.model.num_passes();
    let rows = layer_wise_types(&input, trained.model, (&ends, passes), limits, world, device)?;
    let mut rows = rows.into_iter().map(Arc::new);
    let missing = || TrainError::Config { what: "the rows of an edge type are missing".into() };
    let src = rows.next().ok_or_else(missing)?;
    let dst = rows.next().unwrap_or_else(|| src.clone());
    Ok(LinkEnds::new(edge_type, src, dst))
}

/// Returns the edge type that a name selects: a relation, or a full name such as `author__writes__paper`. `None` selects
/// the only edge type of the graph.
///
/// # Errors
/// [`TrainError::Config`] for a name that no edge type or several have, and without a name if there are several.
pub fn link_edge_type(meta: &Meta, name: Option<&str>) -> Result<EdgeTypeId, TrainError> {
    match (name, &meta.edge_types[..]) {
        (Some(name), _) => edge_type(meta, name),
        (None, [_]) => Ok(EdgeTypeId(0)),
        (None, []) => Err(TrainError::Config { what: "the graph has no edge types".into() }),
        (None, all) => {
            let names: Vec<String> = all.iter().map(EdgeTypeMeta::full_name).collect();
            let what = format!("the graph has several edge types: choose one of {} (`edge_type`)", names.join(", "));
            Err(TrainError::Config { what })
        }
    }
}

impl LinkEnds {
    /// Makes the ends of an edge type from the rows of its sources and destinations.
    pub(crate) fn new(edge_type: EdgeTypeId, src: Arc<DistRows>, dst: Arc<DistRows>) -> Self {
        Self { edge_type, src, dst }
    }

    /// Returns the edge type.
    pub fn edge_type(&self) -> EdgeTypeId {
        self.edge_type
    }

    /// Returns the types of the sources and of the destinations.
    pub fn node_types(&self) -> [NodeTypeId; 2] {
        [self.src.node_type(), self.dst.node_type()]
    }

    /// Returns the numbers of sources and of destinations.
    pub fn num_nodes(&self) -> [usize; 2] {
        let meta = self.node().part().meta();
        self.node_types().map(|node_type| meta.node_types[node_type.index()].book.num_nodes())
    }

    /// Returns the graph to which the nodes belong.
    pub fn node(&self) -> &Arc<DistGraph> {
        self.src.node()
    }

    /// Returns the number of values per row.
    pub fn dim(&self) -> usize {
        self.src.dim()
    }

    /// Returns the scores of pairs of nodes, which are ids of the dataset.
    ///
    /// # Errors
    /// Nodes that do not exist, or an error of a peer.
    pub fn score<B: GnnBackend>(
        &self,
        model: &LinkModel<B>,
        sources: &[u32],
        destinations: &[u32],
        device: &B::Device,
    ) -> Result<Vec<f32>, TrainError> {
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let queries = self.queries(model, sources, device)?;
        let graph = self.node();
        let destinations = graph.handle().block_on(graph.find_originals(self.dst.node_type(), destinations))?;
        let rows = Tensor::from_data(pulled(&self.dst, &destinations)?, device);
        let scores = host_values(model.decoder.score_own(&queries, rows));
        consumed();
        Ok(scores)
    }

    /// Returns the queries of sources, which are ids of the dataset.
    pub(super) fn queries<B: GnnBackend>(
        &self,
        model: &LinkModel<B>,
        sources: &[u32],
        device: &B::Device,
    ) -> Result<LinkQueries<B>, TrainError> {
        let graph = self.node();
        let nodes = graph.handle().block_on(graph.find_originals(self.src.node_type(), sources))?;
        let rows = Tensor::from_data(pulled(&self.src, &nodes)?, device);
        Ok(model.decoder.query(rows, &vec![self.edge_type.0; sources.len()], EdgeEnd::Destination))
    }

    /// Returns the rows of destinations, which are distinct global ids.
    pub(super) fn destination_rows(&self, nodes: &[u32]) -> Result<TensorData, TrainError> {
        let values = self.node().handle().block_on(self.dst.pull(nodes))?;
        Ok(TensorData::new(values, [nodes.len(), self.dst.dim()]))
    }
}

/// Returns the rows of nodes, which are global ids. A row that several pairs read is requested once.
pub(crate) fn pulled(rows: &DistRows, nodes: &[u32]) -> Result<TensorData, TrainError> {
    let mut distinct = nodes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let dim = rows.dim();
    let values = rows.node().handle().block_on(rows.pull(&distinct))?;
    let mut of_all = Vec::with_capacity(nodes.len() * dim);
    for node in nodes {
        // Every node is in the sorted list.
        let at = distinct.partition_point(|other| other < node);
        of_all.extend_from_slice(&values[at * dim..][..dim]);
    }
    Ok(TensorData::new(of_all, [nodes.len(), dim]))
}

//! The rows of all nodes that an evaluation of links reads.

use super::config::LinkTrainingConfig;
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::inference::{
    InferenceProgress, InferenceStep, LayerWiseConfig, LayerWiseInput, LayeredModel, LinkEnds, layer_wise_types,
    pulled, write_rows,
};
use crate::models::{GraphSchema, LinkModel, Mode};
use burn::tensor::Tensor;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, Seeds};
use edgecut_dist_sampler::{DistGraph, DistRows, RowsWriter};
use edgecut_gnn::nn::EdgeEnd;
use edgecut_gnn::ops::{GnnBackend, consumed, host_values};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The maximum number of candidate rows in memory at once.
const CANDIDATES_AT_ONCE: usize = 1 << 16;

/// The computation of the rows of all nodes of some types by a model for links. Each node is computed once.
pub(super) struct NodeEncoder {
    graph: Arc<DistGraph>,
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    node_types: Vec<NodeTypeId>,
    neighborhoods: Neighborhoods,
}

/// The neighborhoods from which rows are computed.
enum Neighborhoods {
    /// All neighbors, layer by layer.
    LayerWise(LayerWiseConfig),
    /// Sampled neighbors: a loader of this rank's nodes for each type, and the folder of the rows' files.
    Sampled(BTreeMap<NodeTypeId, DistNeighborLoader>, LayerWiseConfig),
}

impl NodeEncoder {
    /// Prepares the computation for the end nodes of edges of some types. Every rank must call this.
    pub(super) fn new(
        graph: &Arc<DistGraph>,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        config: &LinkTrainingConfig,
        edge_types: &[EdgeTypeId],
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let training = &config.training;
        if graph.is_client() {
            return Err(TrainError::config(
                "servers compute no embeddings of all nodes: rank sampled destinations (`eval_negatives=100`) in sampled \
                 batches (`eval=sampled`)",
            ));
        }
        if training.sampler.temporal.is_some() {
            return Err(TrainError::config(
                "the neighbors of a node depend on the time of the edge, so embeddings cannot be computed for all edges \
                 at once: rank sampled destinations (`eval_negatives=100`) in sampled batches (`eval=sampled`)",
            ));
        }
        let ends = edge_types.iter().map(|&e| graph.part().edges(e)).flat_map(|edges| [edges.src_type, edges.dst_type]);
        let node_types: Vec<NodeTypeId> = ends.collect::<BTreeSet<_>>().into_iter().collect();
        let neighborhoods = match training.layer_wise()? {
            Some(limits) => Neighborhoods::LayerWise(limits),
            None => {
                let sampler = schema.sampler(graph, training.eval_sampler())?;
                let mut loaders = BTreeMap::new();
                for &node_type in &node_types {
                    let loader_config = training.eval_loader(options.wanted());
                    let loader =
                        DistNeighborLoader::new(sampler.clone(), node_type, Seeds::Owned, loader_config, world)?;
                    loaders.insert(node_type, loader);
                }
                Neighborhoods::Sampled(loaders, LayerWiseConfig::default())
            }
        };
        Ok(Self { graph: graph.clone(), schema: schema.clone(), options, node_types, neighborhoods })
    }

    /// Computes the rows. Every rank must call this.
    pub(super) fn encode<B: GnnBackend>(
        &self,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        progress: &dyn InferenceProgress,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<NodeRows, TrainError> {
        let (loaders, files) = match &self.neighborhoods {
            Neighborhoods::LayerWise(limits) => {
                let (graph, schema, options) = (&self.graph, &*self.schema, self.options);
                let input = LayerWiseInput { graph, schema, options, embeddings, progress };
                let passes = model.encoder.num_passes();
                let rows = layer_wise_types(&input, &model.encoder, (&self.node_types, passes), limits, world, device)?;
                let by_type = self.node_types.iter().copied().zip(rows.into_iter().map(Arc::new)).collect();
                return Ok(NodeRows { graph: self.graph.clone(), by_type });
            }
            Neighborhoods::Sampled(loaders, files) => (loaders, files),
        };
        let mut by_type = BTreeMap::new();
        let width = model.encoder.config().hidden_channels;
        for (&node_type, loader) in loaders {
            let writer = RowsWriter::create(&self.graph, node_type, width, &files.scratch_dir)?;
            let batches = tensor_batches::<B>(loader, 0, &self.schema, self.options, device);
            let first = InferenceStep { pass: 1, num_passes: 1, step: 1, num_steps: loader.num_steps() };
            let compute = |input| model.encode(&input, Mode::Eval);
            let rows = write_rows((embeddings, device), batches, compute, writer, (progress, first), world)?;
            by_type.insert(node_type, Arc::new(rows));
        }
        // All ranks have written their rows.
        world.barrier()?;
        Ok(NodeRows { graph: self.graph.clone(), by_type })
    }
}

/// The rows of all nodes of some types, which every rank can read.
pub(super) struct NodeRows {
    graph: Arc<DistGraph>,
    by_type: BTreeMap<NodeTypeId, Arc<DistRows>>,
}

impl NodeRows {
    /// Returns the rows of the nodes that an edge type connects.
    pub(super) fn ends(&self, edge_type: EdgeTypeId) -> Result<LinkEnds, TrainError> {
        let edges = self.graph.part().edges(edge_type);
        let [src, dst] = [self.of_type(edges.src_type)?, self.of_type(edges.dst_type)?];
        Ok(LinkEnds::new(edge_type, src.clone(), dst.clone()))
    }

    /// Returns the rows of all nodes of a type.
    pub(super) fn of_type(&self, node_type: NodeTypeId) -> Result<&Arc<DistRows>, TrainError> {
        self.by_type.get(&node_type).ok_or_else(|| TrainError::batch(format!("no rows of node type {}", node_type.0)))
    }

    /// Returns the rows of nodes of several types, given by type and global id, in their order.
    ///
    /// # Shapes
    /// - output: `[nodes.len(), channels]`, row-major
    pub(super) fn pull(&self, nodes: &[(NodeTypeId, u32)]) -> Result<Vec<f32>, TrainError> {
        let mut by_type: BTreeMap<NodeTypeId, (Vec<usize>, Vec<u32>)> = BTreeMap::new();
        for (position, &(node_type, id)) in nodes.iter().enumerate() {
            let (positions, ids) = by_type.entry(node_type).or_default();
            positions.push(position);
            ids.push(id);
        }
        let mut values = Vec::new();
        for (node_type, (positions, ids)) in by_type {
            let rows = self.of_type(node_type)?;
            let dim = rows.dim();
            values.resize(nodes.len() * dim, 0.0);
            let found = self.graph.handle().block_on(rows.pull(&ids))?;
            for (row, position) in found.chunks_exact(dim).zip(positions) {
                values[position * dim..(position + 1) * dim].copy_from_slice(row);
            }
        }
        Ok(values)
    }
}

/// A model for links with the rows of all nodes.
pub(super) struct RowScorer<'a, B: GnnBackend> {
    pub(super) model: &'a LinkModel<B>,
    pub(super) rows: &'a NodeRows,
    pub(super) device: &'a B::Device,
}

impl<B: GnnBackend> RowScorer<'_, B> {
    /// Returns the scores of edges of one type between each source and its `num` candidates, in global ids.
    ///
    /// # Shapes
    /// - `candidates`: `[sources.len(), num]`
    /// - output: `[sources.len(), num]`
    pub(super) fn scores(
        &self,
        edge_type: EdgeTypeId,
        (sources, candidates, num): (&[u32], &[u32], usize),
    ) -> Result<Vec<f32>, TrainError> {
        let &Self { model, rows, device } = self;
        let edges = rows.graph.part().edges(edge_type);
        let src_rows = rows.of_type(edges.src_type)?;
        let dst_rows = rows.of_type(edges.dst_type)?;
        // A block has whole rows of candidates, or a part of one row.
        let at_once = (CANDIDATES_AT_ONCE / num.max(1)).max(1);
        let mut scores = Vec::with_capacity(candidates.len());
        for (sources, candidates) in sources.chunks(at_once).zip(candidates.chunks(at_once * num.max(1))) {
            let types = vec![edge_type.0; sources.len()];
            let given = Tensor::<B, 2>::from_data(pulled(src_rows, sources)?, device);
            let queries = model.decoder.query(given, &types, EdgeEnd::Destination);
            for candidates in candidates.chunks(CANDIDATES_AT_ONCE) {
                let rows = Tensor::<B, 2>::from_data(pulled(dst_rows, candidates)?, device);
                scores.extend(host_values(model.decoder.score_own(&queries, rows)));
                consumed();
            }
        }
        Ok(scores)
    }
}

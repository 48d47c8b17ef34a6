//! Evaluation of models for nodes on rows that are computed layer by layer.

use super::task::NodeData;
use crate::batch_input::BatchOptions;
use crate::error::TrainError;
use crate::fit::{BatchResult, Evaluation, Outputs, SeedBatch};
use crate::inference::{LayerWiseConfig, LayerWiseInput, layer_wise};
use crate::loss::Target;
use crate::models::{GraphSchema, Mode, NodeClassifier};
use crate::training_config::TrainingConfig;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{DistGraph, DistRows, NodeFields};
use edgecut_gnn::ops::GnnBackend;
use edgecut_graph::{NodeTypeId, Split};
use std::sync::Arc;

/// The number of nodes that are judged at once.
const BLOCK: usize = 1 << 14;

/// The layer-wise evaluation of a graph's nodes.
pub(super) struct LayerWise {
    graph: Arc<DistGraph>,
    schema: Arc<GraphSchema>,
    seed_type: NodeTypeId,
    limits: LayerWiseConfig,
}

/// Outputs that are computed already.
pub(super) struct Computed<B: Backend>(Option<Outputs<B>>);

impl<B: GnnBackend, M> SeedBatch<B, M> for Computed<B> {
    fn compute(self, _model: &M, _mode: Mode) -> Result<Option<Outputs<B>>, TrainError> {
        Ok(self.0)
    }
}

impl LayerWise {
    /// Returns `None` if the configuration does not ask for it.
    pub(super) fn new(data: &NodeData, config: &TrainingConfig) -> Result<Option<Self>, TrainError> {
        let Some(limits) = config.layer_wise()? else { return Ok(None) };
        if data.graph.is_client() {
            return Err(TrainError::config("servers compute no layers: evaluate sampled batches (`eval=sampled`)"));
        }
        Ok(Some(Self { graph: data.graph.clone(), schema: data.schema.clone(), seed_type: data.seed_type, limits }))
    }

    /// Computes the outputs for all nodes. Every rank must call this.
    pub(super) fn logits<B: GnnBackend, M: NodeClassifier<B>>(
        &self,
        run: &mut Evaluation<'_, M>,
        options: BatchOptions,
        device: &B::Device,
    ) -> Result<DistRows, TrainError> {
        let Some(layered) = run.model.layered() else {
            let what = "the layers of this model cannot be computed one after the other: evaluate sampled batches \
                        (`eval=sampled`)";
            return Err(TrainError::config(what));
        };
        let input = LayerWiseInput {
            graph: &self.graph,
            schema: &self.schema,
            options,
            embeddings: run.embeddings,
            progress: run.progress,
        };
        layer_wise(&input, layered, (self.seed_type, layered.num_passes()), &self.limits, run.world, device)
    }

    /// Returns the outputs for the nodes of a split in batches, as many on each rank. Every rank must call this.
    pub(super) fn batches<'a, B: GnnBackend>(
        &self,
        split: Split,
        rows: &'a DistRows,
        world: &mut ProcessGroup,
        device: &B::Device,
    ) -> Result<impl Iterator<Item = BatchResult<Computed<B>>> + use<'a, B>, TrainError> {
        // Ranks that share parts divide their nodes as a loader does.
        let share = self.graph.seed_share();
        let nodes = self.graph.split_nodes(self.seed_type, split)?;
        let nodes: Vec<u32> = nodes.into_iter().skip(share.mine).step_by(share.sharers).collect();
        let mut steps = [nodes.len().div_ceil(BLOCK) as u64];
        world.all_reduce(&mut steps, ReduceOp::Max)?;
        let device = device.clone();
        Ok((0..steps[0] as usize).map(move |step| {
            let block = nodes.chunks(BLOCK).nth(step).unwrap_or_default();
            Ok(computed(rows, block, &device))
        }))
    }
}

/// Reads the outputs and targets of nodes.
fn computed<B: GnnBackend>(rows: &DistRows, nodes: &[u32], device: &B::Device) -> Result<Computed<B>, TrainError> {
    if nodes.is_empty() {
        return Ok(Computed(None));
    }
    let graph = rows.node();
    let wanted = NodeFields { labels: true, ..NodeFields::default() };
    let target = Target::of_nodes(graph.handle().block_on(graph.fetch(rows.node_type(), nodes.to_vec(), wanted))?);
    let values = graph.handle().block_on(rows.pull(nodes))?;
    let values = Tensor::from_data(TensorData::new(values, [nodes.len(), rows.dim()]), device);
    Ok(Computed(Some(Outputs { values, target })))
}

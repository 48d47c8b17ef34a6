//! Learnable embeddings of nodes.

mod loading;
mod neighbor_start;
mod source;

pub use source::EmbeddingSource;
pub(crate) use source::check_start;

use crate::batch_input::TensorBatch;
use crate::error::TrainError;
use crate::model_file::{EmbeddingTable, NamedTable};
use crate::models::GraphSchema;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistEmbedding, DistGraph, EmbeddingConfig, ShardState, ShardValues, SparseAdam};
use edgecut_gnn::ops::{GnnBackend, host_values};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// XORed with the run's seed for the initial values of embeddings.
const EMBEDDING_SEED: u64 = 0x656d_6265_6464_696e;

/// Learnable vectors for the nodes of the types without features, and of other types that the model's schema names. The
/// process that owns a node holds its vector. Each step fetches the vectors of its batch and sends their gradients back to the owners, which apply sparse Adam.
#[derive(Default)]
pub struct Embeddings {
    tables: Vec<DistEmbedding>,
    names: Vec<String>,
    /// By table, true if training keeps its values.
    frozen: Vec<bool>,
    /// True if the values of other tables are averaged.
    is_averaged: bool,
    graph: Option<Arc<DistGraph>>,
    /// The learning rate of a training without a schedule, and of the next step.
    initial_lr: f64,
    lr: f64,
}

/// The rows of all tables that one process holds.
pub type EmbeddingShards = Vec<ShardValues>;

/// The embedding rows that a batch reads, as part of the autodiff graph.
#[derive(Default)]
pub(crate) struct PulledRows<B: Backend> {
    /// Per table: its number, the nodes, and their vectors.
    rows: Vec<(usize, Vec<u32>, Tensor<B, 2>)>,
    /// The time that fetching the rows took.
    pub(crate) elapsed: Duration,
}

impl<B: Backend> PulledRows<B> {
    /// Adds the rows of another batch of the step.
    pub(crate) fn append(&mut self, other: Self) {
        self.rows.extend(other.rows);
        self.elapsed += other.elapsed;
    }
}

impl<B: AutodiffBackend> PulledRows<B> {
    /// Removes the gradients of each table's rows from `gradients` and returns them. The vector of a table is empty if
    /// the loss does not depend on it.
    pub(crate) fn take_gradients(&self, gradients: &mut B::Gradients) -> Vec<Vec<f32>> {
        let of_tables = self.rows.iter().map(|(_, _, rows)| rows.grad_remove(gradients));
        of_tables.map(|gradient| gradient.map(host_values).unwrap_or_default()).collect()
    }
}

impl Embeddings {
    /// Creates vectors for each node type with learned embeddings. Those of a type without features have `hidden_channels`
    /// values, unless the schema says another number. Every rank of `graph`'s job must call this, and a collective must
    /// follow before any rank reads.
    ///
    /// # Errors
    /// [`TrainError::Config`] for embeddings on a client of servers; a connection error.
    pub fn new(
        graph: &Arc<DistGraph>,
        schema: &GraphSchema,
        hidden_channels: usize,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let mut embeddings = Self { graph: Some(graph.clone()), ..Self::default() };
        for (nodes, t) in schema.node_types.iter().zip(0..) {
            let dim = nodes.embedding_width(hidden_channels);
            if dim == 0 {
                continue;
            }
            if graph.is_client() {
                let [have, without] = match nodes.feature_dim {
                    0 => ["have no features", "partition the dataset with features for these nodes"],
                    _ => ["have embeddings (`node_embeddings`)", "leave these embeddings out"],
                };
                return Err(TrainError::config(format!(
                    "nodes of type {} {have}, and servers keep no embeddings: train with the parts on this node \
                     (`dataset_root_dir`), or {without}",
                    nodes.name
                )));
            }
            // Keeps the expected norm of a vector independent of its width.
            let scale = 1.0 / (dim as f32).sqrt();
            let config = EmbeddingConfig { dim, seed: seed ^ EMBEDDING_SEED, scale };
            embeddings.tables.push(DistEmbedding::new(graph.clone(), NodeTypeId(t), config)?);
            embeddings.names.push(nodes.name.clone());
            embeddings.frozen.push(false);
        }
        Ok(embeddings)
    }

    /// Sets the learning rate that the schedule of a training starts from. Without it, steps change nothing.
    pub fn with_lr(self, lr: f64) -> Self {
        Self { initial_lr: lr, lr, ..self }
    }

    /// Sets the learning rate of the next step. `of_initial` computes it from the rate that the schedule starts from.
    pub(crate) fn schedule_lr(&mut self, of_initial: impl FnOnce(f64) -> f64) {
        self.lr = of_initial(self.initial_lr);
    }

    /// Returns whether there are no embeddings, because all node types have features.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the number of values in the embeddings of all nodes, over all ranks.
    pub(crate) fn num_values(&self) -> u64 {
        self.tables.iter().map(num_values).fold(0, u64::saturating_add)
    }

    /// Returns the number of these values that are not frozen.
    pub(crate) fn num_trained_values(&self) -> u64 {
        let trained = self.tables.iter().zip(&self.frozen).filter(|(_, frozen)| !**frozen);
        trained.map(|(table, _)| num_values(table)).fold(0, u64::saturating_add)
    }

    /// Keeps the values of the tables whose node types `is_frozen` selects. They get no gradients from then on.
    pub(crate) fn freeze(&mut self, is_frozen: impl Fn(&str) -> bool) {
        self.frozen = self.names.iter().map(|node_type| is_frozen(node_type)).collect();
    }

    /// Averages the tables that are not frozen over the steps of a training ([`DistEmbedding::average`]).
    pub(crate) fn average(&mut self, decay: f64) {
        for (table, _) in self.tables.iter_mut().zip(&self.frozen).filter(|(_, frozen)| !**frozen) {
            table.average(decay);
            self.is_averaged = true;
        }
    }

    /// Lets reads return averages, if there are some, or values again. Every rank must call this.
    ///
    /// # Errors
    /// A failure of the job.
    pub(crate) fn show_averages(&self, shown: bool, world: &mut ProcessGroup) -> Result<(), TrainError> {
        if !self.is_averaged {
            return Ok(());
        }
        // Other ranks may still read what this rank has shown so far, and read next when all ranks show the same.
        world.barrier()?;
        self.tables.iter().for_each(|table| table.show_averages(shown));
        world.barrier()?;
        Ok(())
    }

    /// Fetches the rows that a batch reads and adds them to the features of their node types.
    ///
    /// # Errors
    /// An error from a peer, or a batch of another graph.
    pub fn fill<B: Backend>(&self, batch: TensorBatch<B>, device: &B::Device) -> Result<TensorBatch<B>, TrainError> {
        Ok(self.pull(batch, device, |rows| rows)?.0)
    }

    /// Like [`Embeddings::fill`], but also returns the rows, which have gradients after a backward pass.
    pub(crate) fn pull_tracked<B: AutodiffBackend + GnnBackend>(
        &self,
        batch: TensorBatch<B>,
        device: &B::Device,
    ) -> Result<(TensorBatch<B>, PulledRows<B>), TrainError> {
        self.pull(batch, device, Tensor::require_grad)
    }

    fn pull<B: Backend>(
        &self,
        mut batch: TensorBatch<B>,
        device: &B::Device,
        track: impl Fn(Tensor<B, 2>) -> Tensor<B, 2>,
    ) -> Result<(TensorBatch<B>, PulledRows<B>), TrainError> {
        let start = Instant::now();
        let mut pulled = Vec::new();
        for (number, table) in self.tables.iter().enumerate() {
            let nodes = batch.take_embedded(table.node_type());
            if nodes.is_empty() {
                continue;
            }
            let values = self.wait(table.pull(&nodes))?;
            let rows = Tensor::from_data(TensorData::new(values, [nodes.len(), table.dim()]), device);
            if self.frozen[number] {
                batch = batch.with_embeddings(table.node_type(), rows)?;
                continue;
            }
            // Tracked before the model reads them: the backward pass then leaves their gradients on this tensor.
            let rows = track(rows);
            batch = batch.with_embeddings(table.node_type(), rows.clone())?;
            pulled.push((number, nodes, rows));
        }
        Ok((batch, PulledRows { rows: pulled, elapsed: start.elapsed() }))
    }

    /// Sends the gradients of pulled rows to the owners of the rows.
    pub(crate) fn push<B: Backend>(&self, pulled: &PulledRows<B>, gradients: &[Vec<f32>]) -> Result<(), TrainError> {
        for ((number, nodes, _), values) in pulled.rows.iter().zip(gradients) {
            // A row that the loss does not depend on has no gradient.
            if !values.is_empty() {
                self.wait(self.tables[*number].push(nodes, values))?;
            }
        }
        Ok(())
    }

    /// Applies the gradients that all ranks have pushed, multiplied by `scale`. A collective between push and step must
    /// ensure that all pushes have arrived.
    pub(crate) fn step(&mut self, scale: f32) {
        let lr = self.lr;
        let trained = self.tables.iter_mut().zip(&self.frozen).filter(|(_, frozen)| !**frozen);
        trained.for_each(|(table, _)| table.step(&SparseAdam::new(lr), scale));
    }

    /// Returns the tables with the names of their node types.
    pub fn named_tables(&self) -> Vec<NamedTable<'_>> {
        let mut named = Vec::with_capacity(self.tables.len());
        for (node_type, table) in self.names.iter().zip(&self.tables) {
            named.push(NamedTable { node_type, table });
        }
        named
    }

    /// Copies the rows that this process holds to `shards`, reusing its memory.
    pub fn copy_shards(&self, shards: &mut EmbeddingShards) {
        shards.resize_with(self.tables.len(), ShardValues::default);
        self.tables.iter().zip(shards).for_each(|(table, values)| table.copy_shard(values));
    }

    /// Returns copies of the rows that this process holds, with the moments of the optimizer.
    pub(crate) fn states(&self) -> Vec<ShardState> {
        self.tables.iter().map(DistEmbedding::state).collect()
    }

    /// Returns the original ids of the nodes whose rows this process holds, by table.
    pub(crate) fn held_ids(&self) -> Vec<Vec<u32>> {
        self.tables.iter().map(|table| table.held_ids().to_vec()).collect()
    }

    /// Replaces the rows that this process holds, their moments and the number of steps. Every rank calls this, and then
    /// waits for the others before it reads rows.
    pub(crate) fn set_states(&mut self, states: &[ShardState]) -> Result<(), TrainError> {
        if states.len() != self.tables.len() {
            let what = format!("the state has {} embeddings, but the model {}", states.len(), self.tables.len());
            return Err(TrainError::OtherState(what.into()));
        }
        let mut tables = self.tables.iter_mut().zip(states);
        tables.try_for_each(|(table, state)| Ok(table.set_state(state)?))
    }

    /// Restores the rows that [`Embeddings::copy_shards`] copied. All ranks must call this, with collectives before and
    /// after.
    pub fn restore(&mut self, shards: &EmbeddingShards) {
        self.tables.iter_mut().zip(shards).for_each(|(table, values)| table.restore(values));
    }

    /// Fetches all rows of all tables from all parts.
    ///
    /// # Errors
    /// An error from a peer.
    pub fn tables(&self) -> Result<Vec<EmbeddingTable>, TrainError> {
        let mut tables = Vec::with_capacity(self.tables.len());
        for (table, name) in self.tables.iter().zip(&self.names) {
            let values = self.wait(table.table())?;
            tables.push(EmbeddingTable { node_type: name.clone(), dim: table.dim(), values });
        }
        Ok(tables)
    }

    fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, edgecut_dist_sampler::SampleError>>,
    ) -> Result<T, TrainError> {
        match &self.graph {
            Some(graph) => Ok(graph.handle().block_on(work)?),
            None => Err(TrainError::Config { what: "these embeddings belong to no graph".into() }),
        }
    }
}

/// Returns the number of values in a table, over all ranks.
fn num_values(table: &DistEmbedding) -> u64 {
    (table.num_nodes() as u64).saturating_mul(table.dim() as u64)
}

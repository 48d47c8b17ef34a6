//! Learnable embeddings of nodes.

use crate::batch_input::TensorBatch;
use crate::error::{ModelError, TrainError};
use crate::model_file::{
    EmbeddingSize, EmbeddingTable, FreshTable, MatchedRows, NamedTable, NewEmbeddings, SavedEmbeddings, WantedRows,
    WarmStartReport, positions_by_id,
};
use crate::models::GraphSchema;
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::{
    DistEmbedding, DistGraph, EmbeddingConfig, SamplerConfig, ShardState, ShardValues, SparseAdam,
};
use edgecut_gnn::ops::{GnnBackend, host_values};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// XORed with the run's seed for the initial values of embeddings.
const EMBEDDING_SEED: u64 = 0x656d_6265_6464_696e;
/// The number of new nodes whose neighbors are read at once.
const NEW_NODES_AT_ONCE: usize = 1024;

/// Learnable vectors for the nodes of the types without features, and of other types that the model's schema names. The
/// process that owns a node holds its vector. Each step fetches the vectors of its batch and sends their gradients back to the owners, which apply sparse Adam.
#[derive(Default)]
pub struct Embeddings {
    tables: Vec<DistEmbedding>,
    names: Vec<String>,
    /// By table, true if training keeps its values.
    frozen: Vec<bool>,
    graph: Option<Arc<DistGraph>>,
    /// The learning rate of a training without a schedule, and of the next step.
    initial_lr: f64,
    lr: f64,
}

/// The rows of all tables that one process holds.
pub type EmbeddingShards = Vec<ShardValues>;

/// The source that embeddings are loaded from.
#[derive(Clone, Copy, Debug)]
pub enum EmbeddingSource<'a> {
    /// Tables in memory.
    Tables(&'a [EmbeddingTable]),
    /// A saved model.
    Saved(&'a SavedEmbeddings),
}

impl EmbeddingSource<'_> {
    /// Returns the random seed of rows of new nodes.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Self::Tables(_) => 0,
            Self::Saved(saved) => saved.seed(),
        }
    }

    /// Returns the source for batches of a sampler.
    ///
    /// # Errors
    /// The error of [`check_start`].
    pub(crate) fn read_by(self, sampler: &SamplerConfig) -> Result<Self, ModelError> {
        if let Self::Saved(saved) = self {
            check_start(saved.new_embeddings(), sampler)?;
        }
        Ok(self)
    }
}

/// Checks that the start of new rows counts no edges that are later than the seeds of a sampler. Each node has one row, for
/// seeds of all times.
///
/// # Errors
/// [`ModelError::Settings`] for a start from neighbors if neighbors are drawn by time.
pub(crate) fn check_start(start: Option<NewEmbeddings>, sampler: &SamplerConfig) -> Result<(), ModelError> {
    if start != Some(NewEmbeddings::Neighbors) || sampler.temporal.is_none() {
        return Ok(());
    }
    let what = "new embeddings that start from neighbors (`new_embeddings=neighbors`) would count edges of all times, also \
                edges later than a seed (`temporal`): choose another start (`new_embeddings=mean`)";
    Err(ModelError::Settings { what: what.into() })
}

impl<'a> From<&'a [EmbeddingTable]> for EmbeddingSource<'a> {
    fn from(tables: &'a [EmbeddingTable]) -> Self {
        Self::Tables(tables)
    }
}

impl<'a> From<&'a Vec<EmbeddingTable>> for EmbeddingSource<'a> {
    fn from(tables: &'a Vec<EmbeddingTable>) -> Self {
        Self::Tables(tables)
    }
}

impl<'a> From<&'a SavedEmbeddings> for EmbeddingSource<'a> {
    fn from(saved: &'a SavedEmbeddings) -> Self {
        Self::Saved(saved)
    }
}

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
    pub(crate) fn take_gradients(&self, gradients: &mut B::Gradients) -> Result<Vec<Vec<f32>>, TrainError> {
        let of_table = |(_, _, rows): &(usize, Vec<u32>, Tensor<B, 2>)| {
            let Some(gradient) = rows.grad_remove(gradients) else { return Ok(Vec::new()) };
            Ok(host_values(gradient))
        };
        self.rows.iter().map(of_table).collect()
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
        let named = |(node_type, table)| NamedTable { node_type, table };
        self.names.iter().map(String::as_str).zip(&self.tables).map(named).collect()
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
        let table = |(table, name): (&DistEmbedding, &String)| {
            let values = self.wait(table.table())?;
            Ok(EmbeddingTable { node_type: name.clone(), dim: table.dim(), values })
        };
        self.tables.iter().zip(&self.names).map(table).collect()
    }

    /// Loads the rows that this process holds. Saved rows find their nodes by the ids of the table, or by row numbers if
    /// these are the ids. All ranks must call this, with collectives before and after.
    ///
    /// # Errors
    /// [`TrainError::Config`] if a table is missing or has another size; [`TrainError::Model`] if a file is missing or
    /// corrupt, or if the rows belong to other nodes.
    pub fn load<'a>(
        &mut self,
        source: impl Into<EmbeddingSource<'a>>,
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        let saved = match source.into() {
            EmbeddingSource::Tables(tables) => return self.load_tables(tables),
            EmbeddingSource::Saved(saved) => saved,
        };
        self.check_effect(saved)?;
        let all = self.names.clone();
        for matched in self.load_tables_of(saved, &all, NewEmbeddings::Mean, world)? {
            if matched.known == 0 && matched.new > 0 && saved.new_embeddings().is_none() {
                return Err(saved.no_known_nodes(&matched.node_type).into());
            }
            if world.rank() == 0 {
                saved.tell(&matched);
            }
        }
        Ok(())
    }

    /// Loads the rows that this process holds of each table that has rows of the same width in a saved model, and adds to
    /// the report what was loaded. All ranks must call this, with collectives before and after.
    ///
    /// # Errors
    /// [`TrainError::Model`] if a file is missing or corrupt.
    pub(crate) fn load_matching(
        &mut self,
        saved: &SavedEmbeddings,
        report: &mut WarmStartReport,
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        self.check_effect(saved)?;
        let sizes = saved.sizes();
        let meta = self.graph.as_ref().map(|graph| graph.part().meta().clone());
        report.other_data = meta.as_ref().and_then(|meta| saved.other_data(meta));
        let mut fitting = Vec::new();
        for (table, name) in self.tables.iter().zip(&self.names) {
            let in_model = [table.num_nodes(), table.dim()];
            let in_file = sizes.iter().find(|size| size.node_type == *name);
            let in_file = in_file.map(|size| [size.num_nodes, size.dim]);
            let mut has_other_nodes = false;
            let mut is_fitting = in_file.is_some_and(|[_, dim]| dim == table.dim());
            if let Some(meta) = &meta {
                match saved.is_matched_by_ids(meta, name) {
                    Err(_) => has_other_nodes = true,
                    Ok(true) => {}
                    Ok(false) => is_fitting &= in_file == Some(in_model) || saved.may_differ(meta, name),
                }
            }
            if is_fitting && !has_other_nodes {
                fitting.push(name.clone());
            } else {
                report.fresh_tables.push(FreshTable { node_type: name.clone(), in_file, in_model, has_other_nodes });
            }
        }
        if fitting.is_empty() && saved.new_embeddings().is_some() {
            let what = "no embeddings of the saved model fit this model: leave out the start of new rows \
                        (`new_embeddings`), or give the embeddings the width of the saved ones"
                .into();
            return Err(TrainError::Config { what });
        }
        let unused = sizes.iter().filter(|size| !self.names.contains(&size.node_type));
        report.unused.extend(unused.map(|size| format!("embeddings.{}", size.node_type)));
        for matched in self.load_tables_of(saved, &fitting, NewEmbeddings::Random, world)? {
            if matched.known > 0 || saved.new_embeddings().is_some() {
                report.taken_tables.push(matched.node_type.clone());
                report.matched_tables.push(matched);
                continue;
            }
            // The rows keep their initial values.
            let size = sizes.iter().find(|size| size.node_type == matched.node_type);
            report.fresh_tables.push(FreshTable {
                in_file: size.map(|size| [size.num_nodes, size.dim]),
                in_model: size.map_or([0, 0], |size| [matched.new as usize, size.dim]),
                node_type: matched.node_type,
                has_other_nodes: true,
            });
        }
        Ok(())
    }

    /// Checks that the start of new embeddings, if it was chosen, has an effect.
    fn check_effect(&self, saved: &SavedEmbeddings) -> Result<(), TrainError> {
        if self.is_empty() && saved.new_embeddings().is_some() {
            let what = "the model has no embeddings of nodes: leave out their start (`new_embeddings`)";
            return Err(TrainError::config(what));
        }
        Ok(())
    }

    /// Loads the tables of some node types. Returns the matches over all ranks. New nodes have the start that was chosen for
    /// `saved`, or `default`.
    fn load_tables_of(
        &mut self,
        saved: &SavedEmbeddings,
        node_types: &[String],
        default: NewEmbeddings,
        world: &mut ProcessGroup,
    ) -> Result<Vec<MatchedRows>, TrainError> {
        let Some(graph) = self.graph.clone() else { return Ok(Vec::new()) };
        let meta = graph.part().meta();
        let start = saved.new_embeddings().unwrap_or(default);
        let mut matches = Vec::new();
        let mut counts = Vec::new();
        let mut failure = None;
        let mut new_rows = Vec::new();
        for (table, name) in self.tables.iter_mut().zip(&self.names).filter(|(_, name)| node_types.contains(name)) {
            let by_ids = saved.is_matched_by_ids(meta, name)?;
            match load_table(table, name, saved, by_ids, start) {
                Ok(loaded) => {
                    counts.extend([loaded.num_known, loaded.new.len() as u64]);
                    new_rows.push(loaded.new);
                }
                Err(error) => {
                    counts.extend([0; 2]);
                    failure.get_or_insert(error);
                }
            }
            let has_other_content = !by_ids && saved.has_other_content(meta, name);
            let node_type = name.clone();
            matches.push(MatchedRows {
                node_type,
                by_ids,
                known: 0,
                new: 0,
                gone: 0,
                start,
                lonely: 0,
                has_other_content,
            });
        }
        if matches.is_empty() {
            return Ok(matches);
        }
        // A rank without its rows meets the others too, which may have theirs.
        world.all_reduce(&mut counts, ReduceOp::Sum)?;
        if let Some(error) = failure {
            return Err(error);
        }
        let sizes = saved.sizes();
        for (matched, count) in matches.iter_mut().zip(counts.chunks_exact(2)) {
            let size = sizes.iter().find(|size| size.node_type == matched.node_type);
            matched.known = count[0];
            matched.new = count[1];
            matched.gone = size.map_or(0, |size| (size.num_nodes as u64).saturating_sub(matched.known));
        }
        if start == NewEmbeddings::Neighbors && matches.iter().any(|matched| matched.new > 0) {
            let lonely = self.start_from_neighbors(saved, &matches, &new_rows, world)?;
            matches.iter_mut().zip(lonely).for_each(|(matched, lonely)| matched.lonely = lonely);
        }
        Ok(matches)
    }

    /// Sets the rows of new nodes, which are not numbers yet, to the mean of the saved rows of their neighbors, or to the mean
    /// of the table. Returns the numbers of new nodes without known neighbors by table. All ranks must call this.
    fn start_from_neighbors(
        &mut self,
        saved: &SavedEmbeddings,
        matches: &[MatchedRows],
        new_rows: &[Vec<usize>],
        world: &mut ProcessGroup,
    ) -> Result<Vec<u64>, TrainError> {
        let mut starts = Vec::with_capacity(matches.len());
        for matched in matches.iter().filter(|matched| matched.new > 0) {
            if self.neighbor_tables(&matched.node_type, matches).is_empty() {
                return Err(TrainError::config(format!(
                    "no edges lead to nodes of type {} from nodes with saved embeddings of the same width, so that new nodes \
                     have no start: choose another one (`new_embeddings=mean`)",
                    matched.node_type
                )));
            }
        }
        for (matched, rows) in matches.iter().zip(new_rows) {
            starts.push(self.means_of_neighbors(saved, matches, &matched.node_type, rows));
        }
        // No rank changes rows before all ranks have read the rows of their neighbors.
        world.barrier()?;
        let mut lonely = Vec::with_capacity(matches.len());
        for ((matched, rows), start) in matches.iter().zip(new_rows).zip(starts) {
            let Starts { values, num_lonely } = start?;
            lonely.push(num_lonely);
            let of_type = self.names.iter().position(|name| *name == matched.node_type);
            let Some(table) = of_type.map(|number| &mut self.tables[number]) else { continue };
            let dim = table.dim();
            table.fill_rows(|set| -> Result<(), TrainError> {
                rows.iter().zip(values.chunks_exact(dim)).for_each(|(&row, values)| set(row, values));
                Ok(())
            })?;
        }
        world.all_reduce(&mut lonely, ReduceOp::Sum)?;
        Ok(lonely)
    }

    /// Returns the edge types into a node type whose sources have loaded rows of the same width, with the tables of these.
    fn neighbor_tables(&self, node_type: &str, loaded: &[MatchedRows]) -> Vec<(EdgeTypeId, &DistEmbedding)> {
        let Some(table) = self.table_of(node_type) else { return Vec::new() };
        let part = table.graph().part();
        let mut found = Vec::new();
        for edge_type in part.edge_type_ids().filter(|&e| part.edges(e).dst_type == table.node_type()) {
            let src_type = part.edges(edge_type).src_type;
            for (other, name) in self.tables.iter().zip(&self.names) {
                let is_of_sources = other.node_type() == src_type && other.dim() == table.dim();
                if is_of_sources && loaded.iter().any(|matched| matched.node_type == *name) {
                    found.push((edge_type, other));
                }
            }
        }
        found
    }

    fn table_of(&self, node_type: &str) -> Option<&DistEmbedding> {
        let number = self.names.iter().position(|name| name == node_type)?;
        self.tables.get(number)
    }

    /// Computes the starts of new nodes of a type, which are given by the numbers of their rows.
    fn means_of_neighbors(
        &self,
        saved: &SavedEmbeddings,
        loaded: &[MatchedRows],
        node_type: &str,
        rows: &[usize],
    ) -> Result<Starts, TrainError> {
        let mut starts = Starts::default();
        let Some(table) = self.table_of(node_type).filter(|_| !rows.is_empty()) else { return Ok(starts) };
        let dim = table.dim();
        let size = EmbeddingSize { node_type: node_type.to_owned(), num_nodes: table.num_nodes(), dim };
        let mean = saved.first_values(&size, NewEmbeddings::Mean)?.unwrap_or_default();
        let part = table.graph().part();
        let nodes = part.nodes(table.node_type());
        let tables = self.neighbor_tables(node_type, loaded);
        for rows in rows.chunks(NEW_NODES_AT_ONCE) {
            let mut sums = vec![0.0_f64; rows.len() * dim];
            let mut counts = vec![0_u64; rows.len()];
            for (edge_type, of_sources) in &tables {
                let csc = &part.edges(*edge_type).csc;
                let all = rows.iter().flat_map(|&row| csc.neighbors(nodes.row_at(row)));
                let sources: Vec<u32> = all.copied().collect::<BTreeSet<u32>>().into_iter().collect();
                let values = self.wait(of_sources.pull(&sources))?;
                for (at, &row) in rows.iter().enumerate() {
                    for source in csc.neighbors(nodes.row_at(row)) {
                        let position = sources.partition_point(|other| other < source);
                        let values = &values[position * dim..][..dim];
                        // A new node has no values yet.
                        if values.iter().any(|value| value.is_nan()) {
                            continue;
                        }
                        counts[at] += 1;
                        let sum = &mut sums[at * dim..][..dim];
                        sum.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
                    }
                }
            }
            for (sum, count) in sums.chunks_exact(dim).zip(counts) {
                if count == 0 {
                    starts.num_lonely += 1;
                    starts.values.extend_from_slice(&mean);
                } else {
                    starts.values.extend(sum.iter().map(|sum| (sum / count as f64) as f32));
                }
            }
        }
        Ok(starts)
    }

    fn load_tables(&mut self, given: &[EmbeddingTable]) -> Result<(), TrainError> {
        for (table, name) in self.tables.iter_mut().zip(&self.names) {
            let Some(values) = given.iter().find(|given| given.node_type == *name) else {
                return Err(TrainError::config(format!("the model has no embedding of node type {name}")));
            };
            let wrong = |source| TrainError::SavedEmbedding { node_type: name.clone(), source: Box::new(source) };
            table.load(&values.values).map_err(wrong)?;
        }
        Ok(())
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

/// The values of new nodes, row by row, and the number of new nodes without known neighbors.
#[derive(Default)]
struct Starts {
    values: Vec<f32>,
    num_lonely: u64,
}

/// The rows of a table that were loaded.
#[derive(Default)]
struct Loaded {
    num_known: u64,
    /// The numbers of the rows of new nodes.
    new: Vec<usize>,
}

/// Loads the rows of a table that this process holds. The rows of new nodes that start from their neighbors are NaN.
fn load_table(
    table: &mut DistEmbedding,
    name: &str,
    saved: &SavedEmbeddings,
    by_ids: bool,
    start: NewEmbeddings,
) -> Result<Loaded, TrainError> {
    let graph = table.graph().clone();
    let part = graph.part();
    let mut ids = None;
    if by_ids && table.own_nodes().is_some() {
        ids = Some(positions_by_id(&graph, table.node_type())?.ok_or_else(|| saved.unreadable_ids(name))?);
    }
    let nodes = part.nodes(table.node_type()).ascending_ids();
    let size = EmbeddingSize { node_type: name.to_owned(), num_nodes: table.num_nodes(), dim: table.dim() };
    let wanted = WantedRows {
        node_type: name,
        dim: size.dim,
        num_nodes: size.num_nodes,
        nodes: &nodes,
        first_shard: part.id().index(),
        ids,
        may_differ: saved.may_differ(part.meta(), name),
    };
    let mut loaded = Loaded::default();
    table.fill_rows(|set| -> Result<(), TrainError> {
        let new = saved.read_rows(&wanted, &mut *set)?;
        if !new.is_empty()
            && let Some(mut values) = saved.first_values(&size, start)?
        {
            if start == NewEmbeddings::Neighbors {
                values.fill(f32::NAN);
            }
            new.iter().for_each(|&position| set(position, &values));
        }
        loaded = Loaded { num_known: (nodes.len() - new.len()) as u64, new };
        Ok(())
    })?;
    Ok(loaded)
}

/// Returns the number of values in a table, over all ranks.
fn num_values(table: &DistEmbedding) -> u64 {
    (table.num_nodes() as u64).saturating_mul(table.dim() as u64)
}

//! An embedding that is sharded over all processes.

use crate::arrays::bytes_of;
use crate::dist_graph::DistGraph;
use crate::dist_graph::routing::{Elsewhere, Sources};
use crate::error::SampleError;
use crate::part::embedding_shard::{SetRow, Shard, Update};
use crate::part::requests::{PullRequest, PushRequest};
use crate::part::sparse_adam::SparseAdam;
use crate::rpc::peer::Peer;
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{GatheredRows, NodeTypeId, PartitionId};
use futures::future::{BoxFuture, try_join_all};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// The configuration of an embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingConfig {
    /// The number of values per node.
    pub dim: usize,
    /// The seed of the initial values, which depend only on it, the node type and a node's original id.
    pub seed: u64,
    /// The standard deviation of the initial values.
    pub scale: f32,
}

/// A learnable vector for each node of a type, sharded over the processes by the partition book. The process that owns
/// a node holds its vector and the optimizer's moments. Only the rows of a batch cross the network.
///
/// In each step every rank [pulls](DistEmbedding::pull) the rows of its batch, [pushes](DistEmbedding::push) their
/// gradients, takes part in a collective of all ranks, and calls [`DistEmbedding::step`]. A later pull waits until the
/// owner has taken the step.
///
/// ```
/// # let graph = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_node.rs"));
/// use edgecut_dist_sampler::{DistEmbedding, EmbeddingConfig, SparseAdam};
/// use edgecut_graph::NodeTypeId;
/// let config = EmbeddingConfig { dim: 2, seed: 1, scale: 0.1 };
/// let mut embedding = DistEmbedding::new(graph.clone(), NodeTypeId(0), config)?;
/// let before = graph.handle().block_on(embedding.pull(&[4]))?;
/// graph.handle().block_on(embedding.push(&[4], &[1.0, -1.0]))?;
/// // In a job of several ranks, a collective lies here.
/// embedding.step(&SparseAdam::new(0.1), 1.0);
/// let after = graph.handle().block_on(embedding.pull(&[4]))?;
/// assert!(after[0] < before[0] && after[1] > before[1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DistEmbedding {
    graph: Arc<DistGraph>,
    node_type: NodeTypeId,
    table: u32,
    dim: usize,
    shard: Option<Arc<Shard>>,
    /// By part, the client of the process that holds its rows, `None` for this process.
    owners: Vec<Option<Arc<Peer>>>,
    version: u64,
    /// The number of pieces pushed since the last step.
    pieces: AtomicU32,
}

/// A snapshot of the rows that a process holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardValues(Option<Vec<f32>>);

impl ShardValues {
    /// Makes a snapshot of these values; `None` for a process that holds no rows.
    pub fn new(values: Option<Vec<f32>>) -> Self {
        Self(values)
    }

    /// Returns the values, a row of the embedding's width per node; `None` if the process holds no rows.
    pub fn values(&self) -> Option<&[f32]> {
        self.0.as_deref()
    }
}

/// The state of the rows that a process holds: their values, the moments of the optimizer, averages, and the number of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardState {
    /// The number of steps that the embedding has taken.
    pub version: u64,
    /// For each row its values, first moments and second moments, and with averages what the values lack to their average, and
    /// the step of the last update as bits; `None` if the process holds no rows.
    pub rows: Option<Vec<f32>>,
}

impl DistEmbedding {
    /// Makes an embedding of the nodes of a type. Every rank must make its embeddings in the same order, and no rank
    /// may pull before all ranks have made them.
    ///
    /// # Errors
    /// [`SampleError::Layout`] for a dimension of 0, or an error of the connections.
    pub fn new(graph: Arc<DistGraph>, node_type: NodeTypeId, config: EmbeddingConfig) -> Result<Self, SampleError> {
        if config.dim == 0 {
            return Err(SampleError::Layout { what: "an embedding needs at least one value per node".into() });
        }
        let (_, mine) = graph.replicas();
        let part = graph.part().clone();
        let shard = (mine == 0).then(|| {
            let original_ids = &part.nodes(node_type).original_ids;
            let key = combine(config.seed, u64::from(node_type.0));
            let init = |row: usize, values: &mut [f32]| {
                let mut rng = CounterRng::new(combine(key, u64::from(original_ids[row])));
                values.iter_mut().for_each(|value| *value = config.scale * rng.gaussian());
            };
            Arc::new(Shard::new(original_ids.len(), config.dim, init))
        });
        let owner = |p: u32| {
            let rank = graph.first_holder(p);
            if rank == graph.cluster().rank() { Ok(None) } else { graph.peer_of(p, rank).map(Some) }
        };
        let owners = (0..part.meta().num_parts).map(owner).collect::<Result<_, _>>()?;
        let table = graph.shards.add(shard.clone());
        Ok(Self { graph, node_type, table, dim: config.dim, shard, owners, version: 0, pieces: AtomicU32::new(0) })
    }

    /// Returns the graph of the nodes.
    pub fn graph(&self) -> &Arc<DistGraph> {
        &self.graph
    }

    /// Returns the type of the nodes.
    pub fn node_type(&self) -> NodeTypeId {
        self.node_type
    }

    /// Returns the number of values per node.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the vectors of nodes, which are global ids, in their order.
    ///
    /// # Shapes
    /// - output: `[nodes.len(), dim]`, row-major
    ///
    /// # Errors
    /// An error of a peer, or a peer that has not taken its last step before the deadline of the request.
    pub fn pull<'a>(&'a self, nodes: &'a [u32]) -> BoxFuture<'a, Result<Vec<f32>, SampleError>> {
        Box::pin(async move {
            let sources = self.sources(nodes);
            let per_piece = self.rows_per_piece();
            let mut pieces = Vec::new();
            for (part, owner) in self.owners.iter().enumerate() {
                let Some(owner) = owner else { continue };
                let asked = &sources[part];
                for (rows, positions) in asked.rows.chunks(per_piece).zip(asked.positions.chunks(per_piece)) {
                    pieces.push(async move {
                        let reply_bytes = rows.len() * self.dim * size_of::<f32>();
                        let rows = bytes_of(rows.to_vec());
                        let request = PullRequest { table: self.table, version: self.version, rows };
                        let data = owner.ask(request, Some(reply_bytes)).await?;
                        Ok::<_, SampleError>((positions, data))
                    });
                }
            }
            let replies = try_join_all(pieces).await?;
            let mut values = vec![0.0; nodes.len() * self.dim];
            let mut place = |positions: &[u32], rows: &[f32]| {
                for (&position, row) in positions.iter().zip(rows.chunks_exact(self.dim)) {
                    values[position as usize * self.dim..][..self.dim].copy_from_slice(row);
                }
            };
            if let Some(shard) = &self.shard {
                let own = &sources[self.graph.part().id().index()];
                self.wait_for(shard).await?;
                place(&own.positions, &shard.read(&own.rows));
            }
            for (positions, data) in replies {
                place(positions, &floats(&data));
            }
            Ok(values)
        })
    }

    /// Sends the gradients of nodes to their owners, for the next step. Gradients that are pushed for a node several
    /// times, by this or other ranks, are added up.
    ///
    /// # Shapes
    /// - `gradients`: `[nodes.len(), dim]`, row-major
    ///
    /// # Errors
    /// [`SampleError::Layout`] for gradients of the wrong length, or an error of a peer. An owner refuses gradients of
    /// a step that it has already taken or that is more than one step ahead.
    pub fn push<'a>(&'a self, nodes: &'a [u32], gradients: &'a [f32]) -> BoxFuture<'a, Result<(), SampleError>> {
        Box::pin(async move {
            if gradients.len() != nodes.len() * self.dim {
                let what = format!(
                    "{} gradient values do not match {} nodes of {} values each",
                    gradients.len(),
                    nodes.len(),
                    self.dim
                );
                return Err(SampleError::Layout { what });
            }
            let own_rank = self.graph.cluster().rank() as u32;
            let sources = self.sources(nodes);
            let per_piece = self.rows_per_piece();
            let mut pieces = Vec::new();
            for (part, owner) in self.owners.iter().enumerate() {
                let asked = &sources[part];
                let Some(owner) = owner else {
                    if let Some(shard) = &self.shard {
                        let own = self.update(gradients, &asked.rows, &asked.positions);
                        shard
                            .push(self.version, (own_rank, self.next_piece()), own)
                            .map_err(|what| SampleError::Layout { what })?;
                    }
                    continue;
                };
                let chunks = asked.rows.chunks(per_piece).zip(asked.positions.chunks(per_piece));
                for (rows, positions) in chunks {
                    let Update { rows: mut words, gradients } = self.update(gradients, rows, positions);
                    words.extend(gradients.iter().map(|gradient| gradient.to_bits()));
                    let request = PushRequest {
                        table: self.table,
                        version: self.version,
                        piece: self.next_piece(),
                        num_rows: rows.len() as u32,
                        data: bytes_of(words),
                    };
                    pieces.push(owner.ask(request, Some(0)));
                }
            }
            try_join_all(pieces).await.map(|_| ())
        })
    }

    /// Returns the update of rows, whose gradients have the given positions among `gradients`.
    fn update(&self, gradients: &[f32], rows: &[u32], positions: &[u32]) -> Update {
        let mut of_rows = Vec::with_capacity(rows.len() * self.dim);
        for &position in positions {
            of_rows.extend_from_slice(&gradients[position as usize * self.dim..][..self.dim]);
        }
        Update { rows: rows.to_vec(), gradients: of_rows }
    }

    /// Returns the number of the next piece of this step.
    fn next_piece(&self) -> u32 {
        self.pieces.fetch_add(1, Ordering::Relaxed)
    }

    /// Applies the gradients that all ranks have pushed, multiplied by `scale`, to the rows that this process holds. A
    /// collective of all ranks must lie between the pushes and this call.
    pub fn step(&mut self, optimizer: &SparseAdam, scale: f32) {
        if let Some(shard) = &self.shard {
            shard.step(optimizer, scale);
        }
        self.version += 1;
        *self.pieces.get_mut() = 0;
    }

    /// Averages the rows over the steps from now on: `average = decay * average + (1 - decay) * value` after each step, from the
    /// values after the first step on, also for the rows without gradients. Rows that are restored or loaded start anew. Every
    /// rank must call this before the first step.
    pub fn average(&mut self, decay: f64) {
        if let Some(shard) = &self.shard {
            shard.average(decay);
        }
    }

    /// Lets all reads of the rows that this process holds return their averages, or their values again. Every rank must call
    /// this, with collectives before and after.
    pub fn show_averages(&self, shown: bool) {
        if let Some(shard) = &self.shard {
            shard.show_averages(shown);
        }
    }

    /// Copies the values that this process holds to `values` and reuses its memory.
    pub fn copy_shard(&self, values: &mut ShardValues) {
        let Some(shard) = &self.shard else {
            values.0 = None;
            return;
        };
        let copy = values.0.get_or_insert_default();
        copy.resize(shard.num_rows() * self.dim, 0.0);
        shard.read_range(0..shard.num_rows(), copy);
    }

    /// Returns a copy of the values that this process holds.
    pub fn shard_values(&self) -> ShardValues {
        let mut values = ShardValues::default();
        self.copy_shard(&mut values);
        values
    }

    /// Copies the state of the rows that this process holds, for [`set_state`](Self::set_state).
    pub fn state(&self) -> ShardState {
        ShardState { version: self.version, rows: self.shard.as_ref().map(|shard| shard.state()) }
    }

    /// Returns the original ids of the nodes whose rows this process holds, in their order; empty if it holds none.
    pub fn held_ids(&self) -> &[u32] {
        match self.shard {
            Some(_) => &self.graph.part().nodes(self.node_type).original_ids,
            None => &[],
        }
    }

    /// Replaces the rows that this process holds, their moments and the number of steps. Every rank must call this with
    /// a state of the same step, and no rank may pull before all ranks have called it.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if the state is that of other rows.
    pub fn set_state(&mut self, state: &ShardState) -> Result<(), SampleError> {
        let held = self.shard.as_ref().map(|shard| shard.state_len());
        let given = state.rows.as_ref().map(Vec::len);
        if held != given {
            let what = format!(
                "{} stored values of an embedding do not match the {} that this process holds",
                given.unwrap_or(0),
                held.unwrap_or(0)
            );
            return Err(SampleError::Layout { what });
        }
        if let (Some(shard), Some(rows)) = (&self.shard, &state.rows) {
            shard.set_state(state.version, rows);
        }
        self.version = state.version;
        *self.pieces.get_mut() = 0;
        Ok(())
    }

    /// Returns the number of nodes of the type, over all processes.
    pub fn num_nodes(&self) -> usize {
        self.graph.part().meta().node_types[self.node_type.index()].book.num_nodes()
    }

    /// Returns the original ids of the nodes whose rows this process holds, ascending. Returns `None` if another
    /// process that shares the part holds them.
    pub fn own_nodes(&self) -> Option<Cow<'_, [u32]>> {
        self.shard.as_ref().map(|_| self.graph.part().nodes(self.node_type).ascending_ids())
    }

    /// Copies a range of the rows that this process holds, in the order of [`DistEmbedding::own_nodes`].
    ///
    /// # Shapes
    /// - `values`: `[rows.len(), dim]`, row-major
    ///
    /// # Errors
    /// [`SampleError::Layout`] for rows that this process does not hold, or for `values` of the wrong length.
    pub fn read_rows(&self, rows: Range<usize>, values: &mut [f32]) -> Result<(), SampleError> {
        let held = self.shard.as_ref().map_or(0, |shard| shard.num_rows());
        if rows.start > rows.end || rows.end > held || values.len() != rows.len() * self.dim {
            let what = format!(
                "rows {rows:?} of {held} were requested, with {} values of {} per row as output",
                values.len(),
                self.dim
            );
            return Err(SampleError::Layout { what });
        }
        if let Some(shard) = &self.shard {
            match &self.graph.part().nodes(self.node_type).by_original {
                None => shard.read_range(rows, values),
                Some(order) => values.copy_from_slice(&shard.read(&order[rows])),
            }
        }
        Ok(())
    }

    /// Calls `write` to set the rows that this process holds, numbered in the order of [`DistEmbedding::own_nodes`],
    /// with `dim` values each. All ranks must call this together, with collectives before and after. Moments are reset.
    /// Does nothing in a process that holds no rows.
    ///
    /// # Errors
    /// The errors of `write`. Some rows may already be set then.
    ///
    /// # Panics
    /// If `write` sets a row that this process does not hold, or passes the wrong number of values.
    pub fn fill_rows<E>(&mut self, write: impl FnOnce(SetRow<'_>) -> Result<(), E>) -> Result<(), E> {
        self.version = 0;
        *self.pieces.get_mut() = 0;
        let nodes = self.graph.part().nodes(self.node_type);
        let Some(shard) = &self.shard else { return Ok(()) };
        shard.fill(|set| write(&mut |position, values| set(nodes.row_at(position), values)))
    }

    /// Restores values from [`DistEmbedding::shard_values`]. All ranks must call this together, with collectives before
    /// and after. Moments are reset.
    pub fn restore(&mut self, values: &ShardValues) {
        if let (Some(shard), Some(values)) = (&self.shard, &values.0) {
            shard.replace(values);
        }
        self.version = 0;
        *self.pieces.get_mut() = 0;
    }

    /// Sets the rows that this process holds from a table of all nodes by original id, as returned by
    /// [`DistEmbedding::table`]. All ranks must call this together.
    ///
    /// # Shapes
    /// - `table`: `[num_nodes, dim]`, row-major
    ///
    /// # Errors
    /// [`SampleError::Layout`] for a table of the wrong length.
    pub fn load(&mut self, table: &[f32]) -> Result<(), SampleError> {
        let part = self.graph.part();
        let num_nodes = self.num_nodes();
        if table.len() != num_nodes * self.dim {
            let what = format!(
                "an embedding of {} values does not match {num_nodes} nodes of {} values each",
                table.len(),
                self.dim
            );
            return Err(SampleError::Layout { what });
        }
        let own = part.nodes(self.node_type).original_ids.iter();
        let values = own.flat_map(|&id| &table[id as usize * self.dim..][..self.dim]).copied().collect();
        self.restore(&ShardValues(self.shard.is_some().then_some(values)));
        Ok(())
    }

    /// Returns the vectors of all nodes by original id, fetched from all parts in bounded pieces.
    ///
    /// # Shapes
    /// - output: `[num_nodes, dim]`, row-major
    ///
    /// # Errors
    /// The errors of [`DistEmbedding::pull`].
    pub fn table(&self) -> BoxFuture<'_, Result<Vec<f32>, SampleError>> {
        Box::pin(async move {
            let num_nodes = self.graph.part().meta().node_types[self.node_type.index()].book.num_nodes() as u32;
            let mut table = vec![0.0; num_nodes as usize * self.dim];
            let per_piece = (self.rows_per_piece() as u32).saturating_mul(4);
            for start in (0..num_nodes).step_by(per_piece as usize) {
                let nodes: Vec<u32> = (start..num_nodes.min(start.saturating_add(per_piece))).collect();
                let values = self.pull(&nodes).await?;
                let originals = self.graph.original_ids(self.node_type, nodes).await?;
                for (&id, row) in originals.iter().zip(values.chunks_exact(self.dim)) {
                    let Some(place) = table.get_mut(id as usize * self.dim..(id as usize + 1) * self.dim) else {
                        let what = format!("a peer returned original id {id}, but the graph has {num_nodes} nodes");
                        return Err(SampleError::NoSuchNode { what });
                    };
                    place.copy_from_slice(row);
                }
            }
            Ok(table)
        })
    }

    async fn wait_for(&self, shard: &Shard) -> Result<(), SampleError> {
        let deadline = self.graph.config.rpc_timeout();
        loop {
            let start = Instant::now();
            if tokio::time::timeout(deadline, shard.wait_for(self.version)).await.is_ok() {
                return Ok(());
            }
            // A suspension of this process does not count against the deadline.
            if !self.graph.cluster().was_suspended_since(start) {
                let what = format!("the embedding did not reach step {}: step() was not called", self.version);
                return Err(SampleError::Internal { what });
            }
        }
    }

    fn rows_per_piece(&self) -> usize {
        (self.graph.config.fetch_chunk_bytes / (self.dim * size_of::<f32>())).max(1)
    }

    /// Returns the rows of `nodes` by part, including this process's part.
    fn sources(&self, nodes: &[u32]) -> Vec<Elsewhere> {
        let part = self.graph.part();
        let book = &part.meta().node_types[self.node_type.index()].book;
        let own: PartitionId = part.id();
        let Sources { own: rows, mut others, .. } = Sources::new(book, own, nodes, None, &[]);
        let mine = &mut others[own.index()];
        for (position, &row) in rows.iter().enumerate().filter(|&(_, &row)| row != GatheredRows::ELSEWHERE) {
            mine.rows.push(row);
            mine.positions.push(position as u32);
        }
        others
    }
}

/// Returns the values of a reply, whose length was checked. Copies only if the bytes are misaligned.
pub(crate) fn floats(data: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(data) {
        Ok(values) => values.into(),
        Err(_) => bytemuck::pod_collect_to_vec::<u8, f32>(data).into(),
    }
}

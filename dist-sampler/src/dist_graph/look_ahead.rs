//! A cache of other parts' features that follows the batches to come.

use crate::cache::look_ahead::{CacheMoves, CachePlan};
use crate::config::cache_size::CacheSize;
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use bytes::Bytes;
use edgecut_cluster::ReduceOp;
use edgecut_graph::{FeatureDtype, GatheredRows, NodeTypeId};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The settings of a cache that follows the batches to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookAhead {
    /// The limit on the rows of a machine.
    pub size: CacheSize,
    /// The number of batches whose neighborhoods are sampled ahead.
    pub num_batches: usize,
}

/// The cache of a process. One epoch at a time uses it.
pub(crate) struct LookAheadCache {
    num_batches: usize,
    /// The limit of this process.
    max_bytes: u64,
    /// Absent while an epoch uses it.
    state: StateSlot,
}

type StateSlot = Arc<Mutex<Option<State>>>;

/// The rows of a cache and what is known about them.
#[derive(Default)]
struct State {
    /// By node type.
    plans: Vec<CachePlan>,
    rows: Arc<Mutex<Vec<CachedRows>>>,
    is_divided: bool,
}

/// The rows of a node type, by slot.
#[derive(Default)]
struct CachedRows {
    /// The rows as stored, in words that are aligned for every type.
    words: Vec<u64>,
    row_bytes: usize,
}

/// The use of a process's cache by an epoch. Batches enter it in order when their neighborhoods are known, and leave it in
/// order when their features are fetched. See [`DistGraph::look_ahead_of_epoch`].
pub struct LookAheadEpoch {
    graph: Arc<DistGraph>,
    state: Lease,
    /// The end of the last batch that has left.
    last: Option<Turn>,
}

/// A turn at the rows of a cache. Batches take turns in order.
type Turn = Shared<oneshot::Receiver<()>>;

/// The state of a cache during an epoch.
struct Lease {
    slot: StateSlot,
    state: State,
    /// True once all batches have stored their rows. Otherwise the cache is empty afterwards.
    is_complete: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let state = std::mem::take(&mut self.state);
        *locked(&self.slot) = Some(if self.is_complete { state } else { State::default() });
    }
}

/// The rows of a batch that come from a cache and go to it.
pub struct CachedFetch {
    /// By node type.
    moves: Vec<Moves>,
    rows: Arc<Mutex<Vec<CachedRows>>>,
    before: Option<Turn>,
    end: Mutex<Option<End>>,
}

/// By position among the nodes of a batch, a slot or [`GatheredRows::ELSEWHERE`]. Empty if no row has one.
#[derive(Default)]
struct Moves {
    read: Vec<u32>,
    stored: Vec<u32>,
}

struct End {
    after: oneshot::Sender<()>,
    /// The state of the cache, if this is the last batch of the epoch.
    state: Option<Lease>,
}

impl DistGraph {
    /// Keeps rows of other parts' nodes in memory that the next batches use, as many as `look_ahead` allows. Later
    /// epochs of loaders sample neighborhoods ahead, and keep the rows whose next use is nearest. All processes of this
    /// machine must call this, and share the limit in equal parts. Must not be called from async code.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if this process has a cache already or `num_batches` is 0, or an error of a peer.
    pub fn look_ahead(&self, look_ahead: LookAhead) -> Result<(), SampleError> {
        let LookAhead { size, num_batches } = look_ahead;
        if num_batches == 0 {
            return Err(SampleError::Layout { what: "a cache must look ahead at least one batch".into() });
        }
        if self.cached.get().is_some() {
            return Err(SampleError::Layout { what: "this process already has a cache of features".into() });
        }
        let mut local = self.cluster().local_group()?;
        let mut limit = [size.bytes(self.remote_feature_bytes())];
        local.all_reduce(&mut limit, ReduceOp::Max)?;
        let max_bytes = limit[0] / local.size() as u64;
        let state = Arc::new(Mutex::new(Some(State::default())));
        match self.look_ahead.set(LookAheadCache { num_batches, max_bytes, state }) {
            Ok(()) => Ok(()),
            Err(_) => Err(SampleError::Layout { what: "this process already has a cache that looks ahead".into() }),
        }
    }

    /// Starts an epoch with the cache. Returns `None` without such a cache, or if another epoch uses it.
    pub fn look_ahead_of_epoch(self: &Arc<Self>) -> Option<LookAheadEpoch> {
        let slot = &self.look_ahead.get()?.state;
        let mut state = locked(slot).take()?;
        state.plans.resize_with(self.part().meta().node_types.len(), CachePlan::default);
        state.plans.iter_mut().for_each(CachePlan::restart);
        Some(LookAheadEpoch {
            graph: self.clone(),
            state: Lease { slot: slot.clone(), state, is_complete: false },
            last: None,
        })
    }
}

impl LookAheadEpoch {
    /// Returns the number of batches that are sampled ahead.
    pub fn num_batches(&self) -> usize {
        self.graph.look_ahead.get().map_or(1, |cache| cache.num_batches)
    }

    /// Adds the next batch. `nodes` are the global ids of its nodes by type. There may be fewer types than in the graph.
    pub fn enter<'a>(&mut self, nodes: impl Iterator<Item = &'a [u32]>) {
        let part = self.graph.part();
        let mut nodes = nodes.fuse();
        for (t, plan) in self.state.state.plans.iter_mut().enumerate() {
            let nodes = nodes.next().filter(|_| part.meta().node_types[t].feature_dim > 0).unwrap_or_default();
            let own = part.owned(NodeTypeId(t as u16));
            plan.enter((0..).zip(nodes.iter().copied()).filter(|(_, node)| !own.contains(node)));
        }
    }

    /// Takes out the first batch that has not left. `sizes` are the numbers of its nodes by type.
    ///
    /// # Panics
    /// If no batch is left.
    pub fn leave(&mut self, sizes: impl Iterator<Item = usize>) -> CachedFetch {
        self.divide();
        let mut sizes = sizes.fuse();
        let state = &mut self.state.state;
        let mut moves = Vec::with_capacity(state.plans.len());
        for plan in &mut state.plans {
            let CacheMoves { read, stored } = plan.leave();
            let size = sizes.next().unwrap_or_default();
            moves.push(Moves { read: by_position(&read, size), stored: by_position(&stored, size) });
        }
        let (after, done) = oneshot::channel();
        let before = self.last.replace(done.shared());
        let end = Mutex::new(Some(End { after, state: None }));
        CachedFetch { moves, rows: state.rows.clone(), before, end }
    }

    /// Ends the epoch with `last`, its last batch: the next epoch may use the cache once this batch is finished.
    pub fn end(self, last: &CachedFetch) {
        if let Some(end) = locked(&last.end).as_mut() {
            end.state = Some(self.state);
        }
    }

    /// Divides the limit among the node types, in proportion to the bytes that the batches which have entered use. Later
    /// epochs keep the division.
    fn divide(&mut self) {
        let state = &mut self.state.state;
        if state.is_divided {
            return;
        }
        let max_bytes = self.graph.look_ahead.get().map_or(0, |cache| cache.max_bytes);
        let node_types = &self.graph.part().meta().node_types;
        let used = |plan: &CachePlan, t: usize| plan.num_nodes() as f64 * node_types[t].feature_bytes() as f64;
        let total: f64 = state.plans.iter().enumerate().map(|(t, plan)| used(plan, t)).sum();
        if total == 0.0 {
            return;
        }
        state.is_divided = true;
        let mut rows = Vec::with_capacity(node_types.len());
        for (t, plan) in state.plans.iter_mut().enumerate() {
            let row_bytes = node_types[t].feature_bytes();
            let share = max_bytes as f64 * used(plan, t) / total;
            let num_others = node_types[t].book.num_nodes() - self.graph.part().owned(NodeTypeId(t as u16)).len();
            let num_slots = ((share / row_bytes.max(1) as f64) as usize).min(num_others);
            plan.set_num_slots(num_slots);
            let words = vec![0; (num_slots * row_bytes).div_ceil(size_of::<u64>())];
            rows.push(CachedRows { words, row_bytes });
        }
        *locked(&state.rows) = rows;
    }
}

/// Rows of a reply and the positions of their nodes.
pub(crate) struct StoredReply {
    pub(crate) data: Bytes,
    /// Pairs of a position and a row of the reply.
    pub(crate) rows: Vec<(u32, u32)>,
}

impl CachedFetch {
    /// Returns the slots of the nodes of a type that are read from the cache, by position.
    pub(crate) fn read_slots(&self, node_type: NodeTypeId) -> &[u32] {
        &self.moves[node_type.index()].read
    }

    /// Returns the rows of a reply that go to the cache. `rows` are pairs of a position and a row of the reply.
    pub(crate) fn to_store(
        &self,
        node_type: NodeTypeId,
        data: &Bytes,
        rows: impl Iterator<Item = (u32, u32)>,
    ) -> Option<StoredReply> {
        let stored = &self.moves[node_type.index()].stored;
        if stored.is_empty() {
            return None;
        }
        let rows = rows.filter(|&(position, _)| stored[position as usize] != GatheredRows::ELSEWHERE).collect();
        Some(StoredReply { data: data.clone(), rows })
    }

    /// Waits until the batches before have their rows.
    pub(crate) async fn wait_for_turn(&self) -> Result<(), SampleError> {
        let Some(before) = self.before.clone() else { return Ok(()) };
        before.await.map_err(|source| SampleError::process("wait for the batch before", source))
    }

    /// Copies the rows of a type from the cache to `features`, then stores rows of replies. The batch must have its turn.
    pub(crate) fn exchange(
        &self,
        node_type: NodeTypeId,
        dtype: FeatureDtype,
        features: &GatheredRows,
        replies: &[StoredReply],
    ) {
        let Moves { read, stored } = &self.moves[node_type.index()];
        if read.is_empty() && stored.is_empty() {
            return;
        }
        let mut rows = locked(&self.rows);
        let CachedRows { words, row_bytes } = &mut rows[node_type.index()];
        if !read.is_empty() {
            features.gather_stored(bytemuck::cast_slice(words), dtype, read);
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        for StoredReply { data, rows } in replies {
            for &(position, row) in rows {
                let slot = stored[position as usize] as usize;
                let row = &data[row as usize * *row_bytes..][..*row_bytes];
                bytes[slot * *row_bytes..][..*row_bytes].copy_from_slice(row);
            }
        }
    }

    /// Gives the turn to the next batch, after the batches before. A batch that is dropped earlier fails the batches after
    /// it.
    ///
    /// # Errors
    /// An error if a batch before has failed.
    pub fn finish(&self) -> BoxFuture<'_, Result<(), SampleError>> {
        Box::pin(async move {
            self.wait_for_turn().await?;
            let Some(End { after, state }) = locked(&self.end).take() else { return Ok(()) };
            if let Some(mut lease) = state {
                lease.is_complete = true;
            }
            // Without a next batch, nobody waits.
            let _ = after.send(());
            Ok(())
        })
    }
}

/// Returns the slot of each position, or nothing if no position has one.
fn by_position(pairs: &[(u32, u32)], size: usize) -> Vec<u32> {
    if pairs.is_empty() {
        return Vec::new();
    }
    let mut slots = vec![GatheredRows::ELSEWHERE; size];
    for &(position, slot) in pairs {
        slots[position as usize] = slot;
    }
    slots
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! All-reduce, with a choice of algorithm by data size and number of ranks.
//!
//! * Small data, where latency dominates, takes recursive doubling; [`doubling::pays`] decides.
//! * Small data of two or three ranks is gathered round the ring, and each rank reduces all vectors itself.
//! * Large data takes the ring all-reduce.
//!
//! In each algorithm the order in which contributions are combined depends only on the length and on the ranks, so the
//! result has the same bits on every rank and in every run.

use std::marker::PhantomData;

use crate::collectives::doubling;
use crate::collectives::doubling_transfer::Sum;
use crate::collectives::group::ProcessGroup;
use crate::collectives::header::{CollectiveKind, Header};
use crate::collectives::reduce::{Reduce, ReduceOp, element_code};
use crate::collectives::ring;
use crate::collectives::transfer::{CopyOnly, Merge};
use crate::collectives::transfer_plan::TransferPlan;
use crate::error::ClusterError;

/// The most bytes, over all ranks together, that two or three ranks gather round the ring.
const MAX_PASSED_BYTES: usize = 128 * 1024;
/// The largest chunk of a ring all-reduce: large enough to need few system calls, small enough that all chunks in
/// flight fit into a core's cache.
const MAX_CHUNK_BYTES: usize = 128 * 1024;
/// The smallest chunk if a vector is cut into several blocks. Smaller ones need too many system calls.
const MIN_CHUNK_BYTES: usize = 64 * 1024;
/// The target size of all chunks in flight: a part of a core's second-level cache.
const CACHED_BYTES: usize = 1024 * 1024;

/// An algorithm of the all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    /// Recursive doubling.
    Doubling,
    /// Each vector goes round the ring, and each rank reduces all of them.
    Passed,
    /// The ring all-reduce.
    Ring,
}

impl Algorithm {
    /// Returns the algorithm for a vector of `bytes` bytes on several ranks.
    fn of(bytes: usize, ranks: usize) -> Self {
        if doubling::pays(bytes, ranks) {
            Self::Doubling
        } else if ranks < doubling::MIN_WORLD && bytes.saturating_mul(ranks) <= MAX_PASSED_BYTES {
            Self::Passed
        } else {
            Self::Ring
        }
    }
}

/// The messages of an all-reduce that one rank receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllReduceCost {
    /// The number of messages that follow each other. Each takes the delay of the network.
    pub messages: usize,
    /// The bytes of all messages. A rank sends as many.
    pub bytes: usize,
}

impl AllReduceCost {
    /// Returns the cost of an all-reduce of a vector of `bytes` bytes.
    ///
    /// ```
    /// use edgecut_cluster::AllReduceCost;
    /// // A small vector goes to a neighbor and comes back; a large one takes the ring.
    /// assert_eq!(AllReduceCost::new(1000, 2), AllReduceCost { messages: 1, bytes: 1000 });
    /// assert_eq!(AllReduceCost::new(100_000_000, 4), AllReduceCost { messages: 6, bytes: 150_000_000 });
    /// ```
    pub fn new(bytes: usize, ranks: usize) -> Self {
        if ranks < 2 {
            return Self::default();
        }
        match Algorithm::of(bytes, ranks) {
            Algorithm::Doubling => Self { messages: doubling::hops(ranks), bytes: doubling::hops(ranks) * bytes },
            Algorithm::Passed => Self { messages: ranks - 1, bytes: (ranks - 1) * bytes },
            Algorithm::Ring => {
                let messages = 2 * (ranks - 1);
                // Each message is a chunk, one vector divided by the number of ranks.
                Self { messages, bytes: (messages as u128 * bytes as u128 / ranks as u128) as usize }
            }
        }
    }
}

impl ProcessGroup {
    /// Runs an all-reduce, or a barrier, by the algorithm that suits the size of `data`.
    pub(crate) fn reduce<T: Reduce>(
        &mut self,
        kind: CollectiveKind,
        data: &mut [T],
        op: ReduceOp,
    ) -> Result<(), ClusterError> {
        let data_bytes = size_of_val(data);
        let header = Header { op: op.code(), ..Header::new(kind, element_code::<T>(), data_bytes) };
        let header = self.begin(header)?;
        let mut merge = Reducer::<T> { op, ranks: self.size(), element: PhantomData };
        let data = bytemuck::cast_slice_mut(data);
        if self.size() == 1 {
            return Ok(());
        }
        match Algorithm::of(data_bytes, self.size()) {
            Algorithm::Doubling => self.reduce_by_doubling(&header, data, &mut merge),
            Algorithm::Passed => self.reduce_passed(&header, data, &mut merge),
            Algorithm::Ring => self.reduce_large(&header, data, &mut merge),
        }
    }

    /// Gathers the vectors of all ranks round the ring, then reduces them in rank order.
    fn reduce_passed(&mut self, header: &Header, data: &mut [u8], merge: &mut dyn Merge) -> Result<(), ClusterError> {
        let rank = self.rank();
        let size = self.size();
        let bytes = data.len();
        let block = |rank: usize| rank * bytes..(rank + 1) * bytes;
        let mut blocks = std::mem::take(&mut self.scratch);
        blocks.resize(size * bytes, 0);
        blocks[block(rank)].copy_from_slice(data);
        let plan = TransferPlan::of_steps(&ring::gather_plan(rank, size), block);
        self.run_first(header, &plan, &mut blocks, &mut CopyOnly)?;
        data.copy_from_slice(&blocks[block(0)]);
        for rank in 1..size {
            merge.merge(data, &blocks[block(rank)], rank + 1 == size);
        }
        self.scratch = blocks;
        Ok(())
    }

    fn reduce_by_doubling(
        &mut self,
        header: &Header,
        data: &mut [u8],
        merge: &mut dyn Merge,
    ) -> Result<(), ClusterError> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(data.len(), 0);
        let mut sum = Sum { rank: self.rank(), world: self.size(), data, scratch: &mut scratch, merge };
        let outcome = self.run_doubling(header, true, &mut sum);
        self.scratch = scratch;
        outcome
    }

    /// Runs a ring all-reduce on each of several blocks, so that a chunk is still in the cache when it is passed on.
    /// With two ranks and a single block, a chunk would be half of the vector, and each byte would be read from memory
    /// twice as often.
    fn reduce_large(&mut self, header: &Header, data: &mut [u8], merge: &mut dyn Merge) -> Result<(), ClusterError> {
        let size = self.size();
        let width = merge.width();
        let len = data.len() / width;
        let steps = ring::plan(self.rank(), size);
        // About `steps.len()` blocks are in progress at a time, each with `size` chunks.
        let chunk_bytes = (CACHED_BYTES / (steps.len() * size)).clamp(MIN_CHUNK_BYTES, MAX_CHUNK_BYTES);
        let blocks = data.len().div_ceil(chunk_bytes * size);
        let plan = TransferPlan::of_blocks(&steps, blocks, |block, chunk| {
            let block = ring::chunk_range(len, blocks, block);
            let chunk = ring::chunk_range(block.len(), size, chunk);
            width * (block.start + chunk.start)..width * (block.start + chunk.end)
        });
        self.run_first(header, &plan, data, merge)
    }
}

struct Reducer<T> {
    op: ReduceOp,
    ranks: usize,
    element: PhantomData<T>,
}

impl<T: Reduce> Merge for Reducer<T> {
    fn width(&self) -> usize {
        size_of::<T>()
    }

    fn merge(&mut self, own: &mut [u8], received: &[u8], last: bool) {
        if last && self.op == ReduceOp::Mean {
            T::average(own, received, self.ranks);
        } else {
            T::combine(self.op, own, received);
        }
    }
}

//! A process group: ranks that run collectives together, over connections of its own.

use std::fmt;
use std::ops::Range;

use crate::cluster::Cluster;
use crate::collective::{Header, Kind};
use crate::doubling;
use crate::doubling_run::{Blocks, Work};
use crate::error::ClusterError;
use crate::flow::Flow;
use crate::neighbors::Ring;
use crate::pump::{CopyOnly, Merge};
use crate::reduce::{BYTE_CODE, Reduce, ReduceOp, element_code};
use crate::ring;

/// The most that [`ProcessGroup::all_gather`] gathers, all ranks together. It is for small values.
pub const MAX_GATHER_BYTES: u64 = 64 << 20;
/// The most that an all-gather moves by recursive doubling, all ranks together. More goes round the ring, in which each
/// rank passes on while it receives.
const MAX_SMALL_GATHER_BYTES: usize = 1 << 20;
/// The most that [`ProcessGroup::broadcast_bytes`] sends at once.
pub const MAX_BROADCAST_BYTES: u64 = 4 << 30;

/// Ranks that run collectives together. All members call the same ones, in the same order; each call blocks the
/// calling thread until this rank's part is done.
///
/// After an error the group is broken and every further call says so: the job has to end, or to start over.
///
/// ```
/// use edgecut_cluster::{Cluster, ReduceOp};
///
/// let cluster = Cluster::join_local(1, |_| {})?.remove(0);
/// let mut world = cluster.world()?;
/// let mut gradients = vec![0.5_f32, 1.0];
/// world.all_reduce(&mut gradients, ReduceOp::Mean)?;
/// let losses = world.all_gather(b"0.25")?;
/// assert_eq!(losses, [b"0.25"]);
/// cluster.shutdown()?;
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
pub struct ProcessGroup {
    pub(crate) ring: Ring,
    // Memory of small all-reduces, kept from call to call.
    pub(crate) scratch: Vec<u8>,
    sequence: u64,
    broken: Option<String>,
}

impl Cluster {
    /// A group of all ranks. All of them must call this.
    ///
    /// # Errors
    /// As [`Cluster::group`].
    pub fn world(&self) -> Result<ProcessGroup, ClusterError> {
        self.group("world", &(0..self.world_size()).collect::<Vec<_>>())
    }

    /// A group of the ranks on this node. All of them must call this.
    ///
    /// # Errors
    /// As [`Cluster::group`].
    pub fn local_group(&self) -> Result<ProcessGroup, ClusterError> {
        self.group("local", &self.config().local_ranks().collect::<Vec<_>>())
    }

    /// A group of `members`, of which this rank must be one. All of them must call this, with the members in the same
    /// order, which becomes their order in the group. Every group has its own connections, so several may be used at
    /// the same time.
    ///
    /// # Errors
    /// Members that are no ranks, or twice there; a neighbor that cannot be reached, or does not make the group within
    /// `collective_timeout_ms`; a rank that has failed.
    pub fn group(&self, name: &str, members: &[usize]) -> Result<ProcessGroup, ClusterError> {
        Ok(ProcessGroup { ring: Ring::connect(self, name, members)?, scratch: Vec::new(), sequence: 0, broken: None })
    }
}

impl ProcessGroup {
    /// This process among the members, from 0.
    pub fn rank(&self) -> usize {
        self.ring.position
    }

    /// The number of members.
    pub fn size(&self) -> usize {
        self.ring.members.len()
    }

    /// The members' ranks in the job, in the order of their ranks in the group.
    pub fn members(&self) -> &[usize] {
        &self.ring.members
    }

    /// The membership that the group belongs to.
    pub fn cluster(&self) -> &Cluster {
        &self.ring.cluster
    }

    /// Combines `data` of all members, element by element; afterwards all of them hold the result, the same to the
    /// bit. The lengths and types must agree.
    ///
    /// # Errors
    /// Members that disagree on what to do; a member that fails, or is silent for `collective_timeout_ms`.
    /// `data` is then in an undefined state.
    pub fn all_reduce<T: Reduce>(&mut self, data: &mut [T], op: ReduceOp) -> Result<(), ClusterError> {
        self.reduce(Kind::AllReduce, data, op)
    }

    /// Copies `data` of the member `root` (its rank in the group) to all others. The lengths and types must agree.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`]; a root that is no member.
    pub fn broadcast<T: Reduce>(&mut self, data: &mut [T], root: usize) -> Result<(), ClusterError> {
        self.broadcast_slice(element_code::<T>(), bytemuck::cast_slice_mut(data), root)
    }

    /// Copies the bytes of the member `root` to all others, whose `data` takes their length.
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast`]; more than [`MAX_BROADCAST_BYTES`].
    pub fn broadcast_bytes(&mut self, data: &mut Vec<u8>, root: usize) -> Result<(), ClusterError> {
        let mut length = [data.len() as u64];
        self.broadcast(&mut length, root)?;
        // All members see the same length, so all of them end here or none does.
        check_size("broadcast", length[0], MAX_BROADCAST_BYTES)?;
        data.resize(length[0] as usize, 0);
        self.broadcast_slice(BYTE_CODE, data, root)
    }

    /// Waits until all members have come here.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn barrier(&mut self) -> Result<(), ClusterError> {
        // The sum is complete nowhere before all have contributed.
        self.reduce(Kind::Barrier, &mut [1_u64], ReduceOp::Sum)
    }

    /// Gathers the bytes of all members, of any length each, in the order of their ranks in the group.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`]; more than [`MAX_GATHER_BYTES`] together.
    pub fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ClusterError> {
        let header = self.begin(Header::new(Kind::AllGather, BYTE_CODE, 0))?;
        let own = self.ring.position;
        let mut lengths = vec![0_u64; self.size()];
        lengths[own] = mine.len() as u64;
        let ranges: Vec<_> = (0..self.size()).map(|block| 8 * block..8 * (block + 1)).collect();
        self.gather_blocks(&header, true, bytemuck::cast_slice_mut(&mut lengths), &ranges)?;

        // All members see the same lengths, so they go the same way.
        let total = lengths.iter().fold(0_u64, |sum, &length| sum.saturating_add(length));
        check_size("all-gather", total, MAX_GATHER_BYTES)?;
        let ranges = stacked(&lengths);
        let mut data = vec![0; total as usize];
        data[ranges[own].clone()].copy_from_slice(mine);
        self.gather_blocks(&header, false, &mut data, &ranges)?;
        Ok(ranges.into_iter().map(|range| data[range].to_vec()).collect())
    }

    /// Gathers a block of each member, which lie one after the other; the first blocks of a collective or later ones.
    fn gather_blocks(
        &mut self,
        header: &Header,
        is_first: bool,
        data: &mut [u8],
        ranges: &[Range<usize>],
    ) -> Result<(), ClusterError> {
        if self.size() >= doubling::MIN_WORLD && data.len() <= MAX_SMALL_GATHER_BYTES {
            return self.run_doubling(header, is_first, &mut Blocks { data, ranges });
        }
        let flow = Flow::of_plan(&ring::gather_plan(self.rank(), self.size()), |block| ranges[block].clone());
        if is_first { self.run_first(header, &flow, data, &mut CopyOnly) } else { self.run_next(header, &flow, data) }
    }

    fn broadcast_slice(&mut self, element: u8, data: &mut [u8], root: usize) -> Result<(), ClusterError> {
        let size = self.size();
        if root >= size {
            return Err(ClusterError::Config(format!("there is no rank {root} in a group of {size}")));
        }
        let header = Header { root: root as u32, ..Header::new(Kind::Broadcast, element, data.len()) };
        let header = self.begin(header)?;
        let distance = (self.ring.position + size - root) % size;
        self.run_first(&header, &Flow::of_broadcast(data.len(), distance, size), data, &mut CopyOnly)
    }

    /// What this collective tells the neighbors about itself.
    pub(crate) fn begin(&mut self, header: Header) -> Result<Header, ClusterError> {
        if let Some(earlier) = &self.broken {
            return Err(ClusterError::GroupBroken { group: self.ring.name.clone(), earlier: earlier.clone() });
        }
        let header = Header { sequence: self.sequence, ..header };
        self.sequence += 1;
        Ok(header)
    }

    /// Runs the first flow of a collective, in which neighbors compare what they are about to do.
    pub(crate) fn run_first(
        &mut self,
        header: &Header,
        flow: &Flow,
        data: &mut [u8],
        merge: &mut dyn Merge,
    ) -> Result<(), ClusterError> {
        let outcome = self.ring.run(header, true, flow, data, merge);
        outcome.inspect_err(|error| self.broken = Some(error.to_string()))
    }

    /// Runs the steps of recursive doubling, the first ones of a collective or later ones.
    pub(crate) fn run_doubling(
        &mut self,
        header: &Header,
        is_first: bool,
        work: &mut dyn Work,
    ) -> Result<(), ClusterError> {
        let outcome = self.ring.run_doubling(header, is_first, work);
        outcome.inspect_err(|error| self.broken = Some(error.to_string()))
    }

    /// Runs a flow of a collective that has begun.
    fn run_next(&mut self, header: &Header, flow: &Flow, data: &mut [u8]) -> Result<(), ClusterError> {
        let outcome = self.ring.run(header, false, flow, data, &mut CopyOnly);
        outcome.inspect_err(|error| self.broken = Some(error.to_string()))
    }
}

impl fmt::Debug for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProcessGroup({:?}, rank {} of {})", self.ring.name, self.ring.position, self.size())
    }
}

fn check_size(operation: &'static str, bytes: u64, limit: u64) -> Result<(), ClusterError> {
    if bytes <= limit { Ok(()) } else { Err(ClusterError::TooLarge { operation, bytes, limit }) }
}

/// Where blocks of these lengths lie, one after the other.
fn stacked(lengths: &[u64]) -> Vec<Range<usize>> {
    let mut end = 0;
    let block = |&length: &u64| {
        let start = end;
        end += length as usize;
        start..end
    };
    lengths.iter().map(block).collect()
}

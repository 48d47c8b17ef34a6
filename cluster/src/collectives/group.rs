//! Process groups: ranks that run collectives together, over their own connections.

use std::fmt;
use std::ops::Range;

use crate::cluster::Cluster;
use crate::collectives::doubling;
use crate::collectives::doubling_transfer::{Blocks, Work};
use crate::collectives::header::{CollectiveKind, Header};
use crate::collectives::reduce::{BYTE_CODE, Reduce, ReduceOp, element_code};
use crate::collectives::ring;
use crate::collectives::ring_connection::RingConnection;
use crate::collectives::transfer::{CopyOnly, Merge};
use crate::collectives::transfer_plan::TransferPlan;
use crate::error::ClusterError;

/// The most bytes that [`ProcessGroup::all_gather`] gathers, over all ranks together. It is meant for small values.
pub const MAX_GATHER_BYTES: u64 = 64 << 20;
/// The most bytes, over all ranks together, that an all-gather moves by recursive doubling. Larger data goes round the
/// ring, where each rank forwards data while it still receives.
const MAX_SMALL_GATHER_BYTES: usize = 1 << 20;
/// The most bytes that [`ProcessGroup::broadcast_bytes`] sends in one call.
pub(crate) const MAX_BROADCAST_BYTES: u64 = 4 << 30;

/// A group of ranks that run collectives together. All members must call the same collectives in the same order. Each
/// call blocks the calling thread until this rank's part is done.
///
/// After a failed collective the group is broken, and every further call returns [`ClusterError::GroupBroken`]. The job
/// has to end or to restart. Only invalid arguments ([`ClusterError::Config`], [`ClusterError::TooLarge`]) leave the
/// group usable.
///
/// ```
/// use edgecut_cluster::{Cluster, ReduceOp};
///
/// let cluster = Cluster::join_local(1, |_| {})?.remove(0);
/// let mut world = cluster.world()?;
/// let mut gradients = vec![0.5_f32, 1.0];
/// world.broadcast(&mut gradients, 0)?;
/// world.all_reduce(&mut gradients, ReduceOp::Mean)?;
/// let losses = world.all_gather(b"0.25")?;
/// assert_eq!(losses, [b"0.25"]);
/// cluster.shutdown()?;
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
pub struct ProcessGroup {
    pub(crate) ring: RingConnection,
    // Memory of small all-reduces, reused between calls.
    pub(crate) scratch: Vec<u8>,
    // The number of collectives so far.
    sequence: u64,
    // The error that broke the group.
    broken: Option<String>,
}

impl Cluster {
    /// Creates a group of all ranks. All ranks must call this.
    ///
    /// # Errors
    /// As [`Cluster::group`].
    pub fn world(&self) -> Result<ProcessGroup, ClusterError> {
        self.group("world", &(0..self.world_size()).collect::<Vec<_>>())
    }

    /// Creates a group of the ranks on this node. All of these ranks must call this.
    ///
    /// # Errors
    /// As [`Cluster::group`].
    pub fn local_group(&self) -> Result<ProcessGroup, ClusterError> {
        self.group("local", &self.config().local_ranks().collect::<Vec<_>>())
    }

    /// Creates a group of `members`, which must include this rank. All members must call this with the same list, whose
    /// order becomes the order of the group. Every group has its own connections, so several groups may be used
    /// concurrently.
    ///
    /// # Errors
    /// A member that does not exist or is listed twice; a neighbor that cannot be reached, or does not create the group
    /// within `collective_timeout_ms`; a rank that has failed.
    pub fn group(&self, name: &str, members: &[usize]) -> Result<ProcessGroup, ClusterError> {
        Ok(ProcessGroup {
            ring: RingConnection::connect(self, name, members)?,
            scratch: Vec::new(),
            sequence: 0,
            broken: None,
        })
    }
}

impl ProcessGroup {
    /// Returns the rank of this process in the group, from 0.
    pub fn rank(&self) -> usize {
        self.ring.position
    }

    /// Returns the number of members.
    pub fn size(&self) -> usize {
        self.ring.members.len()
    }

    /// Returns the members' ranks in the job, in the order of the group.
    pub fn members(&self) -> &[usize] {
        &self.ring.members
    }

    /// Returns the membership that the group belongs to.
    pub fn cluster(&self) -> &Cluster {
        &self.ring.cluster
    }

    /// Combines `data` of all members element by element, in place. Afterwards all members hold the same result, bit
    /// for bit. Lengths and types must be equal on all members.
    ///
    /// # Errors
    /// Members that call different collectives or pass different lengths or types; a member that fails or is silent for
    /// `collective_timeout_ms`. `data` is then in an undefined state.
    pub fn all_reduce<T: Reduce>(&mut self, data: &mut [T], op: ReduceOp) -> Result<(), ClusterError> {
        self.reduce(CollectiveKind::AllReduce, data, op)
    }

    /// Copies `data` of the member `root` (a rank in the group) to all other members. Lengths and types must be equal
    /// on all members.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`]; a root that is not a rank of the group.
    pub fn broadcast<T: Reduce>(&mut self, data: &mut [T], root: usize) -> Result<(), ClusterError> {
        self.broadcast_slice(element_code::<T>(), bytemuck::cast_slice_mut(data), root)
    }

    /// Copies the bytes of the member `root` to all other members. Their `data` is resized.
    ///
    /// # Errors
    /// As [`ProcessGroup::broadcast`]; more than 4 GiB.
    pub fn broadcast_bytes(&mut self, data: &mut Vec<u8>, root: usize) -> Result<(), ClusterError> {
        let mut length = [data.len() as u64];
        self.broadcast(&mut length, root)?;
        // All members see the same length, so either all of them fail here or none.
        check_size("broadcast", length[0], MAX_BROADCAST_BYTES)?;
        data.resize(length[0] as usize, 0);
        self.broadcast_slice(BYTE_CODE, data, root)
    }

    /// Waits until all members have called this.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`].
    pub fn barrier(&mut self) -> Result<(), ClusterError> {
        // No member has the sum before all members have contributed.
        self.reduce(CollectiveKind::Barrier, &mut [1_u64], ReduceOp::Sum)
    }

    /// Gathers the bytes of all members, in the order of the group. The lengths may differ between members.
    ///
    /// # Errors
    /// As [`ProcessGroup::all_reduce`]; more than [`MAX_GATHER_BYTES`] bytes in total.
    pub fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>, ClusterError> {
        let header = self.begin(Header::new(CollectiveKind::AllGather, BYTE_CODE, 0))?;
        let own = self.ring.position;
        let mut lengths = vec![0_u64; self.size()];
        lengths[own] = mine.len() as u64;
        // First the lengths, 8 bytes per member, then the data.
        let ranges: Vec<_> = (0..self.size()).map(|block| 8 * block..8 * (block + 1)).collect();
        self.gather_blocks(&header, true, bytemuck::cast_slice_mut(&mut lengths), &ranges)?;

        // All members see the same lengths, so they make the same decisions from here on.
        let total = lengths.iter().fold(0_u64, |sum, &length| sum.saturating_add(length));
        check_size("all-gather", total, MAX_GATHER_BYTES)?;
        let ranges = stacked(&lengths);
        let mut data = vec![0; total as usize];
        data[ranges[own].clone()].copy_from_slice(mine);
        self.gather_blocks(&header, false, &mut data, &ranges)?;
        Ok(ranges.into_iter().map(|range| data[range].to_vec()).collect())
    }

    /// Gathers one block of each member into consecutive ranges of `data`. `is_first` marks the first exchange of a
    /// collective, which compares headers.
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
        let plan = TransferPlan::of_steps(&ring::gather_plan(self.rank(), self.size()), |block| ranges[block].clone());
        if is_first { self.run_first(header, &plan, data, &mut CopyOnly) } else { self.run_next(header, &plan, data) }
    }

    fn broadcast_slice(&mut self, element: u8, data: &mut [u8], root: usize) -> Result<(), ClusterError> {
        let size = self.size();
        if root >= size {
            return Err(ClusterError::Config(format!("broadcast: there is no rank {root} in a group of {size}")));
        }
        let header = Header { root: root as u32, ..Header::new(CollectiveKind::Broadcast, element, data.len()) };
        let header = self.begin(header)?;
        let distance = (self.ring.position + size - root) % size;
        self.run_first(&header, &TransferPlan::of_broadcast(data.len(), distance, size), data, &mut CopyOnly)
    }

    /// Numbers the next collective and returns its header, which neighbors compare.
    ///
    /// # Errors
    /// [`ClusterError::GroupBroken`] after an earlier error.
    pub(crate) fn begin(&mut self, header: Header) -> Result<Header, ClusterError> {
        if let Some(earlier) = &self.broken {
            return Err(ClusterError::GroupBroken { group: self.ring.name.clone(), earlier: earlier.clone() });
        }
        let header = Header { sequence: self.sequence, ..header };
        self.sequence += 1;
        Ok(header)
    }

    /// Runs the first transfer of a collective. In it, neighbors compare their headers.
    pub(crate) fn run_first(
        &mut self,
        header: &Header,
        plan: &TransferPlan,
        data: &mut [u8],
        merge: &mut dyn Merge,
    ) -> Result<(), ClusterError> {
        let outcome = self.ring.run(header, true, plan, data, merge);
        outcome.inspect_err(|error| self.broken = Some(format!("{error:#}")))
    }

    /// Runs the steps of recursive doubling. `is_first` marks the first steps of a collective, which compare headers.
    pub(crate) fn run_doubling(
        &mut self,
        header: &Header,
        is_first: bool,
        work: &mut dyn Work,
    ) -> Result<(), ClusterError> {
        let outcome = self.ring.run_doubling(header, is_first, work);
        outcome.inspect_err(|error| self.broken = Some(format!("{error:#}")))
    }

    /// Runs a later transfer of a collective.
    fn run_next(&mut self, header: &Header, plan: &TransferPlan, data: &mut [u8]) -> Result<(), ClusterError> {
        let outcome = self.ring.run(header, false, plan, data, &mut CopyOnly);
        outcome.inspect_err(|error| self.broken = Some(format!("{error:#}")))
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

/// Returns the ranges of consecutive blocks of these lengths.
fn stacked(lengths: &[u64]) -> Vec<Range<usize>> {
    let mut ranges = Vec::with_capacity(lengths.len());
    let mut start = 0;
    for &length in lengths {
        let end = start + length as usize;
        ranges.push(start..end);
        start = end;
    }
    ranges
}

//! Hops of a part drawn on a device.

use crate::kernels::error::KernelError;
use crate::kernels::sampling::DeviceTopology;
use crate::kernels::sampling::self_check::check;
use cubecl::prelude::*;
use cubecl::stream_id::StreamId;
use edgecut_graph::{EdgeTypeId, HopError, HopKernel, Part, PlainHop};

/// The in-edges of a part on a device, for the edge types that fit: the kernel that draws a process's plain hops.
///
/// Invariant: it draws the same neighbors as the CPU, id for id, for this process and its peers
/// (`gpu/tests/sampling.rs`).
pub struct DeviceHops<R: Runtime> {
    /// The edges by edge type; `None` for edge types that do not fit.
    topologies: Vec<Option<DeviceTopology<R>>>,
}

impl<R: Runtime> DeviceHops<R> {
    /// Copies the edge types of `part` to the device, in their order: each that fits into the rest of `budget_bytes`.
    /// The budget should be well below the free memory, since a device that runs out of memory cannot be used any more.
    /// First it checks that the device draws the same as the CPU from a small graph, which also compiles the kernels.
    ///
    /// # Errors
    /// Those of [`DeviceTopology::new`], and [`KernelError::Failed`] if the device draws something else than the CPU.
    pub fn new(client: &ComputeClient<R>, part: &Part, budget_bytes: u64) -> Result<Self, KernelError> {
        // A new thread has a stream that no other thread uses, so that hops do not wait for the trainer's kernels.
        let stream = std::thread::spawn(StreamId::current).join().unwrap_or_else(|_| StreamId::current());
        stream.executes(|| Self::on_this_stream(client, part, budget_bytes))
    }

    fn on_this_stream(client: &ComputeClient<R>, part: &Part, budget_bytes: u64) -> Result<Self, KernelError> {
        check(client)?;
        let mut left = budget_bytes;
        let mut topologies = Vec::new();
        for edge_type in part.edge_type_ids() {
            let edges = part.edges(edge_type);
            let csc = &edges.csc;
            let original_ids = &part.nodes(edges.dst_type).original_ids[..];
            let bytes = DeviceTopology::<R>::bytes_of(original_ids.len(), csc.indices().len());
            let fits = bytes <= left;
            left -= if fits { bytes } else { 0 };
            topologies.push(
                fits.then(|| DeviceTopology::new(client.clone(), csc.indptr(), csc.indices(), original_ids))
                    .transpose()?,
            );
        }
        Ok(Self { topologies })
    }

    /// Returns the edge types that are on the device.
    pub fn held(&self) -> impl Iterator<Item = EdgeTypeId> {
        self.topologies.iter().enumerate().filter(|(_, held)| held.is_some()).map(|(e, _)| EdgeTypeId(e as u16))
    }

    /// Returns the bytes that they take.
    pub fn num_bytes(&self) -> u64 {
        self.topologies.iter().flatten().map(DeviceTopology::num_bytes).sum()
    }
}

impl<R: Runtime> HopKernel for DeviceHops<R> {
    fn takes(&self, edge_type: EdgeTypeId, _num_rows: usize) -> bool {
        self.topologies.get(edge_type.index()).is_some_and(Option::is_some)
    }

    fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError> {
        let Some(Some(topology)) = self.topologies.get(hop.edge_type.index()) else {
            let what = format!("edge type {} is not on the device", hop.edge_type.0);
            return Err(HopError::Failed(Box::new(KernelError::Invalid { what })));
        };
        topology.sample_hop(hop, max_words, out)
    }
}

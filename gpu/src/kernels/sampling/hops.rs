//! Draws hops of a part on a device.

use crate::kernels::error::KernelError;
use crate::kernels::sampling::DeviceTopology;
use crate::kernels::sampling::self_check::check;
use cubecl::prelude::*;
use cubecl::stream_id::StreamId;
use edgecut_graph::{EdgeTypeId, HopError, HopKernel, Part, PlainHop};

/// The in-edges of a part on a device, of those edge types that fit: what a sampling process lets draw its plain hops.
pub struct DeviceHops<R: Runtime> {
    /// By edge type; `None` where it does not fit.
    topologies: Vec<Option<DeviceTopology<R>>>,
    min_rows: usize,
}

impl<R: Runtime> DeviceHops<R> {
    /// Copies the edge types of `part`, in their order, to the device: each that fits into what is left of `budget_bytes`. Keep
    /// the budget well below the memory that is free: a device that runs out of it cannot be used any more. First the device has
    /// to draw what the CPU draws from a small graph, which also compiles the kernels.
    ///
    /// # Errors
    /// As [`DeviceTopology::new`]; [`KernelError::Failed`] if the device draws something else.
    pub fn new(client: &ComputeClient<R>, part: &Part, budget_bytes: u64) -> Result<Self, KernelError> {
        // A thread that has only begun has a stream that no other uses, so that hops do not wait for the trainer's kernels.
        let stream = std::thread::spawn(StreamId::current).join().unwrap_or_else(|_| StreamId::current());
        stream.executes(|| Self::on_this_stream(client, part, budget_bytes))
    }

    fn on_this_stream(client: &ComputeClient<R>, part: &Part, budget_bytes: u64) -> Result<Self, KernelError> {
        check(client)?;
        let mut left = budget_bytes;
        let mut topologies = Vec::new();
        for edge_type in part.edge_type_ids() {
            let edges = part.edges(edge_type);
            let (csc, original_ids) = (&edges.csc, &part.nodes(edges.dst_type).original_ids[..]);
            let bytes = DeviceTopology::<R>::bytes_of(original_ids.len(), csc.indices().len());
            let fits = bytes <= left;
            left -= if fits { bytes } else { 0 };
            let copy = || DeviceTopology::new(client.clone(), csc.indptr(), csc.indices(), original_ids);
            topologies.push(fits.then(copy).transpose()?);
        }
        Ok(Self { topologies, min_rows: 0 })
    }

    /// Leaves hops of fewer than `min_rows` rows to the CPU, which has drawn them before a device has begun. Default: 0.
    pub fn with_min_rows(mut self, min_rows: usize) -> Self {
        self.min_rows = min_rows;
        self
    }

    /// The edge types that are on the device.
    pub fn held(&self) -> impl Iterator<Item = EdgeTypeId> {
        self.topologies.iter().enumerate().filter(|(_, held)| held.is_some()).map(|(e, _)| EdgeTypeId(e as u16))
    }

    /// Bytes that they take.
    pub fn num_bytes(&self) -> u64 {
        self.topologies.iter().flatten().map(DeviceTopology::num_bytes).sum()
    }
}

impl<R: Runtime> HopKernel for DeviceHops<R> {
    fn takes(&self, edge_type: EdgeTypeId, num_rows: usize) -> bool {
        num_rows >= self.min_rows && self.topologies.get(edge_type.index()).is_some_and(Option::is_some)
    }

    fn sample_hop(&self, hop: &PlainHop<'_>, max_words: usize, out: &mut Vec<u32>) -> Result<(), HopError> {
        let Some(Some(topology)) = self.topologies.get(hop.edge_type.index()) else {
            let what = format!("edge type {} is not on the device", hop.edge_type.0);
            return Err(HopError::Failed(Box::new(KernelError::Invalid { what })));
        };
        topology.sample_hop(hop.rows, hop.fanout, hop.replace, hop.key, max_words, out)
    }
}

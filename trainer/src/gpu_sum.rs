//! Summation of gradients over the GPUs of a node with NCCL. Without NCCL, ranks sum gradients over TCP.
//!
//! A process has one GPU and belongs to one job, so the NCCL group is a static variable of the process.

use crate::train_error::TrainError;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::{Cluster, ProcessGroup, ReduceOp};
#[cfg(feature = "cuda")]
use {
    crate::backends::Cuda,
    burn::tensor::TensorData,
    edgecut_gpu::{NcclConfig, NcclError, NcclGroup},
    std::any::Any,
    std::sync::{Mutex, PoisonError},
};

/// The gradients of this rank, or their sum over all ranks.
pub(crate) enum Summed<B: Backend> {
    /// The gradients of this rank; the caller must sum them over the ranks.
    Mine(Vec<Tensor<B, 1>>),
    /// The sum over all ranks, which the GPUs have computed.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    OfAllRanks(Tensor<B, 1>),
}

/// Returns whether all ranks can use NCCL, and the number of processes per node, or 1 if nodes differ in it.
fn agree(usable: bool, cluster: &Cluster, world: &mut ProcessGroup) -> Result<(bool, usize), TrainError> {
    let processes = cluster.local_world_size() as f64;
    // The minimum of the negative is the negative maximum, so one all-reduce finds all three values.
    let mut agreed = [f64::from(u8::from(usable)), processes, -processes];
    world.all_reduce(&mut agreed, ReduceOp::Min)?;
    let [all_usable, fewest, most] = agreed;
    Ok((all_usable > 0.0, if fewest == -most { fewest as usize } else { 1 }))
}

/// Informs the other ranks, which may run on GPUs, that this rank does not. Every rank calls it.
///
/// # Errors
/// A failure of the job.
#[cfg(not(feature = "cuda"))]
pub fn sum_with_nccl(
    cluster: &Cluster,
    world: &mut ProcessGroup,
    _gpu: Option<usize>,
) -> Result<Option<String>, TrainError> {
    agree(false, cluster, world).map(|_| None)
}

/// Returns the gradients of this rank. A build with the feature `cuda` sums them over the GPUs if all ranks can.
#[cfg(not(feature = "cuda"))]
pub(crate) fn sum_on_gpus<B: Backend>(pieces: Vec<Tensor<B, 1>>) -> Result<Summed<B>, TrainError> {
    Ok(Summed::Mine(pieces))
}

#[cfg(feature = "cuda")]
static SUM: Mutex<Option<GpuSum>> = Mutex::new(None);

/// The NCCL group of this node's GPUs, and the group of the first ranks of all nodes if there are several.
#[cfg(feature = "cuda")]
struct GpuSum {
    node: NcclGroup,
    leaders: Option<ProcessGroup>,
    num_nodes: usize,
}

/// Enables the summation of gradients with NCCL. It sums over the GPUs of each node, then over TCP between the first
/// ranks of the nodes. It requires that all ranks run on GPUs with NCCL installed, and that all nodes have the same
/// number of processes, more than one. `gpu` is the number of this process's GPU, or `None` on the CPU. Every rank must
/// call this function. Returns a line for the user: that NCCL is in use, or the reason if it is missing on a node with
/// several GPUs.
///
/// # Errors
/// A failure of the job, or of NCCL.
#[cfg(feature = "cuda")]
pub fn sum_with_nccl(
    cluster: &Cluster,
    world: &mut ProcessGroup,
    gpu: Option<usize>,
) -> Result<Option<String>, TrainError> {
    let present = gpu.map(|_| NcclGroup::check_present());
    let usable = matches!(present, Some(Ok(())));
    let (all_usable, processes) = agree(usable, cluster, world)?;
    if !all_usable || processes < 2 {
        let why = present.and_then(Result::err).filter(|_| processes > 1);
        return Ok(why.map(|why| format!("gradients are summed over TCP, also between the GPUs of a node: {why}")));
    }
    let local_rank = cluster.local_rank();
    let local_size = cluster.local_world_size();
    let mut local = cluster.local_group()?;
    // NCCL cannot name the rank that is late. The longer timeout lets the job's own collectives fail first, with a
    // name.
    let timeout_ms = 2 * cluster.config().collective_timeout_ms;
    let config = NcclConfig { local_rank, local_size, device: gpu.unwrap_or_default(), timeout_ms };
    let node = NcclGroup::join(config, |id| {
        let mut bytes = id.map(|id| id.to_vec()).unwrap_or_default();
        local.broadcast_bytes(&mut bytes, 0)?;
        <[u8; 128]>::try_from(bytes)
            .map_err(|_| TrainError::Device { what: "the first rank of the node sent no id of an NCCL group".into() })
    })?;
    // The ranks of a node are consecutive, and `agree` has checked that all nodes have equally many.
    let num_nodes = cluster.world_size() / local_size;
    let leaders = match (num_nodes, local_rank) {
        (1, _) | (_, 1..) => None,
        _ => Some(cluster.group("first ranks of nodes", &(0..num_nodes).map(|n| n * local_size).collect::<Vec<_>>())?),
    };
    *SUM.lock().unwrap_or_else(PoisonError::into_inner) = Some(GpuSum { node, leaders, num_nodes });
    Ok(Some("gradients are summed by NCCL between the GPUs of a node".into()))
}

/// Concatenates the gradients and sums them over all ranks, if [`sum_with_nccl`] has enabled this.
#[cfg(feature = "cuda")]
pub(crate) fn sum_on_gpus<B: Backend>(pieces: Vec<Tensor<B, 1>>) -> Result<Summed<B>, TrainError> {
    let mut guard = SUM.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(sum) = &mut *guard else { return Ok(Summed::Mine(pieces)) };
    // This function is generic over the backend, but NCCL needs the buffer of the CUDA backend: downcast to it.
    let mut flat: Box<dyn Any> = Box::new(Tensor::cat(pieces, 0));
    if let Some(on_gpu) = flat.downcast_mut::<Tensor<Cuda, 1>>() {
        sum.run(on_gpu)?;
    }
    let flat = *flat.downcast::<Tensor<B, 1>>().expect("the type of the tensor has not changed");
    Ok(Summed::OfAllRanks(flat))
}

#[cfg(feature = "cuda")]
impl GpuSum {
    /// Replaces `flat` by its sum over all ranks: sum within each node, sum of the first ranks over TCP, broadcast
    /// within each node.
    fn run(&mut self, flat: &mut Tensor<Cuda, 1>) -> Result<(), TrainError> {
        let primitive = |flat: &Tensor<Cuda, 1>| flat.clone().into_primitive().tensor();
        let (len, device) = (flat.dims()[0], flat.device());
        let buffer = primitive(flat);
        self.node.all_reduce_sum(&buffer.client, &buffer.handle, len)?;
        if self.num_nodes == 1 {
            return Ok(());
        }
        if let Some(leaders) = &mut self.leaders {
            let mut values: Vec<f32> = flat.to_data().into_vec().expect("gradients are f32");
            leaders.all_reduce(&mut values, ReduceOp::Sum)?;
            *flat = Tensor::from_data(TensorData::new(values, [len]), &device);
        }
        let buffer = primitive(flat);
        Ok(self.node.broadcast(&buffer.client, &buffer.handle, len, 0)?)
    }
}

#[cfg(feature = "cuda")]
impl From<NcclError> for TrainError {
    fn from(error: NcclError) -> Self {
        Self::Device { what: error.to_string() }
    }
}

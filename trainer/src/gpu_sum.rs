//! Sums of gradients between the GPUs of a node, where NCCL is installed; else ranks exchange them over TCP.
//!
//! A process has one GPU and is in one job, so its group is the process's, as the device is.

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

/// Gradients of this rank, or, where GPUs have added them up, of all ranks.
pub(crate) enum Summed<B: Backend> {
    /// Ranks have to add them up.
    Mine(Vec<Tensor<B, 1>>),
    /// All ranks have the same.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    OfAllRanks(Tensor<B, 1>),
}

/// Whether all ranks can use NCCL, and how many processes each node has, 1 if not all have as many.
fn agree(usable: bool, cluster: &Cluster, world: &mut ProcessGroup) -> Result<(bool, usize), TrainError> {
    let processes = cluster.local_world_size() as f64;
    let mut agreed = [f64::from(u8::from(usable)), processes, -processes];
    world.all_reduce(&mut agreed, ReduceOp::Min)?;
    let [all_usable, fewest, most] = agreed;
    Ok((all_usable > 0.0, if fewest == -most { fewest as usize } else { 1 }))
}

/// Tells the other ranks, which may be on GPUs, that this one is not.
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

/// Adds up what all ranks have, end to end, where they have agreed to do so on their GPUs.
#[cfg(not(feature = "cuda"))]
pub(crate) fn sum_on_gpus<B: Backend>(pieces: Vec<Tensor<B, 1>>) -> Result<Summed<B>, TrainError> {
    Ok(Summed::Mine(pieces))
}

#[cfg(feature = "cuda")]
static SUM: Mutex<Option<GpuSum>> = Mutex::new(None);

/// The GPUs of this node, and the first ranks of all nodes where there are several.
#[cfg(feature = "cuda")]
struct GpuSum {
    node: NcclGroup,
    leaders: Option<ProcessGroup>,
    num_nodes: usize,
}

/// Lets ranks add up their gradients with NCCL from now on, if all of them are on GPUs of machines that have it and each node has
/// as many, more than one: within a node between the GPUs, then over TCP between the first ranks of the nodes. `gpu` is the number of this process's
/// GPU, nothing on the CPU. Every rank calls it; gives a line about it on those that come to an agreement, and why there is none
/// where that may surprise.
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
        return Ok(why.map(|why| format!("gradients go over TCP between the GPUs of a node: {why}")));
    }
    let (local_rank, local_size) = (cluster.local_rank(), cluster.local_world_size());
    let mut local = cluster.local_group()?;
    let timeout_ms = 2 * cluster.config().collective_timeout_ms;
    let config = NcclConfig { local_rank, local_size, device: gpu.unwrap_or_default(), timeout_ms };
    let node = NcclGroup::join(config, |id| {
        let mut bytes = id.map(|id| id.to_vec()).unwrap_or_default();
        local.broadcast_bytes(&mut bytes, 0)?;
        <[u8; 128]>::try_from(bytes).map_err(|_| TrainError::Device { what: "no id of an NCCL group came".into() })
    })?;
    // Ranks of a node are consecutive, and nodes have as many each.
    let num_nodes = cluster.world_size() / local_size;
    let leaders = match (num_nodes, local_rank) {
        (1, _) | (_, 1..) => None,
        _ => Some(cluster.group("first ranks of nodes", &(0..num_nodes).map(|n| n * local_size).collect::<Vec<_>>())?),
    };
    *SUM.lock().unwrap_or_else(PoisonError::into_inner) = Some(GpuSum { node, leaders, num_nodes });
    Ok(Some("gradients are added up by NCCL between the GPUs of a node".into()))
}

/// Adds up what all ranks have, end to end, where they have agreed to do so on their GPUs.
#[cfg(feature = "cuda")]
pub(crate) fn sum_on_gpus<B: Backend>(pieces: Vec<Tensor<B, 1>>) -> Result<Summed<B>, TrainError> {
    let mut guard = SUM.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(sum) = &mut *guard else { return Ok(Summed::Mine(pieces)) };
    let mut flat: Box<dyn Any> = Box::new(Tensor::cat(pieces, 0));
    if let Some(on_gpu) = flat.downcast_mut::<Tensor<Cuda, 1>>() {
        sum.run(on_gpu)?;
    }
    let flat = *flat.downcast::<Tensor<B, 1>>().expect("it still is what it was");
    Ok(Summed::OfAllRanks(flat))
}

#[cfg(feature = "cuda")]
impl GpuSum {
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

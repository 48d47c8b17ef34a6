//! The sum of gradients over the ranks: between the GPUs of a node with NCCL if all ranks have it, otherwise over TCP.

use crate::error::TrainError;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use edgecut_cluster::{Cluster, ProcessGroup, ReduceOp};
#[cfg(feature = "cuda")]
use {
    burn::tensor::TensorData,
    edgecut_gnn::{Cuda, ops::host_values},
    edgecut_gpu::{NcclConfig, NcclGroup},
    std::any::Any,
    std::fmt,
    std::sync::{Arc, Mutex, PoisonError},
};

/// The way in which training steps sum gradients over the ranks.
///
/// The default is the all-reduce of the job's process group over TCP. [`GradientSum::join`] uses NCCL where it can.
/// Clones share the NCCL group.
///
/// Invariant: over TCP, one all-reduce of all ranks per training step carries gradients, loss and counts. If NCCL sums
/// the gradients, it carries the loss and the counts only, and the first ranks of several nodes sum gradients in an
/// all-reduce of their own.
#[derive(Clone, Debug, Default)]
pub struct GradientSum {
    #[cfg(feature = "cuda")]
    gpus: Option<Arc<Mutex<GpuSum>>>,
    notice: Option<String>,
}

/// The gradients of this rank, or their sum over all ranks.
pub(crate) struct Summed<B: Backend> {
    pub(crate) pieces: Vec<Tensor<B, 1>>,
    /// True if the GPUs have computed the sum over all ranks. Otherwise the caller must sum the pieces.
    pub(crate) over_all_ranks: bool,
}

impl GradientSum {
    /// Connects the GPUs of each node with NCCL. Gradients are then summed over the GPUs of each node, and over TCP
    /// between the first ranks of the nodes.
    ///
    /// This requires that all ranks run on GPUs with NCCL installed, and that all nodes have the same number of
    /// processes, more than one. Otherwise the sum runs over TCP, as it does in builds without the feature `cuda`.
    /// `gpu` is the number of this process's GPU, or `None` on the CPU. Every rank must call this function.
    ///
    /// # Errors
    /// A failure of the job, or of NCCL.
    pub fn join(cluster: &Cluster, world: &mut ProcessGroup, gpu: Option<usize>) -> Result<Self, TrainError> {
        #[cfg(feature = "cuda")]
        return GpuSum::join(cluster, world, gpu);
        #[cfg(not(feature = "cuda"))]
        {
            // Other ranks may run on GPUs: they learn that this rank does not.
            let _ = gpu;
            agree(false, cluster, world)?;
            Ok(Self::default())
        }
    }

    /// Returns a line for the user: that NCCL is in use, or the reason if it is missing on a node with several GPUs.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Concatenates gradients and sums them over all ranks, if the GPUs can.
    pub(crate) fn sum_on_gpus<B: Backend>(&self, pieces: Vec<Tensor<B, 1>>) -> Result<Summed<B>, TrainError> {
        // There are none if all parameters but embeddings are frozen.
        #[cfg(feature = "cuda")]
        if let Some(gpus) = self.gpus.as_ref().filter(|_| !pieces.is_empty()) {
            let (flat, over_all_ranks) =
                gpus.lock().unwrap_or_else(PoisonError::into_inner).sum(Tensor::cat(pieces, 0))?;
            return Ok(Summed { pieces: vec![flat], over_all_ranks });
        }
        Ok(Summed { pieces, over_all_ranks: false })
    }
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

/// The NCCL group of this node's GPUs, and the group of the first ranks of all nodes if there are several.
#[cfg(feature = "cuda")]
struct GpuSum {
    node: NcclGroup,
    leaders: Option<ProcessGroup>,
    num_nodes: usize,
}

#[cfg(feature = "cuda")]
impl GpuSum {
    /// See [`GradientSum::join`].
    fn join(cluster: &Cluster, world: &mut ProcessGroup, gpu: Option<usize>) -> Result<GradientSum, TrainError> {
        let present = gpu.map(|_| NcclGroup::check_present());
        let usable = matches!(present, Some(Ok(())));
        let (all_usable, processes) = agree(usable, cluster, world)?;
        if !all_usable || processes < 2 {
            let why = present.and_then(Result::err).filter(|_| processes > 1);
            let notice =
                why.map(|why| format!("gradients are summed over TCP, also between the GPUs of a node: {why}"));
            return Ok(GradientSum { gpus: None, notice });
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
            <[u8; 128]>::try_from(bytes).map_err(|_| TrainError::Device {
                what: "the first rank of the node sent no id of an NCCL group".into(),
            })
        })?;
        // The ranks of a node are consecutive, and `agree` has checked that all nodes have equally many.
        let num_nodes = cluster.world_size() / local_size;
        let leaders = if num_nodes > 1 && local_rank == 0 {
            let first_ranks: Vec<usize> = (0..num_nodes).map(|n| n * local_size).collect();
            Some(cluster.group("first ranks of nodes", &first_ranks)?)
        } else {
            None
        };
        let sum = Self { node, leaders, num_nodes };
        let notice = "gradients are summed by NCCL between the GPUs of a node".to_owned();
        Ok(GradientSum { gpus: Some(Arc::new(Mutex::new(sum))), notice: Some(notice) })
    }

    /// Returns the sum of `flat` over all ranks and true, or `flat` and false if it is not in the memory of a GPU.
    fn sum<B: Backend>(&mut self, flat: Tensor<B, 1>) -> Result<(Tensor<B, 1>, bool), TrainError> {
        // The caller is generic over the backend, but NCCL needs the buffer of the CUDA backend: downcast to it.
        let mut flat: Box<dyn Any> = Box::new(flat);
        let mut summed = false;
        if let Some(on_gpu) = flat.downcast_mut::<Tensor<Cuda, 1>>() {
            self.run(on_gpu)?;
            summed = true;
        }
        Ok((*flat.downcast::<Tensor<B, 1>>().expect("the type of the tensor has not changed"), summed))
    }

    /// Replaces `flat` by its sum over all ranks: sum within each node, sum of the first ranks over TCP, broadcast
    /// within each node.
    fn run(&mut self, flat: &mut Tensor<Cuda, 1>) -> Result<(), TrainError> {
        let primitive = |flat: &Tensor<Cuda, 1>| flat.clone().into_primitive().tensor();
        let [len] = flat.dims();
        let buffer = primitive(flat);
        self.node.all_reduce_sum(&buffer.client, &buffer.handle, len)?;
        if self.num_nodes == 1 {
            return Ok(());
        }
        if let Some(leaders) = &mut self.leaders {
            let mut gradients = host_values(flat.clone());
            leaders.all_reduce(&mut gradients, ReduceOp::Sum)?;
            *flat = Tensor::from_data(TensorData::new(gradients, [len]), &flat.device());
        }
        let buffer = primitive(flat);
        Ok(self.node.broadcast(&buffer.client, &buffer.handle, len, 0)?)
    }
}

#[cfg(feature = "cuda")]
impl fmt::Debug for GpuSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuSum").field("num_nodes", &self.num_nodes).finish_non_exhaustive()
    }
}

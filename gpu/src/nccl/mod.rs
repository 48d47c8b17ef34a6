//! Sums between the GPUs of one node, over NVLink or PCIe, where NCCL is installed.

mod communicator;
mod error;
#[cfg(test)]
mod group_tests;
mod library;

pub use error::NcclError;
use std::fmt;

use cubecl::cuda::CudaRuntime;
use cubecl::prelude::ComputeClient;
use cubecl::server::Handle;

use crate::cuda::library::{CudaLibrary, names_of};
use crate::cuda::stream::DeviceContext;
use crate::device::DeviceError;
use crate::nccl::communicator::{Communicator, all_reduce_text, broadcast_text};
use crate::nccl::library::Nccl;

/// A process's place in an [`NcclGroup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclConfig {
    /// This process among those of its node, from 0.
    pub local_rank: usize,
    /// The processes of the node, each on a GPU of its own.
    pub local_size: usize,
    /// The number of this process's GPU, as in [`CudaGpu::index`](crate::CudaGpu::index).
    pub device: usize,
    /// How long joining, and each collective, may wait for the other ranks, in milliseconds.
    pub timeout_ms: u64,
}

/// The GPUs of one node, one per process, which run collectives together. All members call the same ones, in the same order
/// and with the same lengths; each call blocks the calling thread until this rank's part is done.
///
/// Nothing waits for ever for another rank: NCCL's calls return at once and are polled, and when the time is up, or NCCL
/// notices a failure, the communicator is aborted, which ends what runs on the device. A peer's death within a node is mostly
/// noticed by the time running out, so what the process group over TCP says about it may come first. Not bounded is the
/// wait for this rank's own kernels, which depend on nobody else.
///
/// Where the device has failed before, CubeCL panics instead of answering, here as elsewhere
/// ([`watch_panics`](crate::watch_panics)).
///
/// After an error the group is broken, its buffers are undefined, and every further call says so: the job has to end, or to
/// start over.
///
/// ```no_run
/// # fn pass_on(id: Option<[u8; 128]>) -> Result<[u8; 128], &'static str> { id.ok_or("no process group") }
/// use cubecl::cuda::{CudaDevice, CudaRuntime};
/// use cubecl::prelude::Runtime;
/// use edgecut_gpu::{NcclConfig, NcclGroup};
///
/// let client = CudaRuntime::client(&CudaDevice::new(1));
/// let gradients = client.create_from_slice(bytemuck::cast_slice(&[0.5_f32, 1.0]));
/// let config = NcclConfig { local_rank: 1, local_size: 2, device: 1, timeout_ms: 60_000 };
/// let mut group = NcclGroup::join(config, pass_on)?;
/// group.all_reduce_sum(&client, &gradients, 2)?;
/// # Ok::<(), edgecut_gpu::NcclError>(())
/// ```
pub struct NcclGroup {
    communicator: Communicator,
    config: NcclConfig,
}

impl NcclGroup {
    /// Whether this machine has an NCCL that will do. It is loaded, but does not touch a device.
    ///
    /// All processes of the node have to ask, and to agree, before any of them joins.
    pub fn is_present() -> bool {
        Self::check_present().is_ok()
    }

    /// As [`is_present`](Self::is_present), with the reason.
    ///
    /// # Errors
    /// NCCL is missing, too old or unusable.
    pub fn check_present() -> Result<(), NcclError> {
        Nccl::open().map(drop)
    }

    /// Meets the other processes of the node. `exchange` gets the group's id on local rank 0, nothing on the others, and
    /// returns that id on all: a broadcast over the process group that there is already.
    ///
    /// # Errors
    /// No NCCL; a place that is none; a driver or GPU that fails; what `exchange` says; ranks that do not come within
    /// [`timeout_ms`](NcclConfig::timeout_ms) after it. Where local rank 0 fails before, the others are still in
    /// `exchange`, and learn of it there.
    pub fn join<E: fmt::Display>(
        config: NcclConfig,
        exchange: impl FnOnce(Option<[u8; 128]>) -> Result<[u8; 128], E>,
    ) -> Result<Self, NcclError> {
        let nccl = Nccl::open()?;
        let context = CudaLibrary::open(names_of("cuda"))
            .map_err(|cause| DeviceError::NoDriver { cause })
            .and_then(|library| DeviceContext::retain(library, config.device))
            .map_err(|cause| NcclError::Device { operation: "join the NCCL group".to_owned(), cause })?;
        Ok(Self { communicator: Communicator::join(nccl, context, config, exchange)?, config })
    }

    /// This process's place.
    pub fn config(&self) -> NcclConfig {
        self.config
    }

    /// Adds up the first `len` f32 of `buffer` over all ranks, in place on the device, with the same bits on all ranks. It
    /// waits until the work that the calling thread has given to `client` is done, and what comes after sees the sum.
    ///
    /// The buffer must be no other one's: parts of it that are in use under another handle would change as well.
    ///
    /// # Errors
    /// A buffer that is too short; CubeCL's own; what [`NcclGroup`] says about other ranks.
    pub fn all_reduce_sum(
        &mut self,
        client: &ComputeClient<CudaRuntime>,
        buffer: &Handle,
        len: usize,
    ) -> Result<(), NcclError> {
        // SAFETY: `with_address` hands over a device address that holds.
        with_address(client, buffer, len, all_reduce_text(len), |address| unsafe {
            self.communicator.all_reduce_sum(address, len)
        })
    }

    /// Copies the first `len` f32 of `buffer` of the local rank `root` to the other ranks' buffers, otherwise as
    /// [`all_reduce_sum`](Self::all_reduce_sum).
    ///
    /// # Errors
    /// As [`all_reduce_sum`](Self::all_reduce_sum); a root that is no member.
    pub fn broadcast(
        &mut self,
        client: &ComputeClient<CudaRuntime>,
        buffer: &Handle,
        len: usize,
        root: usize,
    ) -> Result<(), NcclError> {
        // SAFETY: as above.
        with_address(client, buffer, len, broadcast_text(len, root), |address| unsafe {
            self.communicator.broadcast(address, len, root)
        })
    }
}

impl fmt::Debug for NcclGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NcclGroup(local rank {} of {})", self.config.local_rank, self.config.local_size)
    }
}

/// Calls `collective` with the device address of `buffer`, when all work on it is done.
///
/// CubeCL gives nobody its streams, so no event can make one wait for the other: the wait is the processor's, once before
/// and once (in `collective`) after. A sum of gradients comes after all of the backward pass anyway.
fn with_address(
    client: &ComputeClient<CudaRuntime>,
    buffer: &Handle,
    len: usize,
    operation: String,
    collective: impl FnOnce(u64) -> Result<(), NcclError>,
) -> Result<(), NcclError> {
    check_length(&operation, len, buffer.size_in_used())?;
    let failed = |error: cubecl::server::ServerError| {
        let cause = error.to_string();
        match DeviceError::explain(&cause) {
            Some(cause) => NcclError::Device { operation: operation.clone(), cause },
            None => NcclError::Runtime { operation: operation.clone(), cause },
        }
    };
    // Makes this thread's stream wait for the one that last wrote the buffer, and keeps its memory from being used again.
    let resource = client.get_resource(buffer.clone()).map_err(failed)?;
    // So this waits for both.
    cubecl::future::block_on(client.sync()).map_err(failed)?;
    collective(resource.resource().ptr)
}

/// Whether `len` f32 are in so many bytes.
fn check_length(operation: &str, len: usize, bytes: u64) -> Result<(), NcclError> {
    match (len as u64).checked_mul(size_of::<f32>() as u64) {
        Some(needed) if needed <= bytes => Ok(()),
        _ => Err(NcclError::TooShort { operation: operation.to_owned(), bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_has_to_hold_what_is_sent() {
        assert_eq!(check_length("x", 3, 12), Ok(()));
        assert_eq!(check_length("x", 0, 0), Ok(()));
        for len in [4, usize::MAX, usize::MAX / 4 + 1] {
            let error = check_length(&all_reduce_text(4), len, 12).unwrap_err().to_string();
            assert_eq!(error, "all-reduce(sum) of 4 f32 between the GPUs of the node: the buffer has only 12 bytes");
        }
    }
}

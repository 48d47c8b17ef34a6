//! Collectives between the GPUs of one node by NCCL, over NVLink or PCIe.

mod communicator;
mod error;
#[cfg(test)]
mod group_tests;
mod library;

pub use error::NcclError;
use std::error::Error;
use std::fmt;

use cubecl::cuda::CudaRuntime;
use cubecl::prelude::ComputeClient;
use cubecl::server::Handle;

use crate::cuda::library::{CudaLibrary, names_of};
use crate::cuda::stream::DeviceContext;
use crate::device::DeviceError;
use crate::nccl::communicator::{Communicator, all_reduce_text, broadcast_text};
use crate::nccl::library::Nccl;

/// The position of a process in an [`NcclGroup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NcclConfig {
    /// This process's rank among those of its node, from 0.
    pub local_rank: usize,
    /// The number of processes of the node, each of which has its own GPU.
    pub local_size: usize,
    /// The number of this process's GPU, as in [`CudaGpu::index`](crate::CudaGpu::index).
    pub device: usize,
    /// The time limit for joining, and for each collective, in milliseconds.
    pub timeout_ms: u64,
}

/// The GPUs of one node, one per process, which run collectives together. All members must call the same collectives,
/// in the same order and with the same lengths. Each call blocks the calling thread until this rank's part is done.
///
/// No wait for another rank is unbounded: NCCL's calls return at once and are polled. At the time limit, or when NCCL
/// notices a failure, the communicator is aborted, which also ends its work on the device. The death of a process of
/// the same node is usually noticed only by the time limit, so an error of the process group over TCP may come first.
/// The wait for this rank's own kernels, which depend on nobody else, is not bounded.
///
/// If the device has failed before, CubeCL panics instead of returning an error, here as elsewhere
/// ([`watch_panics`](crate::watch_panics)).
///
/// An error breaks the group: its buffers are undefined, and every further call fails. The job has to end or to
/// restart.
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
    /// Returns true if this machine has a usable NCCL. The library is loaded, but does not touch a device.
    ///
    /// All processes of the node have to call this, and to agree on the result, before any of them joins.
    pub fn is_present() -> bool {
        Self::check_present().is_ok()
    }

    /// Like [`is_present`](Self::is_present), with the reason as an error.
    ///
    /// # Errors
    /// Fails if NCCL is missing, too old or unusable.
    pub fn check_present() -> Result<(), NcclError> {
        Nccl::open().map(drop)
    }

    /// Joins the other processes of the node. `exchange` gets the group's id on local rank 0 and `None` on the others,
    /// and must return the id on all of them: a broadcast over an existing process group.
    ///
    /// # Errors
    /// Fails if there is no usable NCCL, if the rank is out of range, if the driver or GPU fails, if `exchange` fails,
    /// and if ranks do not join within [`timeout_ms`](NcclConfig::timeout_ms) after it. If local rank 0 fails before
    /// `exchange`, the others are still waiting there, and learn of the failure there.
    pub fn join<E: Into<Box<dyn Error + Send + Sync>>>(
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

    /// Returns the position of this process.
    pub fn config(&self) -> NcclConfig {
        self.config
    }

    /// Sums the first `len` f32 of `buffer` over all ranks, in place on the device, with the same bits on all ranks. It
    /// first waits for the work that the calling thread has given to `client`, and later work sees the sum.
    ///
    /// The buffer must not share memory with other handles in use, whose values would change as well.
    ///
    /// # Errors
    /// Fails on a buffer that is too short, on errors of CubeCL, and on the failures of other ranks that [`NcclGroup`]
    /// describes.
    pub fn all_reduce_sum(
        &mut self,
        client: &ComputeClient<CudaRuntime>,
        buffer: &Handle,
        len: usize,
    ) -> Result<(), NcclError> {
        // SAFETY: `with_address` passes a device address that is valid during the call.
        with_address(client, buffer, len, all_reduce_text(len), |address| unsafe {
            self.communicator.all_reduce_sum(address, len)
        })
    }

    /// Copies the first `len` f32 of `buffer` from the local rank `root` to the other ranks' buffers. The rest is as in
    /// [`all_reduce_sum`](Self::all_reduce_sum).
    ///
    /// # Errors
    /// Those of [`all_reduce_sum`](Self::all_reduce_sum), and a root outside of the group.
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

/// Calls `collective` with the device address of `buffer`, after all work on it is done.
///
/// CubeCL does not expose its streams, so no event can make one stream wait for the other. Instead the CPU waits, once
/// before and once (in `collective`) after. A sum of gradients comes after the whole backward pass anyway.
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
    // Makes this thread's stream wait for the one that last wrote the buffer, and keeps its memory from being reused.
    let resource = client.get_resource(buffer.clone()).map_err(failed)?;
    // So this waits for both streams.
    cubecl::future::block_on(client.sync()).map_err(failed)?;
    collective(resource.resource().ptr)
}

/// Checks that a buffer of `bytes` bytes holds `len` f32.
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
        assert!(check_length("x", 3, 12).is_ok());
        assert!(check_length("x", 0, 0).is_ok());
        for len in [4, usize::MAX, usize::MAX / 4 + 1] {
            let error = check_length(&all_reduce_text(4), len, 12).unwrap_err().to_string();
            assert_eq!(error, "all-reduce(sum) of 4 f32 between the GPUs of the node: the buffer has only 12 bytes");
        }
    }
}

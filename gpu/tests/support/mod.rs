//! The device that the tests run on.
#![allow(unreachable_pub)]

use cubecl::Runtime;
use cubecl::client::ComputeClient;
use cubecl::cuda::{CudaDevice, CudaRuntime};
use edgecut_gpu::{DeviceChoice, resolve};
use edgecut_testing::{Need, skip};

/// Returns a GPU, or the stand-in of `scripts/cuda_on_cpu.sh`. Without a device the test is skipped with a message, or
/// fails if `EDGECUT_REQUIRE` is set.
pub fn device() -> Option<ComputeClient<CudaRuntime>> {
    match resolve(DeviceChoice::Cuda, 0, 1) {
        Ok(_) => Some(CudaRuntime::client(&CudaDevice::new(0))),
        Err(why) => {
            skip(Need::Cuda, "a test of the GPU", why);
            None
        }
    }
}

/// A small deterministic generator, so that inputs are the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

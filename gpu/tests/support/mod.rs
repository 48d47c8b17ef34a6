//! The device that the tests run on.
#![allow(unreachable_pub)]

use cubecl::Runtime;
use cubecl::client::ComputeClient;
use cubecl::wgpu::{WgpuDevice, WgpuRuntime};

/// The runtime of the tests.
pub type Vulkan = WgpuRuntime;

/// A Vulkan device that is emulated on the CPU. Without one a test has nothing to run on: it says so and passes, unless
/// `EDGECUT_REQUIRE_VULKAN` is set.
pub fn device() -> Option<ComputeClient<Vulkan>> {
    let client = std::panic::catch_unwind(|| Vulkan::client(&WgpuDevice::Cpu));
    match client {
        Ok(client) => Some(client),
        Err(_) if std::env::var_os("EDGECUT_REQUIRE_VULKAN").is_some() => {
            panic!(
                "EDGECUT_REQUIRE_VULKAN is set, but there is no Vulkan device on the CPU: install mesa-vulkan-drivers"
            )
        }
        Err(_) => {
            eprintln!("skipped: there is no Vulkan device on the CPU (mesa-vulkan-drivers has one)");
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

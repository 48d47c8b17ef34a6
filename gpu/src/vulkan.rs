//! The Vulkan devices of this machine.

use cubecl::wgpu::WgpuDevice;
use wgpu::{Backends, DeviceType, Instance, InstanceDescriptor};

/// The best Vulkan device: a GPU if there is one, else one that is emulated on the CPU.
///
/// # Errors
/// Why there is none.
pub fn vulkan_device() -> Result<WgpuDevice, String> {
    let instance = Instance::new(InstanceDescriptor {
        backends: Backends::VULKAN,
        ..InstanceDescriptor::new_without_display_handle()
    });
    let adapters = cubecl::future::block_on(instance.enumerate_adapters(Backends::VULKAN));
    let types: Vec<DeviceType> = adapters.iter().map(|adapter| adapter.get_info().device_type).collect();
    let candidates = [
        (DeviceType::DiscreteGpu, WgpuDevice::DiscreteGpu(0)),
        (DeviceType::IntegratedGpu, WgpuDevice::IntegratedGpu(0)),
        (DeviceType::VirtualGpu, WgpuDevice::VirtualGpu(0)),
        (DeviceType::Cpu, WgpuDevice::Cpu),
    ];
    let found = candidates.into_iter().find(|(device_type, _)| types.contains(device_type));
    found.map(|(_, device)| device).ok_or_else(|| {
        "this machine has no Vulkan device: install a GPU's driver, or Mesa's emulation (Debian's mesa-vulkan-drivers)"
            .to_owned()
    })
}

//! The kernels on a GPU against those of the CPU: on a Vulkan device, which Mesa emulates on the CPU where there is none, or, in a
//! build for CUDA alone, on an NVIDIA GPU.

mod blocks;
mod operations;
#[path = "../programs/mod.rs"]
mod programs;
mod training;

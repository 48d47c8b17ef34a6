//! The kernels on a Vulkan device, Mesa's emulation on the CPU among them, against those of the CPU.

mod blocks;
mod operations;
#[path = "../programs/mod.rs"]
mod programs;
mod training;

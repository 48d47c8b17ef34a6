//! The kernels on a GPU against those of the CPU: on an NVIDIA GPU, or on what `scripts/cuda_on_cpu.sh` puts in its place.

mod blocks;
mod operations;
#[path = "../programs/mod.rs"]
mod programs;
mod training;

//! The kernels on a GPU compared with those on the CPU. They run on an NVIDIA GPU, or under `scripts/cuda_on_cpu.sh`,
//! which emulates one on the CPU.

mod blocks;
mod operations;

//! The program `train` on a GPU, or under `scripts/cuda_on_cpu.sh`, which emulates one on the CPU.

#[path = "../programs/mod.rs"]
mod programs;
mod training;

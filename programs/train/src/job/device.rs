//! The device that a rank computes on.

use crate::args::device::DeviceArgs;
use crate::job::process_role::Rank;
use crate::settings::flag_names::with_flags;
use edgecut_cli::message;
use edgecut_gnn::ops::{Precision, cpu_multiplies_bf16};
use edgecut_gpu::{CudaGpu, Resolved};
#[cfg(feature = "cuda")]
use edgecut_stores::default_cache_folder;
use std::path::Path;

/// Returns the device of a rank and prints it: each rank on a GPU names its GPU, and the first rank of a node
/// explains a fallback to the CPU.
pub(crate) fn of_rank(args: &DeviceArgs, cache_dir: Option<&Path>, rank: &mut Rank) -> anyhow::Result<Resolved> {
    let device = args.resolve(rank.local_rank, rank.local_world_size)?;
    match &device {
        Resolved::Cpu { why } if rank.local_rank == 0 => {
            if let Some(why) = why {
                message!("{}", with_flags(why));
            }
            match args.mixed_precision {
                Some(Precision::F16) => {
                    message!(
                        "--mixed-precision f16 applies to GPUs only: the CPU multiplies in f32; bf16 applies to both"
                    );
                }
                Some(Precision::Bf16) if !cpu_multiplies_bf16() => message!(
                    "--mixed-precision bf16: this CPU has no instructions that multiply faster in bf16 than in f32 (AMD Zen \
                     4 and newer have), so training is slower: leave the flag out, unless other nodes have them"
                ),
                _ => {}
            }
        }
        Resolved::Cpu { .. } => {}
        gpu => {
            message!("rank {} computes on {gpu}", rank.rank);
            if let Resolved::Cuda(gpu) = gpu {
                rank.gpu = Some(gpu.index);
                keep_kernels_of(gpu, cache_dir, rank.local_rank == 0);
            }
        }
    }
    Ok(device)
}

/// Keeps compiled kernels in the folder of caches. If `says`, prints a line if there are no kernels of earlier runs.
#[cfg(feature = "cuda")]
fn keep_kernels_of(gpu: &CudaGpu, cache_dir: Option<&Path>, says: bool) {
    let folder = cache_dir.map_or_else(default_cache_folder, Path::to_owned).join("kernels");
    match edgecut_gpu::keep_kernels(&folder, gpu) {
        Ok(false) if says => message!(
            "the first steps compile kernels, which takes tens of seconds; later runs find them in {}",
            folder.display()
        ),
        Err(error) if says => message!(
            "note: each run compiles its kernels again, because they cannot be kept in {}: {error}; --cache-dir chooses \
             another folder",
            folder.display()
        ),
        _ => {}
    }
}

#[cfg(not(feature = "cuda"))]
fn keep_kernels_of(_: &CudaGpu, _: Option<&Path>, _: bool) {}

/// Evaluates an expression with a type for the backend, and a reference to the device, of `$resolved`.
macro_rules! on_device {
    ($resolved:expr, |$backend:ident, $device:ident| $work:expr) => {
        match $resolved {
            edgecut_gpu::Resolved::Cpu { .. } => {
                type $backend = edgecut_trainer::Cpu;
                let $device = &Default::default();
                $work
            }
            #[cfg(feature = "cuda")]
            edgecut_gpu::Resolved::Cuda(gpu) => {
                type $backend = edgecut_trainer::Cuda;
                let $device = &edgecut_trainer::CudaDevice::new(gpu.index);
                $work
            }
            #[allow(unreachable_patterns)]
            other => unreachable!("this program is built without support for {other}"),
        }
    };
}
pub(crate) use on_device;

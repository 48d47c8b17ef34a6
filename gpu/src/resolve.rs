//! The decision for a device, from the user's choice and the machine's devices.

use crate::device::{CudaGpu, DeviceChoice, DeviceError, Machine, Resolved, visible_devices};

/// Finds the device of the process `local_rank` among the `local_world_size` processes of this node. For an NVIDIA GPU
/// this loads the driver and the run-time compiler and queries them. It creates no context on the device. Unlike the
/// first use of a device, it does not panic if something is missing.
///
/// # Errors
/// Fails if the program is not built for the device, if the device does not exist or lacks what it needs on this
/// machine, and if there are fewer GPUs than processes. `auto` fails only in the last case, since a job should not run
/// on GPUs and CPUs at once.
pub fn resolve(choice: DeviceChoice, local_rank: usize, local_world_size: usize) -> Result<Resolved, DeviceError> {
    #[cfg(feature = "cuda")]
    let machine = Some(&crate::cuda::machine::ThisMachine as &dyn Machine);
    #[cfg(not(feature = "cuda"))]
    let machine = None;
    decide(choice, Place { local_rank, local_world_size }, machine)
}

/// The position of a process among those of its node.
#[derive(Clone, Copy)]
struct Place {
    local_rank: usize,
    local_world_size: usize,
}

/// Decides without touching anything but `machine`, which is `None` in a program that is built without NVIDIA GPUs.
fn decide(choice: DeviceChoice, place: Place, machine: Option<&dyn Machine>) -> Result<Resolved, DeviceError> {
    let built = || machine.ok_or(DeviceError::NotBuilt { choice: choice.to_string() });
    match choice {
        DeviceChoice::Cpu => Ok(Resolved::Cpu { why: None }),
        DeviceChoice::Cuda => gpu_of_rank(built()?, place).map(Resolved::Cuda),
        DeviceChoice::CudaIndex(index) => gpu_of_number(built()?, place, index).map(Resolved::Cuda),
        DeviceChoice::Auto => {
            let Some(machine) = machine else { return Ok(Resolved::Cpu { why: None }) };
            match gpu_of_rank(machine, place) {
                Ok(gpu) => Ok(Resolved::Cuda(gpu)),
                Err(error @ DeviceError::TooFewGpus { .. }) => Err(error),
                Err(error) => Ok(Resolved::Cpu {
                    why: Some(format!("`device=auto` chooses the CPU: {}", error.without_remedy())),
                }),
            }
        }
    }
}

/// Returns the GPU whose number is the process's local rank.
fn gpu_of_rank(machine: &dyn Machine, place: Place) -> Result<CudaGpu, DeviceError> {
    let mut gpus = machine.gpus()?;
    // All processes of the node must get the same error, also those for which there is a GPU.
    if place.local_world_size > gpus.len() || place.local_rank >= gpus.len() {
        let processes = place.local_world_size.max(place.local_rank + 1);
        return Err(DeviceError::TooFewGpus { processes, gpus: gpus.len(), visible: visible_devices() });
    }
    let gpu = gpus.swap_remove(place.local_rank);
    machine.check_compiler(&gpu)?;
    Ok(gpu)
}

/// Returns the GPU `index` for the only process of the node.
fn gpu_of_number(machine: &dyn Machine, place: Place, index: usize) -> Result<CudaGpu, DeviceError> {
    if place.local_world_size > 1 {
        return Err(DeviceError::SharedGpu { index, processes: place.local_world_size });
    }
    let mut gpus = machine.gpus()?;
    if index >= gpus.len() {
        let names = gpus.into_iter().map(|gpu| gpu.name).collect();
        return Err(DeviceError::NoSuchGpu { index, names, visible: visible_devices() });
    }
    let gpu = gpus.swap_remove(index);
    machine.check_compiler(&gpu)?;
    Ok(gpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(Result<usize, DeviceError>, Result<(), DeviceError>);

    impl Machine for Fake {
        fn gpus(&self) -> Result<Vec<CudaGpu>, DeviceError> {
            Ok((0..self.0.clone()?).map(gpu).collect())
        }

        fn check_compiler(&self, _: &CudaGpu) -> Result<(), DeviceError> {
            self.1.clone()
        }
    }

    fn gpu(index: usize) -> CudaGpu {
        CudaGpu {
            index,
            name: "NVIDIA L4".to_owned(),
            total_memory_bytes: 24 << 30,
            compute_capability: (8, 9),
            driver_version: (12, 8),
        }
    }

    fn on(machine: &Fake, choice: &str, local_rank: usize, local_world_size: usize) -> Result<Resolved, String> {
        let choice = choice.parse::<DeviceChoice>().map_err(|error| error.to_string())?;
        decide(choice, Place { local_rank, local_world_size }, Some(machine)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_process_takes_the_gpu_of_its_local_rank() {
        let machine = Fake(Ok(2), Ok(()));
        for choice in ["auto", "cuda"] {
            assert_eq!(on(&machine, choice, 0, 2), Ok(Resolved::Cuda(gpu(0))));
            assert_eq!(on(&machine, choice, 1, 2), Ok(Resolved::Cuda(gpu(1))));
            assert_eq!(on(&machine, choice, 0, 1), Ok(Resolved::Cuda(gpu(0))));
        }
        assert_eq!(on(&machine, "cuda:1", 0, 1), Ok(Resolved::Cuda(gpu(1))));
        assert_eq!(on(&machine, "cpu", 3, 4), Ok(Resolved::Cpu { why: None }));
        assert_eq!(Resolved::Cuda(gpu(1)).to_string(), "cuda:1 (NVIDIA L4, 24.0 GiB)");
    }

    #[test]
    fn too_many_processes_are_told_on_every_rank() {
        let machine = Fake(Ok(2), Ok(()));
        let expected = "`nproc_per_node` is 4, but this machine has 2 GPUs: start at most 2 processes per node, or use \
                        `device=cpu`";
        for (choice, rank) in [("auto", 0), ("auto", 3), ("cuda", 0), ("cuda", 2)] {
            assert_eq!(on(&machine, choice, rank, 4), Err(expected.to_owned()));
        }
        let one = Fake(Ok(1), Ok(()));
        let expected = "`nproc_per_node` is 2, but this machine has 1 GPU: start at most 1 process per node, or use \
                        `device=cpu`";
        assert_eq!(on(&one, "cuda", 0, 2), Err(expected.to_owned()));
    }

    #[test]
    fn a_number_is_for_one_process_and_has_to_exist() {
        let machine = Fake(Ok(2), Ok(()));
        let expected = "`device=cuda:1` is one GPU, but `nproc_per_node` is 2: use `device=cuda`, which takes a GPU for each \
                        process, or start one process per node";
        assert_eq!(on(&machine, "cuda:1", 0, 2), Err(expected.to_owned()));
        let expected = "`device=cuda:2`: this machine has 2 GPUs: cuda:0 (NVIDIA L4), cuda:1 (NVIDIA L4)";
        assert_eq!(on(&machine, "cuda:2", 0, 1), Err(expected.to_owned()));
    }

    #[test]
    fn auto_falls_back_and_says_why() {
        let line = |machine: &Fake| match on(machine, "auto", 0, 2) {
            Ok(Resolved::Cpu { why }) => why,
            other => panic!("{other:?}"),
        };
        let none = Fake(Err(DeviceError::NoDriver { cause: "libcuda.so.1: cannot open".to_owned() }), Ok(()));
        assert_eq!(line(&none).as_deref(), Some("`device=auto` chooses the CPU: no NVIDIA driver was found"));
        let no_compiler = Fake(Ok(2), Err(DeviceError::NoHeaders { cause: "x".to_owned() }));
        assert!(line(&no_compiler).unwrap().starts_with("`device=auto` chooses the CPU: the CUDA headers"));
        assert!(on(&no_compiler, "cuda", 0, 2).unwrap_err().starts_with("the CUDA headers"));

        let unbuilt = decide(DeviceChoice::Auto, Place { local_rank: 0, local_world_size: 1 }, None);
        assert_eq!(unbuilt, Ok(Resolved::Cpu { why: None }));
    }

    #[test]
    fn a_device_that_is_left_out_of_the_build_says_how_to_build_it() {
        let place = Place { local_rank: 0, local_world_size: 1 };
        for choice in ["cuda", "cuda:0"] {
            let error = decide(choice.parse().unwrap(), place, None).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "`device={choice}`: this program was built without the feature 'cuda': build it with cargo build \
                     --release --features cuda"
                )
            );
        }
    }
}

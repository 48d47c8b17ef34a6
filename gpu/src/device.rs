//! The device that a process computes on, from the user's choice and the machine's devices.

mod error;
mod panics;

use std::fmt;
use std::str::FromStr;

pub use error::DeviceError;
pub use panics::{noted_failure, watch_panics};

/// The user's choice of a device: the value of `--device`.
///
/// ```
/// use edgecut_gpu::DeviceChoice;
///
/// assert_eq!("cuda:1".parse(), Ok(DeviceChoice::CudaIndex(1)));
/// assert_eq!(DeviceChoice::CudaIndex(1).to_string(), "cuda:1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// A GPU for each process if the program is built for GPUs and they work, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU for each process of a node: the one whose number is the process's local rank.
    Cuda,
    /// The NVIDIA GPU with this number, from 0, for the only process of a node. `CUDA_VISIBLE_DEVICES` decides which
    /// GPUs are numbered.
    CudaIndex(usize),
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let index = |digits: &str| {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) {
                digits.parse().ok().map(Self::CudaIndex)
            } else {
                None
            }
        };
        let choice = match text {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda),
            _ => text.strip_prefix("cuda:").and_then(index),
        };
        choice.ok_or_else(|| DeviceError::NoSuchChoice(text.to_owned()))
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda => f.write_str("cuda"),
            Self::CudaIndex(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// An NVIDIA GPU that this process sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaGpu {
    /// The GPU's number among the GPUs that this process sees, from 0.
    pub index: usize,
    /// The driver's name of the GPU: "NVIDIA L4".
    pub name: String,
    /// The size of the GPU's memory in bytes, whether free or used.
    pub total_memory_bytes: u64,
    /// The compute capability, major and minor: (9, 0) for Hopper.
    pub compute_capability: (u32, u32),
    /// The newest CUDA version that the driver supports, major and minor.
    pub driver_version: (u32, u32),
}

/// The device that a process computes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The CPU.
    Cpu {
        /// A line for the user, if `auto` has skipped GPUs that the program is built for.
        why: Option<String>,
    },
    /// An NVIDIA GPU, whose driver, compiler and headers have been checked.
    Cuda(CudaGpu),
}

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu { .. } => f.write_str("cpu"),
            Self::Cuda(gpu) => write!(f, "cuda:{} ({}, {})", gpu.index, gpu.name, bytes_text(gpu.total_memory_bytes)),
        }
    }
}

/// The queries of a machine that a decision needs.
pub(crate) trait Machine {
    /// Returns the GPUs that this process sees, by number; at least one.
    fn gpus(&self) -> Result<Vec<CudaGpu>, DeviceError>;

    /// Checks that kernels can be compiled for this GPU.
    fn check_compiler(&self, gpu: &CudaGpu) -> Result<(), DeviceError>;
}

/// Returns the value of `CUDA_VISIBLE_DEVICES`, which restricts the GPUs that the driver shows to this process.
pub(crate) fn visible_devices() -> Option<String> {
    std::env::var_os("CUDA_VISIBLE_DEVICES").map(|value| value.to_string_lossy().into_owned())
}

/// Formats a size: "1.5 GiB", "512 B".
pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut text = format!("{bytes} B");
    for unit in UNITS.iter().take_while(|_| bytes >= 1024) {
        value /= 1024.0;
        text = format!("{value:.1} {unit}");
        if value < 1024.0 {
            break;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_and_written() {
        for text in ["auto", "cpu", "cuda", "cuda:0", "cuda:17"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        for text in
            ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda:one", "cuda:0 ", "cuda:99999999999999999999"]
        {
            let error = text.parse::<DeviceChoice>().unwrap_err().to_string();
            let expected = "is not a device: give auto, cpu, cuda or cuda:K (the GPU number K, from 0)";
            assert_eq!(error, format!("'{text}' {expected}"));
        }
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(
            [0, 1023, 1024, 3 << 29, 5 << 40].map(bytes_text),
            ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "5.0 TiB"]
        );
    }
}

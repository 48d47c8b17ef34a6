//! The errors of choosing and using a device.

use std::fmt;

/// An error that keeps a program from using a device.
///
/// Each message names the cause and the remedy. Settings of the program are in backticks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The text names no kind of device.
    #[error("'{0}' is not a device: give auto, cpu, cuda or cuda:K (the GPU number K, from 0)")]
    NoSuchChoice(String),

    /// The program was built without support for the device.
    #[error(
        "`device={choice}`: this program was built without the feature 'cuda': build it with \
         cargo build --release --features cuda"
    )]
    NotBuilt {
        /// The requested device.
        choice: String,
    },

    /// The driver's library does not exist, or cannot be loaded.
    #[error(
        "no NVIDIA driver was found ({cause}): install it so that nvidia-smi lists the GPU; a container has to be started \
         with GPUs (docker run --gpus all)"
    )]
    NoDriver {
        /// The message of the dynamic loader.
        cause: String,
    },

    /// The driver's library exists, but lacks a function.
    #[error("the library {library} is not a usable NVIDIA driver: {cause}")]
    NotADriver {
        /// The name of the library.
        library: String,
        /// The message of the dynamic loader.
        cause: String,
    },

    /// A call of the driver failed.
    #[error("the NVIDIA driver does not work: {call} failed with {name} ({code}){hint}")]
    Driver {
        /// The name of the function.
        call: &'static str,
        /// The result, a `CUresult`.
        code: i32,
        /// The name of the result.
        name: String,
        /// The remedy, after a colon, or an empty text.
        hint: &'static str,
    },

    /// The driver works, but sees no GPU.
    #[error("the NVIDIA driver finds no GPU{}", Visible(visible))]
    NoGpu {
        /// The value of `CUDA_VISIBLE_DEVICES`, if it is set. It restricts the GPUs that the driver shows to this
        /// process.
        visible: Option<String>,
    },

    /// The driver is older than the runtime of the kernels requires.
    #[error(
        "the NVIDIA driver is too old: it supports CUDA {}.{}, but {}.{} is needed: install driver 525 or newer",
        found.0, found.1, needed.0, needed.1
    )]
    OldDriver {
        /// The newest CUDA version that the driver supports, major and minor.
        found: (u32, u32),
        /// The oldest sufficient CUDA version.
        needed: (u32, u32),
    },

    /// Each process takes a GPU of its own, and there are too few.
    #[error(
        "`nproc_per_node` is {processes}, but this machine has {}{}: start at most {} per node, or use `device=cpu`",
        Gpus(*gpus), Visible(visible), Processes(*gpus)
    )]
    TooFewGpus {
        /// The number of processes of this node.
        processes: usize,
        /// The number of GPUs that they can see.
        gpus: usize,
        /// The value of `CUDA_VISIBLE_DEVICES`, if it is set.
        visible: Option<String>,
    },

    /// A GPU was requested that does not exist.
    #[error("`device=cuda:{index}`: this machine has {}{}: {}", Gpus(names.len()), Visible(visible), Listed(names))]
    NoSuchGpu {
        /// The requested number.
        index: usize,
        /// The names of the existing GPUs, by number.
        names: Vec<String>,
        /// The value of `CUDA_VISIBLE_DEVICES`, if it is set.
        visible: Option<String>,
    },

    /// One GPU was requested for several processes.
    #[error(
        "`device=cuda:{index}` is one GPU, but `nproc_per_node` is {processes}: use `device=cuda`, which takes a GPU for \
         each process, or start one process per node"
    )]
    SharedGpu {
        /// The requested number.
        index: usize,
        /// The number of processes of this node.
        processes: usize,
    },

    /// The library that compiles kernels at run time does not exist, or cannot be loaded.
    #[error(
        "libnvrtc, which compiles the kernels at run time, was not found ({cause}): install the package cuda-nvrtc of the \
         driver's CUDA version (or the whole CUDA toolkit), and name its folder in LD_LIBRARY_PATH"
    )]
    NoCompiler {
        /// The message of the dynamic loader.
        cause: String,
    },

    /// The library that compiles kernels is newer than the driver, which cannot load its output.
    #[error("{}", NewCompiler(versions))]
    NewCompiler {
        /// The CUDA versions of the compiler and of the driver, if they are known.
        versions: Option<[(u32, u32); 2]>,
    },

    /// The library that compiles kernels does not support this GPU.
    #[error(
        "libnvrtc {}.{} does not compile for {gpu} (compute capability {}.{}): install {} one",
        compiler.0, compiler.1, capability.0, capability.1, if *newer { "a newer" } else { "an older" }
    )]
    UnknownGpu {
        /// The CUDA version of the compiler.
        compiler: (u32, u32),
        /// The name of the GPU.
        gpu: String,
        /// Its compute capability.
        capability: (u32, u32),
        /// True if a newer compiler would support it, false if an older one would.
        newer: bool,
    },

    /// The toolkit's headers, which every kernel includes, do not exist.
    #[error(
        "the CUDA headers, which compiling the kernels at run time needs, were not found ({cause}): install the packages \
         cuda-cudart-dev and cuda-nvcc of libnvrtc's version, and set CUDA_PATH to the folder that has their include/"
    )]
    NoHeaders {
        /// The missing headers, and the folder that was searched.
        cause: String,
    },

    /// The compiler and the headers exist, but fail to compile a small kernel.
    #[error(
        "libnvrtc {}.{} cannot compile a kernel with the headers in {headers}: {log}: install cuda-nvrtc, cuda-cudart-dev and \
         cuda-nvcc of the same version",
        compiler.0, compiler.1
    )]
    KernelFails {
        /// The CUDA version of the compiler.
        compiler: (u32, u32),
        /// The folder of the headers.
        headers: String,
        /// The first line of the compiler's log.
        log: String,
    },

    /// The GPU's memory is exhausted.
    #[error(
        "the GPU is out of memory{}: a smaller `batch_size`, a smaller `cache_bytes` or a smaller `num_neighbors` needs \
         less memory",
        Asked(*asked_bytes)
    )]
    OutOfMemory {
        /// The size in bytes of the allocation that failed, if it is known. CubeCL allocates memory in pages of up to a
        /// quarter of the GPU's memory, so this can be more than was requested; a single larger allocation is
        /// impossible.
        asked_bytes: Option<u64>,
    },

    /// Another failure of the GPU.
    #[error(
        "the GPU failed: {cause}: if it fails again with another driver and libnvrtc, please report it with the output of \
         RUST_BACKTRACE=1"
    )]
    Failed {
        /// The message of the driver or the compiler.
        cause: String,
    },
}

impl DeviceError {
    /// Returns the message without the remedy if nothing is broken: the machine simply has no GPU.
    pub(crate) fn without_remedy(&self) -> String {
        match self {
            Self::NoDriver { .. } => "no NVIDIA driver was found".to_owned(),
            other => other.to_string(),
        }
    }

    /// Recognizes a failure of the device in the message of a panic or an error of CubeCL. Returns `None` for anything
    /// else.
    ///
    /// The behavior of CubeCL 0.10 when an allocation fails depends on its purpose:
    /// * For a new buffer, the device's own thread panics (`can't allocate buffer of size: N`), and the caller does not
    ///   learn of it: its next read of the buffer panics with `CallError`. So messages have to be read in the panic
    ///   hook ([`watch_panics`](crate::watch_panics)).
    /// * For a kernel's arguments, or a launch, the error is kept with the stream, and the next read or sync returns it
    ///   as `ServerError::ServerUnhealthy`, whose text has the same words, or `CUDA_ERROR_OUT_OF_MEMORY`.
    /// * For a context or stream, CubeCL panics with `CUDA_ERROR_OUT_OF_MEMORY`.
    pub fn explain(message: &str) -> Option<Self> {
        const TOO_BIG: &str = "can't allocate buffer of size: ";
        const NO_FILE: &str = "cannot open source file ";
        let after = |what: &str| message.split_once(what).map(|(_, rest)| rest);

        if let Some(size) = after(TOO_BIG) {
            let digits = size.split(|letter: char| !letter.is_ascii_digit()).next();
            return Some(Self::OutOfMemory { asked_bytes: digits.and_then(|digits| digits.parse().ok()) });
        }
        if message.contains("CUDA_ERROR_OUT_OF_MEMORY") || message.contains("An out-of-memory error happened") {
            return Some(Self::OutOfMemory { asked_bytes: None });
        }
        if let Some(name) = after(NO_FILE) {
            let name = name.split('"').nth(1).unwrap_or("a header");
            return Some(Self::NoHeaders { cause: format!("libnvrtc does not find {name}") });
        }
        if message.contains("CUDA installation not found") {
            return Some(Self::NoHeaders { cause: "CUDA_PATH is not set, and there is no /usr/local/cuda".to_owned() });
        }
        if message.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION") {
            return Some(Self::NewCompiler { versions: None });
        }
        let missing = |library: &str| message.contains(&format!("Unable to dynamically load the \"{library}\""));
        if missing("nvrtc") {
            return Some(Self::NoCompiler { cause: "it cannot be loaded".to_owned() });
        }
        if missing("cuda") {
            return Some(Self::NoDriver { cause: "libcuda.so.1 cannot be loaded".to_owned() });
        }
        if let Some(said) = after("DriverError(") {
            let cause = said.split(')').next().unwrap_or_default().replace('"', "");
            return Some(Self::Failed { cause });
        }
        let log = after("[Compilation Error]")?;
        let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.clone().next().unwrap_or("it does not say why");
        let line = lines.find(|line| line.contains("error")).unwrap_or(first);
        Some(Self::Failed { cause: format!("a kernel does not compile: {line}") })
    }
}

/// Displays a number of GPUs: "2 GPUs".
struct Gpus(usize);

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GPU{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// Displays a number of processes: "2 processes".
struct Processes(usize);

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} process{}", self.0, if self.0 == 1 { "" } else { "es" })
    }
}

/// Displays the restriction by `CUDA_VISIBLE_DEVICES`, the first thing to check when a GPU is missing.
struct Visible<'a>(&'a Option<String>);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .as_ref()
            .map_or(Ok(()), |value| write!(f, " that this process may see (CUDA_VISIBLE_DEVICES is '{value}')"))
    }
}

/// Displays GPUs: "cuda:0 (NVIDIA L4), cuda:1 (NVIDIA L4)".
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}cuda:{index} ({name})", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Displays the versions of a compiler that is too new, if they are known.
struct NewCompiler<'a>(&'a Option<[(u32, u32); 2]>);

impl fmt::Display for NewCompiler<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|versions| versions.map(|(major, minor)| format!("{major}.{minor}"))) {
            Some([compiler, driver]) => write!(
                f,
                "libnvrtc {compiler} compiles kernels that the NVIDIA driver, of CUDA {driver}, cannot load: install libnvrtc \
                 {driver} or older, or a newer driver"
            ),
            None => write!(
                f,
                "libnvrtc compiles kernels that the NVIDIA driver cannot load: install one that is no newer than the driver \
                 (nvidia-smi shows its CUDA version), or a newer driver"
            ),
        }
    }
}

/// Displays the size of a failed allocation: " (2.0 GiB more did not fit)".
struct Asked(Option<u64>);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |bytes| write!(f, " ({} more did not fit)", crate::device::bytes_text(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_cubecl_are_recognised() {
        let memory = |asked_bytes| Some(DeviceError::OutOfMemory { asked_bytes });
        let explain = DeviceError::explain;
        // Panics of the device's thread.
        assert_eq!(
            explain("called `Result::unwrap()` on an `Err` value: can't allocate buffer of size: 4096\nno backtrace"),
            memory(Some(4096))
        );
        assert_eq!(
            explain("Can create a new stream.: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")"),
            memory(None)
        );
        // The error that a sync returns.
        let unhealthy = "The server is in an invalid state\nCaused by:\n  [Launch(An io error happened during launch\nCaused \
                         by:\n  can't allocate buffer of size: 12\n)]";
        assert_eq!(explain(unhealthy), memory(Some(12)));

        let header = r#"[Compilation Error]
    default_program(1): catastrophic error: cannot open source file "cuda_runtime.h""#;
        assert_eq!(
            explain(header),
            Some(DeviceError::NoHeaders { cause: "libnvrtc does not find cuda_runtime.h".to_owned() })
        );
        let toolkit = "\n        CUDA installation not found.\n        Please ensure that";
        assert!(matches!(explain(toolkit), Some(DeviceError::NoHeaders { .. })));
        let library = "Unable to dynamically load the \"nvrtc\" shared library - searched for library names: [..]";
        assert!(matches!(explain(library), Some(DeviceError::NoCompiler { .. })));
        let library = "Unable to dynamically load the \"cuda\" shared library - searched for library names: [..]";
        assert!(matches!(explain(library), Some(DeviceError::NoDriver { .. })));
        let ptx = "Unable to load the PTX: DriverError(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, \"...\")";
        assert_eq!(explain(ptx), Some(DeviceError::NewCompiler { versions: None }));
        let failed = |cause: &str| Some(DeviceError::Failed { cause: cause.to_owned() });
        let launch = "  DriverError(CUDA_ERROR_LAUNCH_FAILED, \"unspecified launch failure\")\nBacktrace:\nNo backtrace available)";
        assert_eq!(explain(launch), failed("CUDA_ERROR_LAUNCH_FAILED, unspecified launch failure"));
        let kernel = "Caused by:\n  [Compilation Error] \n    default_program(9): error: no such thing\n[Source]";
        assert_eq!(explain(kernel), failed("a kernel does not compile: default_program(9): error: no such thing"));
        assert_eq!(explain("called `Result::unwrap()` on an `Err` value: CallError"), None);
    }

    #[test]
    fn texts_name_the_remedy() {
        assert_eq!(
            DeviceError::OutOfMemory { asked_bytes: Some(3 << 29) }.to_string(),
            "the GPU is out of memory (1.5 GiB more did not fit): a smaller `batch_size`, a smaller `cache_bytes` or a \
             smaller `num_neighbors` needs less memory"
        );
        assert_eq!(
            DeviceError::NewCompiler { versions: Some([(12, 8), (12, 4)]) }.to_string(),
            "libnvrtc 12.8 compiles kernels that the NVIDIA driver, of CUDA 12.4, cannot load: install libnvrtc 12.4 or \
             older, or a newer driver"
        );
        assert_eq!(
            DeviceError::UnknownGpu { compiler: (12, 1), gpu: "B200".into(), capability: (10, 0), newer: true }
                .to_string(),
            "libnvrtc 12.1 does not compile for B200 (compute capability 10.0): install a newer one"
        );
    }
}

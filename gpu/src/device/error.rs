//! Why a device cannot be used, in words that say what to do about it.

use std::fmt;

/// What stands between a program and the device that it was told to use.
///
/// Each message names the cause and the remedy; flags are those of `train`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A device was named that there is no such kind of.
    #[error("'{0}' is no device: give auto, cpu, cuda or cuda:K (the GPU number K, from 0)")]
    NoSuchChoice(String),

    /// The program was built without what the device needs.
    #[error(
        "--device {choice}: this program was built without the feature 'cuda': build it with \
         cargo build --release --features cuda"
    )]
    NotBuilt {
        /// The device that was asked for.
        choice: String,
    },

    /// The driver's library is not there, or cannot be loaded.
    #[error(
        "no NVIDIA driver was found ({cause}): install it so that nvidia-smi lists the GPU; a container has to be started \
         with GPUs (docker run --gpus all)"
    )]
    NoDriver {
        /// What the dynamic loader said.
        cause: String,
    },

    /// The driver's library is there, but lacks a function.
    #[error("the library {library} is no usable NVIDIA driver: {cause}")]
    NotADriver {
        /// The library.
        library: String,
        /// What the dynamic loader said.
        cause: String,
    },

    /// A call of the driver failed.
    #[error("the NVIDIA driver does not work: {call} failed with {name} ({code}){hint}")]
    Driver {
        /// The function.
        call: &'static str,
        /// Its result, a `CUresult`.
        code: i32,
        /// The result's name.
        name: String,
        /// What to do about it, after a colon; or nothing.
        hint: &'static str,
    },

    /// The driver works, and sees no GPU.
    #[error("the NVIDIA driver finds no GPU{}", Visible(visible))]
    NoGpu {
        /// `CUDA_VISIBLE_DEVICES`, where it is set: which GPUs the driver lets this process see.
        visible: Option<String>,
    },

    /// The driver is older than the kernels' runtime needs.
    #[error(
        "the NVIDIA driver is too old: it supports CUDA {}.{}, and {}.{} is needed: install driver 525 or newer",
        found.0, found.1, needed.0, needed.1
    )]
    OldDriver {
        /// The newest CUDA version that the driver supports, major and minor.
        found: (u32, u32),
        /// The oldest that will do.
        needed: (u32, u32),
    },

    /// Each process takes a GPU of its own, and there are not enough.
    #[error(
        "--nproc-per-node is {processes}, but this machine has {}{}: start at most {} a node, or give --device cpu",
        Gpus(*gpus), Visible(visible), Processes(*gpus)
    )]
    TooFewGpus {
        /// Processes of this node.
        processes: usize,
        /// GPUs that they can see.
        gpus: usize,
        /// `CUDA_VISIBLE_DEVICES`, where it is set.
        visible: Option<String>,
    },

    /// A GPU was named that is not there.
    #[error("--device cuda:{index}: this machine has {}{}: {}", Gpus(names.len()), Visible(visible), Listed(names))]
    NoSuchGpu {
        /// The number that was asked for.
        index: usize,
        /// The names of the GPUs that there are, by number.
        names: Vec<String>,
        /// `CUDA_VISIBLE_DEVICES`, where it is set.
        visible: Option<String>,
    },

    /// One GPU was named, for several processes.
    #[error(
        "--device cuda:{index} is one GPU, but --nproc-per-node is {processes}: give --device cuda, which takes a GPU for \
         each process, or start one process a node"
    )]
    SharedGpu {
        /// The number that was asked for.
        index: usize,
        /// Processes of this node.
        processes: usize,
    },

    /// The library that compiles kernels at run time is not there.
    #[error(
        "libnvrtc, which compiles the kernels at run time, was not found ({cause}): install the package cuda-nvrtc of the \
         driver's CUDA version (or the whole CUDA toolkit), and name its folder in LD_LIBRARY_PATH"
    )]
    NoCompiler {
        /// What the dynamic loader said.
        cause: String,
    },

    /// The library that compiles kernels is newer than the driver, which does not understand what it makes.
    #[error("{}", NewCompiler(versions))]
    NewCompiler {
        /// The CUDA versions of the compiler and of the driver, where they are known.
        versions: Option<[(u32, u32); 2]>,
    },

    /// The library that compiles kernels does not know this GPU.
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
        /// Whether a newer compiler would know it, or an older one.
        newer: bool,
    },

    /// The toolkit's headers, which every kernel includes, are not there.
    #[error(
        "the CUDA headers, which compiling the kernels at run time needs, were not found ({cause}): install the packages \
         cuda-cudart-dev and cuda-nvcc of libnvrtc's version, and set CUDA_PATH to the folder that has their include/"
    )]
    NoHeaders {
        /// Which ones are missing, and where.
        cause: String,
    },

    /// The compiler and the headers are there, and do not compile a small kernel.
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
        /// The first line of what the compiler said.
        log: String,
    },

    /// The GPU's memory is used up.
    #[error(
        "the GPU is out of memory{}: a smaller --batch-size, a smaller --gpu-cache-bytes or a narrower --num-neighbors needs \
         less of it",
        Asked(*asked_bytes)
    )]
    OutOfMemory {
        /// The size of what did not fit, in bytes, where it is known. CubeCL takes memory in pages of up to a quarter of the
        /// GPU's, so that this can be more than was asked for; more at once cannot be had.
        asked_bytes: Option<u64>,
    },

    /// Something else that went wrong on the GPU.
    #[error(
        "the GPU failed: {cause}: if it does so again with another driver and libnvrtc, please report what RUST_BACKTRACE=1 adds"
    )]
    Failed {
        /// What the driver or the compiler said.
        cause: String,
    },
}

impl DeviceError {
    /// The cause alone where nothing is broken: a machine that simply has no GPU.
    pub(crate) fn without_remedy(&self) -> String {
        match self {
            Self::NoDriver { .. } => "no NVIDIA driver was found".to_owned(),
            other => other.to_string(),
        }
    }

    /// Recognises the device's failure in what a panic of CubeCL or one of its errors says; nothing if it is something
    /// else.
    ///
    /// What CubeCL 0.10 does when an allocation fails depends on whose it was:
    /// * that of a new buffer panics on the device's own thread (`can't allocate buffer of size: N`). Nobody is told: the
    ///   next read of the buffer panics there too, and so in the caller's thread, with `CallError`. So messages have to be
    ///   read where panics pass ([`watch_panics`](crate::watch_panics));
    /// * that of a kernel's arguments, or a launch, is kept with the stream, and returned by the next read or sync as
    ///   `ServerError::ServerUnhealthy`, whose text has the same words, or `CUDA_ERROR_OUT_OF_MEMORY`;
    /// * a context or stream that cannot be made panics with `CUDA_ERROR_OUT_OF_MEMORY`.
    ///
    /// ```
    /// use edgecut_gpu::DeviceError;
    ///
    /// let error = DeviceError::explain("can't allocate buffer of size: 2147483648");
    /// assert_eq!(error, Some(DeviceError::OutOfMemory { asked_bytes: Some(2147483648) }));
    /// assert_eq!(DeviceError::explain("index out of bounds"), None);
    /// ```
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

/// "2 GPUs".
struct Gpus(usize);

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GPU{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

/// "2 processes".
struct Processes(usize);

impl fmt::Display for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} process{}", self.0, if self.0 == 1 { "" } else { "es" })
    }
}

/// What the user has hidden, since it is the first thing to look at when a GPU is missing.
struct Visible<'a>(&'a Option<String>);

impl fmt::Display for Visible<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .as_ref()
            .map_or(Ok(()), |value| write!(f, " that this process may see (CUDA_VISIBLE_DEVICES is '{value}')"))
    }
}

/// "cuda:0 (NVIDIA L4), cuda:1 (NVIDIA L4)".
struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            write!(f, "{}cuda:{index} ({name})", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

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

/// " (2.0 GiB more did not fit)".
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
        // What a sync returns.
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
            "the GPU is out of memory (1.5 GiB more did not fit): a smaller --batch-size, a smaller --gpu-cache-bytes or a \
             narrower --num-neighbors needs less of it"
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

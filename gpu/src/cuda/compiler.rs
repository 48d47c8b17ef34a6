//! The library that compiles kernels at run time (libnvrtc), and the headers that kernels include.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use crate::cuda::library::{CudaLibrary, names_of};
use crate::device::{CudaGpu, DeviceError};

/// The headers that kernels include: all kernels the first one, those in half precision the next two, and products on
/// tensor cores the rest.
const HEADERS: [&str; 5] = ["cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "mma.h", "crt/mma.h"];
const PROBE: &str = "extern \"C\" __global__ void probe(float *x) { x[threadIdx.x] = 2.0f; }\n";

const SUCCESS: c_int = 0;
/// The longest log that is read, in bytes. Only its first line is shown.
const MAX_LOG_BYTES: usize = 1 << 20;

/// A program of the compiler, `nvrtcProgram`.
type Program = *mut c_void;

/// The loaded libnvrtc.
pub(crate) struct Compiler {
    calls: Calls,
    version: (u32, u32),
}

/// The functions of libnvrtc.
struct Calls {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    count_archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    list_archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
}

impl Calls {
    fn load(library: CudaLibrary) -> Result<Self, String> {
        // SAFETY: each field has the type that nvrtc.h declares for the function of that name; its enums are ints.
        unsafe {
            Ok(Self {
                version: library.function("nvrtcVersion")?,
                count_archs: library.function("nvrtcGetNumSupportedArchs")?,
                list_archs: library.function("nvrtcGetSupportedArchs")?,
                create: library.function("nvrtcCreateProgram")?,
                compile: library.function("nvrtcCompileProgram")?,
                log_size: library.function("nvrtcGetProgramLogSize")?,
                log: library.function("nvrtcGetProgramLog")?,
                destroy: library.function("nvrtcDestroyProgram")?,
            })
        }
    }
}

impl Compiler {
    /// Loads the same library that CubeCL will load.
    pub(crate) fn open() -> Result<Self, DeviceError> {
        let no_compiler = |cause| DeviceError::NoCompiler { cause };
        let library = CudaLibrary::open(names_of("nvrtc")).map_err(no_compiler)?;
        let calls = Calls::load(library).map_err(no_compiler)?;
        let mut major = 0;
        let mut minor = 0;
        // SAFETY: the compiler writes two ints.
        match unsafe { (calls.version)(&mut major, &mut minor) } {
            SUCCESS => Ok(Self { calls, version: (major.unsigned_abs(), minor.unsigned_abs()) }),
            code => Err(no_compiler(format!("nvrtcVersion failed with {code}"))),
        }
    }

    /// Returns the compiler's CUDA version, major and minor.
    pub(crate) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Checks that the driver can load the compiler's output. CubeCL compiles to PTX, which only a driver of the same
    /// or a newer CUDA version loads.
    pub(crate) fn check_driver(&self, driver: (u32, u32)) -> Result<(), DeviceError> {
        if ptx_version(self.version) > ptx_version(driver) {
            Err(DeviceError::NewCompiler { versions: Some([self.version, driver]) })
        } else {
            Ok(())
        }
    }

    /// Checks that the compiler supports a GPU. It supports neither GPUs that are newer than itself nor those that it
    /// has dropped.
    pub(crate) fn check_gpu(&self, gpu: &CudaGpu) -> Result<(), DeviceError> {
        let known = self.known_gpus().map_err(|cause| DeviceError::NoCompiler { cause })?;
        if known.contains(&arch(gpu)) {
            return Ok(());
        }
        Err(DeviceError::UnknownGpu {
            compiler: self.version,
            gpu: gpu.name.clone(),
            capability: gpu.compute_capability,
            newer: known.iter().all(|&other| other < arch(gpu)),
        })
    }

    /// Compiles a small kernel in the same way as CubeCL. This is the only way to notice missing parts of the compiler,
    /// and headers of another version. It takes some tenths of a second.
    pub(crate) fn check_kernel(&self, gpu: &CudaGpu, headers: &Headers) -> Result<(), DeviceError> {
        let includes: String = HEADERS.iter().map(|header| format!("#include <{header}>\n")).collect();
        // CubeCL compiles for architecture-specific targets such as sm_90a from Hopper on.
        let suffix = if arch(gpu) >= 90 { "a" } else { "" };
        let mut options = vec![format!("--gpu-architecture=sm_{}{suffix}", arch(gpu)), "-lineinfo".to_owned()];
        options.extend(headers.folders.iter().map(|folder| format!("--include-path={}", folder.display())));
        // The texts are made of constants and of paths from the environment, neither of which contains a zero.
        let options: Result<Vec<CString>, _> = options.into_iter().map(CString::new).collect();
        let options = options.expect("an option without zeros");
        let source = CString::new(format!("{includes}{PROBE}")).expect("a source without zeros");
        self.compile(&source, &options).map_err(|log| DeviceError::KernelFails {
            compiler: self.version,
            headers: headers.folders[0].display().to_string(),
            log: log.lines().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why").trim().to_owned(),
        })
    }

    /// Returns the compute capabilities that the compiler supports, (8, 9) as 89.
    fn known_gpus(&self) -> Result<Vec<u32>, String> {
        let mut number = 0;
        // SAFETY: the compiler writes one int.
        let counted = unsafe { (self.calls.count_archs)(&mut number) };
        let mut known = vec![0; usize::try_from(number).unwrap_or(0)];
        // SAFETY: the compiler writes as many ints as it has just said.
        match (counted, unsafe { (self.calls.list_archs)(known.as_mut_ptr()) }) {
            (SUCCESS, SUCCESS) => Ok(known.into_iter().map(c_int::unsigned_abs).collect()),
            codes => Err(format!("nvrtcGetSupportedArchs failed with {codes:?}")),
        }
    }

    /// Compiles a kernel and discards the result. Returns the compiler's log as the error.
    fn compile(&self, source: &CStr, options: &[CString]) -> Result<(), String> {
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = null_mut();
        // SAFETY: the source ends with a zero; no name and no headers are handed over.
        let code = unsafe { (self.calls.create)(&mut program, source.as_ptr(), null(), 0, null(), null()) };
        if code != SUCCESS {
            return Err(format!("nvrtcCreateProgram failed with {code}"));
        }
        // SAFETY: the program lives; there are as many options as is said, which end with a zero and outlive the call.
        let code = unsafe { (self.calls.compile)(program, pointers.len() as c_int, pointers.as_ptr()) };
        let outcome = if code == SUCCESS { Ok(()) } else { Err(self.log(program, code)) };
        // SAFETY: the program lives, and is not used any more. Nothing can be done about a failure.
        let _ = unsafe { (self.calls.destroy)(&mut program) };
        outcome
    }

    /// Returns the compiler's log, or the result code if there is no log.
    fn log(&self, program: Program, code: c_int) -> String {
        let mut size = 0;
        // SAFETY: the program lives; the compiler writes one size.
        let sized = unsafe { (self.calls.log_size)(program, &mut size) };
        if sized != SUCCESS || !(2..=MAX_LOG_BYTES).contains(&size) {
            return format!("nvrtcCompileProgram failed with {code}");
        }
        let mut log = vec![0_u8; size];
        // SAFETY: the compiler writes as many bytes as it has just said, a zero among them.
        let _ = unsafe { (self.calls.log)(program, log.as_mut_ptr().cast()) };
        String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
    }
}

/// The toolkit's headers, in the folders where CubeCL looks for them.
pub(crate) struct Headers {
    // At least one.
    folders: Vec<PathBuf>,
}

impl Headers {
    /// Finds the headers, and checks that all of [`HEADERS`] exist.
    pub(crate) fn find() -> Result<Self, DeviceError> {
        let Some(toolkit) = cubecl::cuda::install::cuda_path() else {
            let cause = "CUDA_PATH is not set, and there is neither /usr/local/cuda nor /opt/cuda".to_owned();
            return Err(DeviceError::NoHeaders { cause });
        };
        let folder = toolkit.join("include");
        let missing: Vec<_> = HEADERS.into_iter().filter(|header| !folder.join(header).is_file()).collect();
        if !missing.is_empty() {
            let cause = format!("{} lacks {}", folder.display(), missing.join(", "));
            return Err(DeviceError::NoHeaders { cause });
        }
        let more = folder.join("cccl");
        let folders = if more.exists() { vec![folder, more] } else { vec![folder] };
        Ok(Self { folders })
    }
}

/// Returns the compute capability as one number: (8, 9) as 89.
fn arch(gpu: &CudaGpu) -> u32 {
    10 * gpu.compute_capability.0 + gpu.compute_capability.1
}

/// Returns a CUDA version for comparison by the PTX version that it supports. CUDA 12.6 has the PTX version of 12.5.
fn ptx_version(cuda: (u32, u32)) -> (u32, u32) {
    if cuda == (12, 6) { (12, 5) } else { cuda }
}

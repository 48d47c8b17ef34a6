//! The state of this machine's NVIDIA GPUs, driver and compiler.
//!
//! If a driver, a GPU, the run-time compiler or its headers are missing, CubeCL panics at the first use, partly on a
//! thread of its own. So all of them are checked before. No function here creates a context on a device.

use std::ffi::{c_char, c_int, c_uint};

use crate::cuda::compiler::{Compiler, Headers};
use crate::cuda::library::{CudaLibrary, names_of};
use crate::device::{CudaGpu, DeviceError, Machine, visible_devices};

/// The oldest sufficient CUDA version of a driver, major and minor.
///
/// All functions that CubeCL 0.10 always calls exist in drivers of CUDA 11.2 (`cuMemAllocAsync` is the newest). But its
/// kernels for Hopper need `cuTensorMapEncodeTiled` of 12.0, and it loads functions at their first call, where a
/// missing one panics.
pub(crate) const MIN_DRIVER: (u32, u32) = (12, 0);

/// `CUDA_SUCCESS`.
const SUCCESS: c_int = 0;
/// `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: c_int = 100;

/// The machine that the program runs on.
pub(crate) struct ThisMachine;

impl Machine for ThisMachine {
    fn gpus(&self) -> Result<Vec<CudaGpu>, DeviceError> {
        let driver = Driver::open()?;
        let version = driver.version()?;
        if version < MIN_DRIVER {
            return Err(DeviceError::OldDriver { found: version, needed: MIN_DRIVER });
        }
        driver.initialise()?;
        (0..driver.count()?).map(|index| driver.gpu(index, version)).collect()
    }

    fn check_compiler(&self, gpu: &CudaGpu) -> Result<(), DeviceError> {
        let compiler = Compiler::open()?;
        compiler.check_driver(gpu.driver_version)?;
        compiler.check_gpu(gpu)?;
        compiler.check_kernel(gpu, &Headers::find()?)
    }
}

/// The driver's library.
struct Driver {
    library: CudaLibrary,
}

impl Driver {
    fn open() -> Result<Self, DeviceError> {
        let library = CudaLibrary::open(names_of("cuda")).map_err(|cause| DeviceError::NoDriver { cause })?;
        Ok(Self { library })
    }

    /// Returns a function of the driver.
    ///
    /// # Safety
    /// As [`CudaLibrary::function`].
    unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, DeviceError> {
        // SAFETY: the caller vouches for the type.
        unsafe { self.library.function(name) }
            .map_err(|cause| DeviceError::NotADriver { library: "libcuda.so.1".to_owned(), cause })
    }

    /// Returns the newest CUDA version that the driver supports. It works before the driver is initialized.
    fn version(&self) -> Result<(u32, u32), DeviceError> {
        // SAFETY: the type is that of `CUresult cuDriverGetVersion(int *)`.
        let get: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { self.function("cuDriverGetVersion") }?;
        let mut version = 0;
        // SAFETY: the driver writes one int.
        self.check("cuDriverGetVersion", unsafe { get(&mut version) })?;
        Ok(version_of(version))
    }

    /// Initializes the driver. Repeated calls do nothing.
    fn initialise(&self) -> Result<(), DeviceError> {
        // SAFETY: the type is that of `CUresult cuInit(unsigned int)`.
        let init: unsafe extern "C" fn(c_uint) -> c_int = unsafe { self.function("cuInit") }?;
        // SAFETY: zero is the only value that the driver takes; it may be called any number of times.
        self.check("cuInit", unsafe { init(0) })
    }

    /// Returns the number of GPUs, at least one.
    fn count(&self) -> Result<usize, DeviceError> {
        // SAFETY: the type is that of `CUresult cuDeviceGetCount(int *)`.
        let get: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { self.function("cuDeviceGetCount") }?;
        let mut count = 0;
        // SAFETY: the driver writes one int.
        self.check("cuDeviceGetCount", unsafe { get(&mut count) })?;
        match usize::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(DeviceError::NoGpu { visible: visible_devices() }),
        }
    }

    /// Returns the properties of the GPU `index`.
    fn gpu(&self, index: usize, driver_version: (u32, u32)) -> Result<CudaGpu, DeviceError> {
        const MAJOR: c_int = 75;
        const MINOR: c_int = 76;
        type GetName = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
        // SAFETY: the type is that of `CUresult cuDeviceGet(CUdevice *, int)`; a device is an int.
        let get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int = unsafe { self.function("cuDeviceGet") }?;
        // SAFETY: the type is that of `CUresult cuDeviceGetName(char *, int, CUdevice)`.
        let get_name: GetName = unsafe { self.function("cuDeviceGetName") }?;
        // SAFETY: the type is that of `CUresult cuDeviceTotalMem_v2(size_t *, CUdevice)`.
        let get_memory: unsafe extern "C" fn(*mut usize, c_int) -> c_int =
            unsafe { self.function("cuDeviceTotalMem_v2") }?;
        // SAFETY: the type is that of `CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice)`.
        let get_attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int =
            unsafe { self.function("cuDeviceGetAttribute") }?;

        let mut device = 0;
        let mut name = [0_u8; 256];
        let mut memory = 0_usize;
        let mut capability = [0, 0];
        // SAFETY: the driver writes one device.
        self.check("cuDeviceGet", unsafe { get(&mut device, index as c_int) })?;
        // SAFETY: the driver writes at most as many bytes as it is told; the last one stays zero.
        let code = unsafe { get_name(name.as_mut_ptr().cast(), name.len() as c_int - 1, device) };
        self.check("cuDeviceGetName", code)?;
        // SAFETY: the driver writes one size.
        self.check("cuDeviceTotalMem_v2", unsafe { get_memory(&mut memory, device) })?;
        for (value, attribute) in capability.iter_mut().zip([MAJOR, MINOR]) {
            // SAFETY: the driver writes one int.
            self.check("cuDeviceGetAttribute", unsafe { get_attribute(value, attribute, device) })?;
        }
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Ok(CudaGpu {
            index,
            name: String::from_utf8_lossy(&name[..end]).into_owned(),
            total_memory_bytes: memory as u64,
            compute_capability: (capability[0].unsigned_abs(), capability[1].unsigned_abs()),
            driver_version,
        })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), DeviceError> {
        match code {
            SUCCESS => Ok(()),
            NO_DEVICE => Err(DeviceError::NoGpu { visible: visible_devices() }),
            code => Err(driver_error(call, code)),
        }
    }
}

/// Describes a failed call of the driver. The names are listed here instead of asking the driver, which may be broken.
pub(crate) fn driver_error(call: &'static str, code: c_int) -> DeviceError {
    let (name, hint) = match code {
        2 => return DeviceError::OutOfMemory { asked_bytes: None },
        3 => ("CUDA_ERROR_NOT_INITIALIZED", ""),
        34 => (
            "CUDA_ERROR_STUB_LIBRARY",
            ": the toolkit's stub was loaded: take the folder 'stubs' out of LD_LIBRARY_PATH",
        ),
        46 => ("CUDA_ERROR_DEVICE_UNAVAILABLE", ": another process has the GPU for itself (nvidia-smi shows it)"),
        101 => ("CUDA_ERROR_INVALID_DEVICE", ": compare CUDA_VISIBLE_DEVICES with what nvidia-smi lists"),
        214 => ("CUDA_ERROR_ECC_UNCORRECTABLE", ": the GPU's memory is damaged: reset the GPU, or leave it out"),
        304 => ("CUDA_ERROR_OPERATING_SYSTEM", ": the devices /dev/nvidia* may be missing, or not be readable"),
        700 => ("CUDA_ERROR_ILLEGAL_ADDRESS", ""),
        719 => ("CUDA_ERROR_LAUNCH_FAILED", ""),
        802 => ("CUDA_ERROR_SYSTEM_NOT_READY", ": start nvidia-fabricmanager, and wait until it is up"),
        803 => ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", ": the driver was updated: restart the machine"),
        804 => (
            "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
            ": take the folder of cuda-compat out of LD_LIBRARY_PATH, or install a newer driver",
        ),
        999 => (
            "CUDA_ERROR_UNKNOWN",
            ": nvidia-smi may say more; reloading the module nvidia_uvm or a restart often helps",
        ),
        _ => ("a CUresult", ""),
    };
    DeviceError::Driver { call, code, name: name.to_owned(), hint }
}

/// Splits a CUDA version number: 12080 is 12.8.
fn version_of(number: c_int) -> (u32, u32) {
    let number = number.unsigned_abs();
    (number / 1000, number % 1000 / 10)
}

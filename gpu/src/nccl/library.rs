//! The functions of NCCL that this crate uses, as declared in nccl.h.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null;

use crate::cuda::library::CudaLibrary;
use crate::cuda::stream::RawStream;
use crate::nccl::error::NcclError;

/// The names of the library. cudarc, and so CubeCL, would not find the first one, under which distributions and wheels
/// install it.
pub(crate) const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The oldest sufficient version number: 2.18.0, the first in which non-blocking communicators are complete.
pub(crate) const MIN_VERSION: c_int = 21800;

/// `ncclResult_t`.
pub(crate) const SUCCESS: c_int = 0;
/// `ncclInProgress`.
pub(crate) const IN_PROGRESS: c_int = 7;
/// `ncclFloat32`.
pub(crate) const FLOAT32: c_int = 7;
/// `ncclSum`.
pub(crate) const SUM: c_int = 0;

/// A communicator, `ncclComm_t`.
pub(crate) type Comm = *mut c_void;

/// `ncclUniqueId`, which is passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

/// `ncclConfig_t` of NCCL 2.17 to 2.26. A newer NCCL reads as many bytes as `size` says, and uses defaults for the
/// fields that were added after `version`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
    // Padding before NCCL 2.26, which added this field without a change of size.
    traffic_class: c_int,
}

impl Config {
    /// Returns the default configuration with calls that return at once.
    pub(crate) fn non_blocking() -> Self {
        const UNDEFINED: c_int = c_int::MIN;
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: MIN_VERSION.unsigned_abs(),
            blocking: 0,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: null(),
            split_share: UNDEFINED,
            traffic_class: UNDEFINED,
        }
    }
}

/// The functions of NCCL.
#[derive(Clone, Copy)]
pub(crate) struct Nccl {
    pub(crate) get_unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    pub(crate) init_rank: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int, *mut Config) -> c_int,
    pub(crate) async_error: unsafe extern "C" fn(Comm, *mut c_int) -> c_int,
    pub(crate) all_reduce:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> c_int,
    pub(crate) broadcast:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> c_int,
    pub(crate) finalize: unsafe extern "C" fn(Comm) -> c_int,
    pub(crate) destroy: unsafe extern "C" fn(Comm) -> c_int,
    pub(crate) abort: unsafe extern "C" fn(Comm) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    last_error: unsafe extern "C" fn(Comm) -> *const c_char,
}

impl Nccl {
    /// Loads NCCL.
    pub(crate) fn open() -> Result<Self, NcclError> {
        Self::of(CudaLibrary::open(NAMES).map_err(|cause| NcclError::Missing { cause })?)
    }

    /// Returns the functions of a library, whose version it checks.
    pub(crate) fn of(library: CudaLibrary) -> Result<Self, NcclError> {
        let unusable = |cause| NcclError::Unusable { cause };
        // SAFETY: the type is that of `ncclResult_t ncclGetVersion(int *)`.
        let get_version: unsafe extern "C" fn(*mut c_int) -> c_int =
            unsafe { library.function("ncclGetVersion") }.map_err(unusable)?;
        let mut version = 0;
        // SAFETY: NCCL writes one int.
        match unsafe { get_version(&mut version) } {
            SUCCESS if version >= MIN_VERSION => Self::load(library).map_err(unusable),
            SUCCESS => Err(NcclError::TooOld { found: version_text(version), needed: version_text(MIN_VERSION) }),
            code => Err(unusable(format!("ncclGetVersion failed with {code}"))),
        }
    }

    fn load(library: CudaLibrary) -> Result<Self, String> {
        // SAFETY: each field has the type that nccl.h declares for the function of that name; its enums are ints.
        unsafe {
            Ok(Self {
                get_unique_id: library.function("ncclGetUniqueId")?,
                init_rank: library.function("ncclCommInitRankConfig")?,
                async_error: library.function("ncclCommGetAsyncError")?,
                all_reduce: library.function("ncclAllReduce")?,
                broadcast: library.function("ncclBroadcast")?,
                finalize: library.function("ncclCommFinalize")?,
                destroy: library.function("ncclCommDestroy")?,
                abort: library.function("ncclCommAbort")?,
                error_string: library.function("ncclGetErrorString")?,
                last_error: library.function("ncclGetLastError")?,
            })
        }
    }

    /// Describes a result, with NCCL's message about the last error. `comm` may be null.
    pub(crate) fn describe(&self, code: c_int, comm: Comm) -> String {
        // SAFETY: NCCL returns a text that it keeps, or null.
        let name = unsafe { text((self.error_string)(code)) }.unwrap_or_default();
        // SAFETY: as above; NCCL does not read the communicator.
        let detail = unsafe { text((self.last_error)(comm)) }.filter(|text| !text.is_empty());
        format!("{name} ({code}){}", detail.map(|detail| format!(": {detail}")).unwrap_or_default())
    }
}

/// Copies a text of NCCL. Returns `None` for null.
///
/// # Safety
/// The pointer must be null or point to a text that ends with a zero.
unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the caller vouches for it.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().trim().to_owned())
}

/// Formats a version number: 21805 is 2.18.5.
fn version_text(version: c_int) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    // The layout that a C compiler gives nccl.h of 2.19 and 2.28.
    #[test]
    fn the_configuration_lies_as_in_nccl_h() {
        assert_eq!(size_of::<Config>(), 48);
        assert_eq!(offset_of!(Config, blocking), 16);
        assert_eq!(offset_of!(Config, net_name), 32);
        assert_eq!(offset_of!(Config, split_share), 40);
        assert_eq!(offset_of!(Config, traffic_class), 44);
        assert_eq!(version_text(21805), "2.18.5");
    }
}

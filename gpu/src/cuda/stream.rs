//! The driver's context and a stream of its own, for work that does not go through CubeCL.

use std::ffi::{c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;

use crate::cuda::library::CudaLibrary;
use crate::cuda::machine::driver_error;
use crate::device::DeviceError;

const SUCCESS: c_int = 0;
/// `CUDA_ERROR_NOT_READY`.
const NOT_READY: c_int = 600;
/// `CU_STREAM_NON_BLOCKING`: a stream that does not wait implicitly for the default stream.
const NON_BLOCKING: c_uint = 1;

/// A `CUstream`.
pub(crate) type RawStream = *mut c_void;

/// The device's primary context, which CubeCL's runtime and NCCL use as well. Threads share it by `Arc`. It is released
/// when the last of them drops it, so nobody can use a released context or release it twice.
pub(crate) struct DeviceContext {
    calls: Calls,
    device: c_int,
    context: *mut c_void,
}

// SAFETY: the driver allows a context to be used from any thread; it is made current for each use.
unsafe impl Send for DeviceContext {}

// SAFETY: the driver synchronizes calls from several threads. What `&self` changes is the context of the calling thread.
unsafe impl Sync for DeviceContext {}

/// The driver's functions.
#[derive(Clone, Copy)]
struct Calls {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    device_get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
    release: unsafe extern "C" fn(c_int) -> c_int,
    push: unsafe extern "C" fn(*mut c_void) -> c_int,
    pop: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    stream_create: unsafe extern "C" fn(*mut RawStream, c_uint) -> c_int,
    stream_query: unsafe extern "C" fn(RawStream) -> c_int,
    stream_destroy: unsafe extern "C" fn(RawStream) -> c_int,
}

impl Calls {
    fn load(library: CudaLibrary) -> Result<Self, String> {
        // SAFETY: each field has the type that cuda.h declares for the function of that name.
        unsafe {
            Ok(Self {
                init: library.function("cuInit")?,
                device_get: library.function("cuDeviceGet")?,
                retain: library.function("cuDevicePrimaryCtxRetain")?,
                release: library.function("cuDevicePrimaryCtxRelease_v2")?,
                push: library.function("cuCtxPushCurrent_v2")?,
                pop: library.function("cuCtxPopCurrent_v2")?,
                stream_create: library.function("cuStreamCreate")?,
                stream_query: library.function("cuStreamQuery")?,
                stream_destroy: library.function("cuStreamDestroy_v2")?,
            })
        }
    }
}

impl DeviceContext {
    /// Retains the primary context of the GPU `index`.
    pub(crate) fn retain(library: CudaLibrary, index: usize) -> Result<Self, DeviceError> {
        let calls = Calls::load(library)
            .map_err(|cause| DeviceError::NotADriver { library: "libcuda.so.1".to_owned(), cause })?;
        let index = c_int::try_from(index).unwrap_or(c_int::MAX);
        let mut device = 0;
        let mut context = null_mut();
        // SAFETY: zero is the only value that the driver takes; it may be called any number of times.
        check("cuInit", unsafe { (calls.init)(0) })?;
        // SAFETY: the driver writes one device.
        check("cuDeviceGet", unsafe { (calls.device_get)(&mut device, index) })?;
        // SAFETY: the driver writes one context.
        check("cuDevicePrimaryCtxRetain", unsafe { (calls.retain)(&mut context, device) })?;
        Ok(Self { calls, device, context })
    }

    /// Makes the context current on this thread until the returned value is dropped.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, DeviceError> {
        // SAFETY: the context is retained.
        check("cuCtxPushCurrent", unsafe { (self.calls.push)(self.context) })?;
        Ok(Entered { context: self, not_send: PhantomData })
    }

    /// Returns true if all work of the stream is done.
    ///
    /// # Safety
    /// The stream must be one of this context that has not been destroyed.
    pub(crate) unsafe fn is_idle(&self, stream: RawStream) -> Result<bool, DeviceError> {
        // SAFETY: the caller vouches for the stream.
        match unsafe { (self.calls.stream_query)(stream) } {
            NOT_READY => Ok(false),
            code => check("cuStreamQuery", code).map(|()| true),
        }
    }

    /// Destroys the stream once its work is done.
    ///
    /// # Safety
    /// As [`is_idle`](Self::is_idle); the stream must not be used any more.
    pub(crate) unsafe fn destroy(&self, stream: RawStream) {
        // SAFETY: the caller vouches for the stream. Nothing can be done about a failure.
        let _ = unsafe { (self.calls.stream_destroy)(stream) };
    }
}

impl Drop for DeviceContext {
    fn drop(&mut self) {
        // SAFETY: it was retained once. Nothing can be done about a failure.
        let _ = unsafe { (self.calls.release)(self.device) };
    }
}

/// A guard that keeps a context current on this thread.
pub(crate) struct Entered<'a> {
    context: &'a DeviceContext,
    // The current context is a property of the thread.
    not_send: PhantomData<*mut c_void>,
}

impl Entered<'_> {
    /// Creates a stream that waits for no other one.
    pub(crate) fn stream(&self) -> Result<RawStream, DeviceError> {
        let mut stream = null_mut();
        // SAFETY: the driver writes one stream.
        check("cuStreamCreate", unsafe { (self.context.calls.stream_create)(&mut stream, NON_BLOCKING) })?;
        Ok(stream)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut context = null_mut();
        // SAFETY: the driver writes the context that was entered.
        let _ = unsafe { (self.context.calls.pop)(&mut context) };
    }
}

fn check(call: &'static str, code: c_int) -> Result<(), DeviceError> {
    if code == SUCCESS { Ok(()) } else { Err(driver_error(call, code)) }
}

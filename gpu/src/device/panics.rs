//! Why a device has failed, where only a panic on another thread says so.

use std::panic::PanicHookInfo;
use std::sync::{Mutex, Once, PoisonError};

use crate::device::DeviceError;

static NOTED: Mutex<Option<DeviceError>> = Mutex::new(None);

/// From now on notes the first panic of any thread that [`DeviceError::explain`] recognises. That one and those after it, which
/// follow from it, are not printed unless `RUST_BACKTRACE` asks for it; all others go on to the hook that was set before.
///
/// CubeCL runs a device's work on a thread of its own. When memory runs out there, that thread says so in a panic that it
/// catches itself, and the caller's next use of the device panics for want of an answer. Who catches that one asks
/// [`noted_failure`].
///
/// ```
/// use edgecut_gpu::{DeviceError, noted_failure, watch_panics};
///
/// watch_panics();
/// let device = std::thread::spawn(|| panic!("can't allocate buffer of size: 1024"));
/// assert!(device.join().is_err());
/// assert_eq!(noted_failure(), Some(DeviceError::OutOfMemory { asked_bytes: Some(1024) }));
/// ```
pub fn watch_panics() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            note(panic);
            if noted_failure().is_none() || std::env::var_os("RUST_BACKTRACE").is_some() {
                next(panic);
            }
        }));
    });
}

/// The first device failure that a panic told of since [`watch_panics`]; nothing if there was none.
pub fn noted_failure() -> Option<DeviceError> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn note(panic: &PanicHookInfo<'_>) {
    if let Some(error) = panic.payload_as_str().and_then(DeviceError::explain) {
        NOTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

//! Why a device has failed, where only a panic on another thread says so.

use std::panic::PanicHookInfo;
use std::sync::{Mutex, Once, PoisonError};

use crate::device::DeviceError;

static NOTED: Mutex<Option<DeviceError>> = Mutex::new(None);

/// From now on notes the first panic of any thread that [`DeviceError::explain`] recognises. Such panics, and those for want of
/// an answer of a device that has failed, are not printed unless `RUST_BACKTRACE` asks for it; all others go on to the hook that
/// was set before.
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
            let told_later = note(panic) || (noted_failure().is_some() && follows(panic));
            if !told_later || std::env::var_os("RUST_BACKTRACE").is_some_and(|asked| asked != "0") {
                next(panic);
            }
        }));
    });
}

/// The first device failure that a panic told of since [`watch_panics`]; nothing if there was none.
pub fn noted_failure() -> Option<DeviceError> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Whether a panic tells of a device's failure, which is noted then.
fn note(panic: &PanicHookInfo<'_>) -> bool {
    let error = panic.payload_as_str().and_then(DeviceError::explain);
    let recognised = error.is_some();
    if let Some(error) = error {
        NOTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    recognised
}

/// Whether it is what CubeCL and burn say when a device has failed before.
fn follows(panic: &PanicHookInfo<'_>) -> bool {
    const SAID: [&str; 4] =
        ["CallError", "couldn't find resource", "The server is in an invalid state", "the device failed"];
    panic.payload_as_str().is_some_and(|text| SAID.iter().any(|said| text.contains(said)))
}

//! Detection of device failures that show only as panics on other threads.

use std::panic::PanicHookInfo;
use std::sync::{Mutex, Once, PoisonError};

use crate::device::DeviceError;

/// The first recognized failure.
static NOTED: Mutex<Option<DeviceError>> = Mutex::new(None);

/// Installs a panic hook that notes the first panic of any thread that [`DeviceError::explain`] recognizes. Such
/// panics, and panics that follow from a failed device, are not printed unless `RUST_BACKTRACE` is set. All others go
/// to the hook that was set before.
///
/// CubeCL runs a device's work on a thread of its own. When memory runs out there, that thread reports it in a panic
/// that it catches itself, and the caller's next use of the device panics without naming the cause. A caller that
/// catches this panic gets the cause from [`noted_failure`].
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

/// Returns the first device failure that a panic has reported since [`watch_panics`], if any.
pub fn noted_failure() -> Option<DeviceError> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns true if a panic reports a failure of the device, which it notes.
fn note(panic: &PanicHookInfo<'_>) -> bool {
    let error = panic.payload_as_str().and_then(DeviceError::explain);
    let recognised = error.is_some();
    if let Some(error) = error {
        NOTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    recognised
}

/// Returns true if a panic is one of those that CubeCL and burn raise after a device has failed.
fn follows(panic: &PanicHookInfo<'_>) -> bool {
    const SAID: [&str; 4] =
        ["CallError", "couldn't find resource", "The server is in an invalid state", "the device failed"];
    panic.payload_as_str().is_some_and(|text| SAID.iter().any(|said| text.contains(said)))
}

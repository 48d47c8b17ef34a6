//! Memory that one stream has written and another may still read.
//!
//! CubeCL lets a stream wait for another one's writes, but not for its reads. The stream that allocated memory reuses
//! it as soon as no handle is left, although a kernel on another stream may still have to read it. So this module holds
//! the handles of everything that a copying stream passes to the computing one, until the process has waited for the
//! latter. A process has only one thread that computes. Kernels on threads of loaders wait for their own completion.

use cubecl::server::Handle;
use std::sync::{Mutex, PoisonError};

static IN_FLIGHT: Mutex<InFlight> = Mutex::new(InFlight { fresh: Vec::new(), held: Vec::new(), done: Vec::new() });

struct InFlight {
    /// Handles since the last [`consumed`]. Kernels that read them may not be launched yet.
    fresh: Vec<Handle>,
    /// Handles that others still held at the last look.
    held: Vec<Handle>,
    /// Handles that nobody else holds any more, so that all kernels that read them have been launched.
    done: Vec<Handle>,
}

/// Holds memory that a stream other than the computing one has written.
pub(crate) fn hand_over(handle: &Handle) {
    IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner).fresh.push(handle.clone());
}

/// Releases memory that has been read. The computing thread must call it whenever it has waited for the device, as
/// reading a result does. Otherwise the held memory grows without bound.
pub fn consumed() {
    let mut in_flight = IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    let InFlight { fresh, held, done } = &mut *in_flight;
    // The kernels that read these were launched before the wait that has just ended, so they have run.
    done.clear();
    done.extend(held.extract_if(.., |handle| handle.can_mut()));
    held.append(fresh);
}

//! Keeps what one stream has made until another has read it.
//!
//! CubeCL lets a stream wait for what another has written, but not the other way round: memory that nobody holds any more is
//! given out again by the stream that had it, although a kernel on another stream may still have to read it. So what is handed
//! from a copying stream to the computing one is held here until that one has been waited for. A process has one thread that
//! computes.

use cubecl::server::Handle;
use std::sync::{Mutex, PoisonError};

static IN_FLIGHT: Mutex<InFlight> = Mutex::new(InFlight { fresh: Vec::new(), held: Vec::new(), done: Vec::new() });

struct InFlight {
    /// Handed over since the last [`consumed`]: the device may not have heard of them yet.
    fresh: Vec<Handle>,
    /// Still wanted elsewhere when looked at last.
    held: Vec<Handle>,
    /// Wanted nowhere else, so that all kernels that read them have been given to the device.
    done: Vec<Handle>,
}

/// Holds what a stream other than the computing one has made.
pub(crate) fn hand_over(handle: &Handle) {
    IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner).fresh.push(handle.clone());
}

/// Gives back memory that has been read: to be called by the thread that computes, whenever it has waited for the device, as
/// reading a result does. Without it what is handed over adds up.
pub fn consumed() {
    let mut in_flight = IN_FLIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    let InFlight { fresh, held, done } = &mut *in_flight;
    // What was done the last time was given to the device before the wait that has just ended.
    done.clear();
    done.extend(held.extract_if(.., |handle| handle.can_mut()));
    held.append(fresh);
}

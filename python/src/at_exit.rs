//! The end of a process that has not left its jobs.
//!
//! A program that ends with status 0 leaves its jobs together with the other ranks. With another status it fails them, so
//! that the others do not wait for it. Python runs its own exit handlers before it tells anyone the status, therefore a
//! handler of the C library decides.

use crate::fork_guard::is_forked;
use edgecut_cluster::{Cluster, say, with_causes};
use std::any::Any;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// A membership that ends with the process.
struct Membership {
    cluster: Cluster,
    /// Keeps the services for the other ranks running.
    _serves: Option<Arc<dyn Any + Send + Sync>>,
    /// The last exception that Python has reported, which is the reason if the status is not 0.
    last_error: Option<String>,
}

static MEMBERSHIPS: Mutex<Vec<Membership>> = Mutex::new(Vec::new());
static REGISTERED: Once = Once::new();

unsafe extern "C" {
    /// Adds a function that `exit` calls with the status.
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Ends the membership when the process ends, in the way that its exit status asks for. What `serves` other ranks is kept
/// until then. `last_error` is the last exception that Python has reported.
pub(crate) fn leave_at_exit(cluster: Cluster, serves: Option<Arc<dyn Any + Send + Sync>>, last_error: Option<String>) {
    let membership = Membership { cluster, _serves: serves, last_error };
    MEMBERSHIPS.lock().unwrap_or_else(PoisonError::into_inner).push(membership);
    REGISTERED.call_once(|| {
        // SAFETY: `leave_all` is a function of the type that `on_exit` expects, for the whole life of the process, since
        // Python never unloads a native module. It does not use the argument.
        let failed = unsafe { on_exit(leave_all, std::ptr::null_mut()) } != 0;
        if failed {
            say("edgecut: no memory for an exit handler; the other ranks will report the end of this one");
        }
    });
}

extern "C" fn leave_all(status: c_int, _: *mut c_void) {
    // A forked process has copies of the memberships of its parent, which are not its own.
    if is_forked() {
        return;
    }
    let mut memberships = MEMBERSHIPS.lock().unwrap_or_else(PoisonError::into_inner);
    for Membership { cluster, last_error, .. } in memberships.iter() {
        if status != 0 {
            let mut reason = format!("the program ended with exit status {status}");
            if let Some(error) = last_error {
                reason.push_str(&format!(", after {error}"));
            }
            cluster.abort(&reason);
        } else if let Err(error) = cluster.clone().shutdown() {
            say(&format!("edgecut: {}", with_causes(&error)));
        }
    }
    // Threads of these services may still run, so nothing is dropped.
    std::mem::forget(std::mem::take(&mut *memberships));
}

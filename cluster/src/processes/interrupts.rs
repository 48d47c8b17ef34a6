//! Interrupts of a process: SIGINT, SIGTERM and SIGHUP.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{ClusterError, system};

/// The signals that end a program in an orderly way.
const INTERRUPTS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Calls `handler` for each interrupt, on a thread of its own. Signals that this process ignores stay ignored: SIGINT in a
/// background job of a script, SIGHUP under `nohup`. Returns false and does nothing if the program has a handler of its own for
/// one of them.
///
/// # Errors
/// The system refuses to install a handler, or to start a thread.
pub fn on_interrupt(mut handler: impl FnMut() + Send + 'static) -> Result<bool, ClusterError> {
    let Dispositions { ignored, caught } = Dispositions::read().map_err(system("read the handlers of interrupts"))?;
    if INTERRUPTS.iter().any(|&signal| is_in(caught, signal)) {
        return Ok(false);
    }
    let caught = INTERRUPTS.iter().filter(|&&signal| !is_in(ignored, signal));
    let mut signals = Signals::new(caught).map_err(system("catch interrupts"))?;
    let thread = std::thread::Builder::new().name("interrupts".into());
    let spawned = thread.spawn(move || signals.forever().for_each(|_| handler()));
    spawned.map_err(system("start a thread for interrupts"))?;
    Ok(true)
}

/// The signals that a process ignores, and those that it handles, a bit for each.
struct Dispositions {
    ignored: u64,
    caught: u64,
}

impl Dispositions {
    fn read() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        Ok(Self { ignored: mask_in(&status, "SigIgn:")?, caught: mask_in(&status, "SigCgt:")? })
    }
}

/// Reads the line of a process's status with this name.
fn mask_in(status: &str, name: &str) -> io::Result<u64> {
    let digits = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn is_in(mask: u64, signal: i32) -> bool {
    mask >> (signal - 1) & 1 == 1
}

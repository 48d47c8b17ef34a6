//! Blocking waits for sockets that can be read or written.

use std::io;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of `sockets` is ready, or for `timeout`, whichever comes first.
pub(crate) fn wait_ready(sockets: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let timeout = Timespec::try_from(timeout).ok();
    match poll(sockets, timeout.as_ref()) {
        // A signal ends the wait early. All callers check and wait again in a loop.
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The writing end of a wake-up channel for a thread that waits in [`wait_ready`].
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

/// The reading end of a wake-up channel, which the waiting thread polls.
#[derive(Debug)]
pub(crate) struct WakeSignal(pub(crate) UnixStream);

impl Waker {
    pub(crate) fn new() -> io::Result<(Self, WakeSignal)> {
        let (waker, signal) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        signal.set_nonblocking(true)?;
        Ok((Self(waker), WakeSignal(signal)))
    }

    pub(crate) fn wake(&self) {
        // A full buffer means that a wake-up is pending already; a closed socket means that the thread has ended.
        let _ = io::Write::write(&mut &self.0, &[0]);
    }
}

impl WakeSignal {
    /// Discards all pending wake-ups.
    pub(crate) fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.0, &mut bytes), Ok(read) if read > 0) {}
    }
}

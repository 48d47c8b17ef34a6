//! The printer of the failure of a job whose ranks print to the same terminal.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::error::Failure;
use crate::locks::{lock, wait_for};
use crate::timeouts::{
    AFTER_PRINTING, PRINTER_CONNECT_TIMEOUT, PRINTER_SEARCH_TIMEOUT, PRINTER_STAYS, STOPWATCH_INTERVAL,
};

/// The printer of the failure of a job, if the ranks print to the same terminal. Then each failure appears once:
///
/// * A rank that fails by itself prints its error.
/// * Rank 0 prints any other failure, on which it decides.
/// * If rank 0 cannot be heard, the first rank that is left prints the failure.
///
/// Invariant: a rank that does not print ends only after the failure is printed, since a launcher may kill all ranks as soon as
/// one has ended. Therefore a failure is printed before the other ranks are told. If rank 0 cannot be heard, nobody tells
/// the others: each rank connects to the ranks before it ([`Failure::printers`]), and prints the failure itself if none of
/// them stays. All waits are bounded, and a failure that is printed twice is better than one that is not printed.
pub(crate) struct Printer {
    rank: usize,
    roster: Vec<SocketAddr>,
    /// Prints a line. `None` if each rank has an output of its own.
    print: Option<fn(&str)>,
    has_printed_own: AtomicBool,
    /// True while this process searches for a rank that prints the failure, or stays after it has printed it itself.
    searches: Mutex<bool>,
    ended: Condvar,
}

impl Printer {
    pub(crate) fn new(rank: usize, roster: Vec<SocketAddr>, print: Option<fn(&str)>) -> Self {
        let searches = Mutex::new(false);
        Self { rank, roster, print, has_printed_own: AtomicBool::new(false), searches, ended: Condvar::new() }
    }

    /// Prints the first error of this process, if the ranks share a terminal.
    pub(crate) fn print_own(&self, line: &str) {
        if let Some(print) = self.print
            && !self.has_printed_own.swap(true, Ordering::Relaxed)
        {
            print(line);
        }
    }

    /// Prints a failure as this rank has learned it.
    pub(crate) fn print_failure(&self, failure: &Failure) {
        if let Some(print) = self.print {
            print(&format!("rank {}: {failure}", self.rank));
        }
    }

    /// Prints a failure on a separate thread if this is the first rank that is left.
    pub(crate) fn print_if_first_left(self: &Arc<Self>, failure: &Failure) {
        if self.print.is_none() {
            return;
        }
        *lock(&self.searches) = true;
        let printer = Arc::clone(self);
        let reported = failure.clone();
        let thread = std::thread::Builder::new().name("edgecut-print".to_owned());
        let started = thread.spawn(move || {
            if printer.is_first_left(&reported) {
                printer.print_failure(&reported);
                std::thread::sleep(AFTER_PRINTING);
            }
            printer.end_search();
        });
        if started.is_err() {
            self.print_failure(failure);
            self.end_search();
        }
    }

    fn end_search(&self) {
        *lock(&self.searches) = false;
        self.ended.notify_all();
    }

    /// Waits until a failure that this process has learned of is printed, here or by another rank. A process that ends
    /// because of the failure calls this while it still listens.
    pub(crate) fn wait(&self) {
        let deadline = Instant::now() + PRINTER_SEARCH_TIMEOUT + PRINTER_STAYS + AFTER_PRINTING;
        let mut searches = lock(&self.searches);
        while *searches && Instant::now() < deadline {
            searches = wait_for(&self.ended, searches, STOPWATCH_INTERVAL);
        }
    }

    fn is_first_left(&self, failure: &Failure) -> bool {
        let deadline = Instant::now() + PRINTER_SEARCH_TIMEOUT;
        for rank in failure.printers(&self.roster) {
            let left = deadline.saturating_duration_since(Instant::now());
            if rank == self.rank || left.is_zero() {
                return true;
            }
            if stays(self.roster[rank], left.min(PRINTER_CONNECT_TIMEOUT)) {
                return false;
            }
        }
        true
    }
}

/// Returns true if a process listens at an address, and still does so after [`PRINTER_STAYS`]. A process that ends before
/// was killed, perhaps before it could print.
fn stays(addr: SocketAddr, connect_timeout: Duration) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&addr, connect_timeout) else { return false };
    if stream.set_read_timeout(Some(PRINTER_STAYS)).is_err() {
        return false;
    }
    // The process waits for a handshake for longer. The end of the process ends the connection.
    match stream.read(&mut [0]) {
        Ok(count) => count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_first_rank_that_is_left_prints() {
        let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let roster: Vec<SocketAddr> = listeners.iter().map(|one| one.local_addr().expect("an address")).collect();
        let [hub, dead, closing, alive] = <[TcpListener; 4]>::try_from(listeners).expect("four ranks");
        drop((hub, dead));
        // A process that is killed while others are connected to it.
        let killed = std::thread::spawn(move || drop(closing.accept()));
        let lost = Failure { rank: 0, addr: roster[0], reason: "x".to_owned(), link_to: None, is_own: false };
        let first_left: Vec<bool> =
            (1..4).map(|rank| Printer::new(rank, roster.clone(), None).is_first_left(&lost)).collect();
        killed.join().expect("no panic");
        assert_eq!(first_left, [true, true, true], "ranks 1 and 2 are dead for rank 3");
        let later = Printer::new(9, roster, None);
        assert!(!later.is_first_left(&lost), "rank 3 stays");
        drop(alive);
        assert!(later.is_first_left(&lost), "the last rank");
    }
}

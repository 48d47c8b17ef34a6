//! The bounded set of handshakes in progress, and the choice of the connection to close when the set is full.
//!
//! Invariant: strangers cannot delay the start of a job. Connections that stay silent are closed after
//! `first_bytes_timeout_ms`, and their number is bounded.

use crate::timeouts::HANDSHAKE_ROOM_INTERVAL;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use crate::locks::{lock, wait_for};
use crate::readiness::wait_ready;

/// The limits of the handshakes in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingLimits {
    /// The most handshakes at a time.
    pub(crate) handshakes: usize,
    /// The most handshakes at a time with one address.
    pub(crate) per_source: usize,
    /// The time after which a peer that has not proved the secret may be closed to make room.
    pub(crate) patience: Duration,
}

/// The handshakes in progress.
pub(crate) struct PendingHandshakes {
    limits: PendingLimits,
    table: Mutex<Table>,
    ended: Condvar,
}

#[derive(Default)]
struct Table {
    // In the order of arrival.
    entries: Vec<Entry>,
    next_id: u64,
}

struct Entry {
    id: u64,
    source: IpAddr,
    since: Instant,
    progress: Progress,
    // `None` once the peer has proved the secret, or the connection was evicted.
    socket: Option<Arc<TcpStream>>,
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Nothing has been read yet.
    Silent,
    /// The peer has sent the magic.
    Speaking,
    /// The peer has proved the secret.
    Proved,
    /// The connection was closed to make room.
    Evicted,
}

/// A permit for one handshake, returned on drop.
pub(crate) struct HandshakeSlot {
    pending: Arc<PendingHandshakes>,
    id: u64,
}

impl PendingHandshakes {
    pub(crate) fn new(limits: PendingLimits) -> Self {
        Self { limits, table: Mutex::default(), ended: Condvar::new() }
    }

    /// Waits for a free slot and takes it; `None` if `closed` is set meanwhile.
    ///
    /// If there is no free slot, the oldest connection that has sent nothing is closed, or else the oldest one that has
    /// taken longer than `patience`. So idle connections cannot keep ranks out.
    pub(crate) fn admit(
        self: &Arc<Self>,
        socket: &Arc<TcpStream>,
        source: IpAddr,
        closed: &AtomicBool,
    ) -> Option<HandshakeSlot> {
        let mut table = lock(&self.table);
        while let Some(crowd) = table.crowd(&self.limits, source) {
            if closed.load(Ordering::Acquire) {
                return None;
            }
            if let Some(victim) = table.victim(crowd, Instant::now(), self.limits.patience, has_sent) {
                victim.evict();
            }
            // The thread of the closed connection drops its slot, which notifies `ended`.
            table = wait_for(&self.ended, table, HANDSHAKE_ROOM_INTERVAL);
        }
        Some(HandshakeSlot { pending: Arc::clone(self), id: table.insert(source, Some(Arc::clone(socket))) })
    }
}

impl Table {
    fn insert(&mut self, source: IpAddr, socket: Option<Arc<TcpStream>>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.entries.push(Entry { id, source, since: Instant::now(), progress: Progress::Silent, socket });
        id
    }

    fn entry(&mut self, id: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.id == id)
    }

    /// Returns the address whose connections have to make room for one from `source`; `None` if there is room. That is
    /// `source` itself at its own limit, else the address with the most connections.
    fn crowd(&self, limits: &PendingLimits, source: IpAddr) -> Option<IpAddr> {
        if self.count(source) >= limits.per_source {
            return Some(source);
        }
        if self.entries.len() < limits.handshakes {
            return None;
        }
        self.entries.iter().map(|entry| entry.source).max_by_key(|&source| self.count(source))
    }

    fn count(&self, source: IpAddr) -> usize {
        self.entries.iter().filter(|entry| entry.source == source).count()
    }

    /// Returns the connection from `source` to close; `None` if all of them may still prove the secret within
    /// `patience`.
    fn victim(
        &mut self,
        source: IpAddr,
        now: Instant,
        patience: Duration,
        has_sent: impl Fn(&Entry) -> bool,
    ) -> Option<&mut Entry> {
        let may_end =
            |entry: &Entry| entry.source == source && matches!(entry.progress, Progress::Silent | Progress::Speaking);
        let is_idle = |entry: &Entry| entry.progress == Progress::Silent && !has_sent(entry);
        let is_slow = |entry: &Entry| now.saturating_duration_since(entry.since) >= patience;
        let oldest_idle = self.entries.iter().position(|entry| may_end(entry) && is_idle(entry));
        let index = oldest_idle.or_else(|| self.entries.iter().position(|entry| may_end(entry) && is_slow(entry)))?;
        self.entries.get_mut(index)
    }
}

impl Entry {
    fn evict(&mut self) {
        self.progress = Progress::Evicted;
        if let Some(socket) = self.socket.take() {
            // This fails only if the connection has ended already. Its thread then sees an end of the stream.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl HandshakeSlot {
    /// Records that the peer has sent the magic.
    pub(crate) fn note_speaking(&self) {
        if let Some(entry) = lock(&self.pending.table).entry(self.id)
            && entry.progress == Progress::Silent
        {
            entry.progress = Progress::Speaking;
        }
    }

    /// Returns whether the connection was closed to make room.
    pub(crate) fn is_evicted(&self) -> bool {
        let mut table = lock(&self.pending.table);
        table.entry(self.id).is_none_or(|entry| entry.progress == Progress::Evicted)
    }

    /// Records that the peer has proved the secret. From now on its connection is not closed to make room. Returns
    /// whether the connection is still open.
    pub(crate) fn note_proved(&self) -> bool {
        let mut table = lock(&self.pending.table);
        let Some(entry) = table.entry(self.id).filter(|entry| entry.progress != Progress::Evicted) else {
            return false;
        };
        entry.progress = Progress::Proved;
        entry.socket = None;
        true
    }
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        lock(&self.pending.table).entries.retain(|entry| entry.id != self.id);
        self.pending.ended.notify_all();
    }
}

/// Returns whether bytes of the peer are waiting to be read, because its thread has not run yet.
fn has_sent(entry: &Entry) -> bool {
    let Some(socket) = &entry.socket else { return false };
    let mut sockets = [PollFd::new(&**socket, PollFlags::IN)];
    wait_ready(&mut sockets, Duration::ZERO).is_ok() && sockets[0].revents().contains(PollFlags::IN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PendingLimits = PendingLimits { handshakes: 4, per_source: 3, patience: Duration::from_secs(1) };

    fn source(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    /// Creates a table with a connection from each source.
    fn table(sources: &[u8]) -> Table {
        let mut table = Table::default();
        for &last in sources {
            table.insert(source(last), None);
        }
        table
    }

    #[test]
    fn a_source_with_too_many_connections_makes_room_itself() {
        assert_eq!(table(&[1, 1]).crowd(&LIMITS, source(1)), None);
        assert_eq!(table(&[1, 1, 1]).crowd(&LIMITS, source(1)), Some(source(1)));
        assert_eq!(table(&[1, 1, 1]).crowd(&LIMITS, source(2)), None);
        assert_eq!(table(&[2, 1, 1, 3]).crowd(&LIMITS, source(4)), Some(source(1)));
    }

    fn victim(table: &mut Table, later: Duration, sent: &[u64]) -> Option<u64> {
        let now = Instant::now() + later;
        table.victim(source(1), now, LIMITS.patience, |entry| sent.contains(&entry.id)).map(|entry| entry.id)
    }

    #[test]
    fn the_oldest_idle_connection_ends_first() {
        let mut table = table(&[2, 1, 1, 1]);
        assert_eq!(victim(&mut table, Duration::ZERO, &[]), Some(1));
        assert_eq!(victim(&mut table, Duration::ZERO, &[1]), Some(2), "its bytes wait to be read");
        table.entries[2].progress = Progress::Speaking;
        table.entries[3].evict();
        assert_eq!(victim(&mut table, Duration::ZERO, &[1]), None, "both may still prove the secret");
    }

    #[test]
    fn a_connection_that_takes_too_long_ends_unless_it_has_proved_the_secret() {
        let mut table = table(&[1, 1, 1]);
        table.entries[0].progress = Progress::Proved;
        table.entries[1].progress = Progress::Speaking;
        assert_eq!(victim(&mut table, Duration::ZERO, &[2]), None);
        assert_eq!(victim(&mut table, Duration::from_secs(2), &[2]), Some(1));
    }
}

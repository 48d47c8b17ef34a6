//! The handshakes with incoming connections, and their dispatch by purpose.

use crate::timeouts::STOP_CHECK_INTERVAL;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TrySendError;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::address::is_loopback;
use crate::failure::keep_alive::{end_when_unacknowledged, probe_when_idle};
use crate::frames::{make_nonblocking, read_frame, write_frame};
use crate::handshake::identity::{Binding, Party, Purpose};
use crate::handshake::{Handshake, HandshakeError, Session};
use crate::io_error::invalid;
use crate::join::acceptor::{Acceptor, Arrival};
use crate::join::messages::{Admission, Answer, Joining, RingKey};
use crate::join::pending_handshakes::HandshakeSlot;
use crate::locks::{lock, wait_for};
use crate::secure::protection::Protection;
use crate::secure::stream::SecureStream;
use crate::stopwatch::Stopwatch;

/// The most connections of process groups that wait until this process creates their group.
const MAX_WAITING_RINGS: usize = 4096;
/// The most connections for other processes that a process prints a line about. The other end reports all of them.
const MAX_MISDIRECTED_NOTICES: usize = 8;

impl Acceptor {
    /// Waits for the connection of a process group that another rank opens. Returns `None` after `patience`, or when
    /// `give_up` returns true.
    pub(crate) fn take_ring(
        &self,
        key: &RingKey,
        patience: Duration,
        give_up: impl Fn() -> bool,
    ) -> Option<SecureStream> {
        let mut waited = Stopwatch::start();
        let mut rings = lock(&self.rings);
        loop {
            if let Entry::Occupied(waiting) = rings.entry(key.clone())
                && waiting.get().is_some()
            {
                return waiting.remove();
            }
            let remaining = patience.saturating_sub(waited.elapsed());
            if remaining.is_zero() || give_up() {
                return None;
            }
            rings = wait_for(&self.ring_came, rings, remaining.min(STOP_CHECK_INTERVAL));
        }
    }

    /// Runs the handshake with a new connection on a thread of its own.
    pub(super) fn welcome_on_thread(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        // Without a secret the listening address is loopback, so other peers can only come by unusual routing.
        if self.token.is_none() && !is_loopback(peer.ip()) {
            return;
        }
        let source = peer.ip().to_canonical();
        self.strangers.add(source);
        let stream = Arc::new(stream);
        let Some(slot) = self.pending.admit(&stream, source, &self.closed) else { return };
        let acceptor = Arc::clone(self);
        // If no thread can be started, slot and stream are dropped with the closure, and the peer sees the connection
        // close.
        let _ = std::thread::Builder::new().name("edgecut-greet".to_owned()).spawn(move || {
            // An error here is a broken connection. If the peer is a rank, it reports the error itself.
            let _ = acceptor.welcome(stream, peer, &slot);
        });
    }

    /// Runs the handshake with a new connection, reads its purpose and dispatches it.
    fn welcome(&self, stream: Arc<TcpStream>, peer: SocketAddr, slot: &HandshakeSlot) -> io::Result<()> {
        // On some systems, accepted sockets inherit the non-blocking mode of the listener.
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        probe_when_idle(&stream, self.keep_alive)?;
        let deadline = Instant::now() + self.limits.handshake_timeout;
        let session = match self.shake_hands(&stream, deadline, slot) {
            Ok(session) => session,
            Err(error) => {
                self.report_failed_handshake(error, peer);
                return Ok(());
            }
        };
        self.strangers.remove(peer.ip().to_canonical());
        if !slot.note_proved() {
            // The connection was closed just before, to make room for another one.
            return Ok(());
        }
        // `note_proved` has dropped the other reference, through which the connection could be closed to make room.
        let Some(stream) = Arc::into_inner(stream) else { return Ok(()) };
        if matches!(self.party, Party::Server(_)) && session.keys.peer_protection != self.protection {
            // The client hangs up and reports the same to its own user.
            let reason = self.other_protection(session.keys.peer_protection);
            (self.notice)(&format!("turned a client at {peer} away: {reason}"));
        }
        let Binding { purpose, from, .. } = session.binding;
        let mut stream = SecureStream::new(stream, &session.keys, format!("{from} at {peer}"))?;
        if stream.peer_protection() != self.protection && purpose != Purpose::Join {
            let reason = self.other_protection(stream.peer_protection());
            return refuse(&mut stream, deadline, reason);
        }
        match (purpose, from) {
            (Purpose::Service, Party::Client(_) | Party::Server(_)) => self.accept_client(stream, deadline),
            (Purpose::Service, Party::Rank(_)) | (_, Party::Client(_) | Party::Server(_)) => {
                refuse(&mut stream, deadline, format!("{from} opens no connection of this kind"))
            }
            (Purpose::Join, Party::Rank(rank)) => self.accept_joining(rank as usize, stream, peer, deadline),
            (_, Party::Rank(rank)) if rank as usize >= self.world_size => {
                let reason = format!("there is no rank {rank} in a job of {}", self.world_size);
                refuse(&mut stream, deadline, reason)
            }
            (Purpose::Rpc, Party::Rank(rank)) => self.pass_on(rank as usize, stream, deadline),
            (Purpose::Ring, Party::Rank(rank)) => self.accept_ring(rank as usize, stream, deadline),
            (Purpose::Pulse, Party::Rank(rank)) => self.accept_pulse(rank as usize, stream, deadline),
        }
    }

    fn shake_hands(
        &self,
        stream: &TcpStream,
        deadline: Instant,
        slot: &HandshakeSlot,
    ) -> Result<Session, HandshakeError> {
        let handshake = Handshake::new(self.token.as_ref(), self.protection, deadline);
        handshake.accept_magic(stream, Instant::now() + self.limits.first_bytes_timeout)?;
        slot.note_speaking();
        handshake.accept(stream, |binding| self.identity_for(binding, deadline, slot))
    }

    /// Tells the rendezvous of a failed handshake with a process of this project. Other failures are only counted.
    fn report_failed_handshake(&self, error: HandshakeError, peer: SocketAddr) {
        if error.is_transient() {
            return;
        }
        // It is reported on its own, so it does not count among the connections without a valid handshake.
        self.strangers.remove(peer.ip().to_canonical());
        let is_misdirected = matches!(error, HandshakeError::MeantForOther(_));
        let reason = format!("{:#}", error.naming(peer.to_string()));
        if is_misdirected && self.misdirected.fetch_add(1, Ordering::Relaxed) < MAX_MISDIRECTED_NOTICES {
            (self.notice)(&format!("refused a connection: {reason}"));
        }
        self.arrive(Arrival::TurnedAway { reason });
    }

    /// Passes an arrival to the rendezvous. After the rendezvous, rejects a rank as late.
    pub(super) fn arrive(&self, arrival: Arrival) {
        // The lock is held while sending, so that nothing enters the queue after the registration is closed.
        let queued = match &*lock(&self.arrivals) {
            Some(sender) => sender.try_send(arrival),
            None => Err(TrySendError::Disconnected(arrival)),
        };
        match queued {
            Ok(()) => {}
            // The queue has more entries than the job has ranks, so a full queue means too many processes.
            Err(TrySendError::Full(arrival)) => self.turn_away(
                arrival,
                &format!("found rank 0 busy: more processes want to join than the job has ranks ({})", self.world_size),
            ),
            Err(TrySendError::Disconnected(arrival)) => self.turn_away(arrival, &self.too_late()),
        }
    }

    pub(super) fn too_late(&self) -> String {
        format!("came too late: the job runs with all its {} ranks", self.world_size)
    }

    /// Rejects a rank with a reason. Other arrivals need no answer.
    pub(super) fn turn_away(&self, arrival: Arrival, why: &str) {
        let Arrival::Rank { register, mut stream, peer } = arrival else { return };
        let reason = format!("rank {} at {peer} {why}", register.rank);
        let deadline = Instant::now() + self.limits.handshake_timeout;
        // The peer may have ended already.
        let _ = write_frame(stream.by(deadline), &Admission::Rejected { reason });
    }

    /// Passes a rank that joins, or that cannot join, to the rendezvous.
    fn accept_joining(
        &self,
        rank: usize,
        mut stream: SecureStream,
        peer: SocketAddr,
        deadline: Instant,
    ) -> io::Result<()> {
        let joining: Joining = read_frame(stream.by(deadline))?;
        if joining.rank() != rank {
            return Err(invalid(format!("rank {rank} registers as rank {}", joining.rank())));
        }
        match joining {
            Joining::Register(register) => self.arrive(Arrival::Rank { register, stream, peer }),
            Joining::GiveUp { run, reason, .. } => self.arrive(Arrival::GaveUp { rank, run, peer, reason }),
        }
        Ok(())
    }

    fn accept_client(&self, stream: SecureStream, deadline: Instant) -> io::Result<()> {
        end_when_unacknowledged(stream.socket(), self.keep_alive)?;
        self.pass_on(0, stream, deadline)
    }

    /// Passes a connection to the application.
    fn pass_on(&self, from: usize, mut stream: SecureStream, deadline: Instant) -> io::Result<()> {
        let sender = lock(&self.rpc).clone();
        // A slot in the queue is reserved before the answer, so that an accepted connection cannot be dropped.
        let slot = match sender.as_ref().map(mpsc::Sender::try_reserve) {
            Some(Ok(slot)) => slot,
            Some(Err(mpsc::error::TrySendError::Full(()))) => {
                return refuse(&mut stream, deadline, "too many connections wait to be served".to_owned());
            }
            _ => return refuse(&mut stream, deadline, "this rank takes no RPC connections".to_owned()),
        };
        write_frame(stream.by(deadline), &Answer::Welcome)?;
        make_nonblocking(stream.socket())?;
        slot.send((from, stream));
        Ok(())
    }

    fn accept_ring(&self, from: usize, mut stream: SecureStream, deadline: Instant) -> io::Result<()> {
        let key: RingKey = read_frame(stream.by(deadline))?;
        if key.from != from {
            return refuse(&mut stream, deadline, format!("it is the connection of rank {}, not {from}", key.from));
        }
        if let Err(reason) = self.reserve_ring(&key) {
            return refuse(&mut stream, deadline, reason);
        }
        let welcomed =
            write_frame(stream.by(deadline), &Answer::Welcome).and_then(|()| make_nonblocking(stream.socket()));
        let mut rings = lock(&self.rings);
        match welcomed {
            Ok(()) => rings.insert(key, Some(stream)),
            Err(_) => rings.remove(&key),
        };
        drop(rings);
        self.ring_came.notify_all();
        welcomed
    }

    /// Reserves the entry of a connection of a process group, which is filled after the answer.
    ///
    /// # Errors
    /// The reason of a refusal. A second connection for the same use must not replace the first one: its sender is
    /// another process with the same rank, or has a group that this process does not know.
    fn reserve_ring(&self, key: &RingKey) -> Result<(), String> {
        let mut rings = lock(&self.rings);
        if rings.len() >= MAX_WAITING_RINGS {
            return Err("too many rings wait for their group".to_owned());
        }
        match rings.entry(key.clone()) {
            Entry::Occupied(_) => Err(format!(
                "rank {} opens a second connection to {} for group {:?} (number {}), and the first one still waits",
                key.from, self.party, key.name, key.instance
            )),
            Entry::Vacant(free) => {
                free.insert(None);
                Ok(())
            }
        }
    }

    fn accept_pulse(&self, from: usize, mut stream: SecureStream, deadline: Instant) -> io::Result<()> {
        write_frame(stream.by(deadline), &Answer::Welcome)?;
        make_nonblocking(stream.socket())?;
        end_when_unacknowledged(stream.socket(), 2 * self.keep_alive)?;
        // If the queue is full, the stream is dropped, and the peer stops watching this connection.
        let _ = self.pulses.try_send((from, stream));
        Ok(())
    }

    /// Returns why a process with another protection is refused.
    fn other_protection(&self, theirs: Protection) -> String {
        let ours = self.protection;
        format!(
            "it was started {theirs}, this process {ours}: give all processes the same protection (--encrypt, \
             --check-traffic)"
        )
    }
}

fn refuse(stream: &mut SecureStream, deadline: Instant, reason: String) -> io::Result<()> {
    write_frame(stream.by(deadline), &Answer::Refused { reason })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;
    use crate::config::ClusterConfig;
    use crate::handshake::tests::secure_pair;
    use crate::join::acceptor::{AcceptorSettings, HandshakeLimits};
    use crate::join::messages::{Register, RunName, Seat};

    fn acceptor(arrivals: SyncSender<Arrival>) -> Acceptor {
        Acceptor::new(AcceptorSettings {
            token: None,
            protection: Protection::Checked,
            party: Party::Rank(0),
            job: Some("job".to_owned()),
            world_size: 2,
            keep_alive: Duration::from_secs(60),
            limits: HandshakeLimits::of(&ClusterConfig::new(0, 2, "localhost", 1)),
            notice: |_| {},
            arrivals: Some(arrivals),
            rpc: mpsc::channel(1).0,
            pulses: sync_channel(1).0,
        })
    }

    /// Returns the arrival of a rank, and the rank's own end of the connection.
    fn rank() -> (Arrival, SecureStream) {
        let (own, stream) = secure_pair(Protection::Checked);
        let peer = own.local_addr().unwrap();
        let register = Register {
            rank: 1,
            run: RunName { job: None, attempt: 0 },
            world_size: 2,
            seat: Seat { local_rank: 1, local_world_size: 2 },
            fingerprint: String::new(),
            protection: Protection::Checked,
            listen: peer,
            waited_ms: 0,
        };
        (Arrival::Rank { register, stream, peer }, own)
    }

    fn rejection(mut own: SecureStream) -> String {
        match read_frame(&mut own).unwrap() {
            Admission::Rejected { reason } => reason,
            Admission::Roster { .. } => panic!("it is no member"),
        }
    }

    #[test]
    fn a_rank_that_finds_no_place_in_the_queue_is_told_why() {
        let (sender, _arrivals) = sync_channel(0);
        let (arrival, own) = rank();
        acceptor(sender).arrive(arrival);
        assert!(rejection(own).ends_with("more processes want to join than the job has ranks (2)"));
    }

    #[test]
    fn ranks_that_wait_when_the_registration_ends_are_told_so() {
        let (sender, arrivals) = sync_channel(1);
        let acceptor = acceptor(sender);
        let (waiting, own) = rank();
        let (late, own_late) = rank();
        acceptor.arrive(waiting);
        acceptor.finish_registration(&arrivals);
        acceptor.arrive(late);
        for own in [own, own_late] {
            assert!(rejection(own).ends_with("came too late: the job runs with all its 2 ranks"));
        }
    }
}

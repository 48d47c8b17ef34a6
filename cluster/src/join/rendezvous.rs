//! The rendezvous of a job: all ranks register at rank 0, and each receives the roster.

use crate::timeouts::{
    ANSWER_TIMEOUT, CONNECTION_CHECK_INTERVAL, FAILED_RENDEZVOUS_TIMEOUT, JOIN_EXTRA_TIMEOUT,
    MAX_MASTER_RETRY_INTERVAL, MIN_MASTER_RETRY_INTERVAL,
};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::address::{check_allowed, check_given, listen_as_member, resolve_master};
use crate::config::ClusterConfig;
use crate::error::{ClusterError, seconds, system};
use crate::frames::{read_frame, write_frame};
use crate::handshake::identity::{Binding, Identity, JobId, Party, Purpose};
use crate::join::acceptor::{Acceptor, Arrival};
use crate::join::connector::{self, ConnectorSettings, Target};
use crate::join::messages::{Admission, Joining, Register, RunName, Seat};
use crate::join::registry::{Admitted, Candidate, Registry, Rejection};
use crate::secure::stream::SecureStream;

/// The most lines about rejected peers. More lines would bury the first ones.
const MAX_NOTICES: usize = 8;

/// The result of the rendezvous on rank 0.
pub(crate) struct Assembly {
    pub(crate) roster: Vec<SocketAddr>,
    /// The control connections, each with its rank.
    pub(crate) controls: Vec<(usize, SecureStream)>,
}

/// A rank that has reached rank 0 and has yet to register.
pub(crate) struct Applicant {
    control: SecureStream,
    master: SocketAddr,
    started: Instant,
    pub(crate) listener: TcpListener,
    /// The address at which other ranks reach `listener`.
    pub(crate) listen: SocketAddr,
}

/// The result of the rendezvous on another rank.
pub(crate) struct Membership {
    pub(crate) job: String,
    pub(crate) roster: Vec<SocketAddr>,
    pub(crate) control: SecureStream,
}

/// Runs the rendezvous on rank 0. Waits until all ranks have registered and sends them the roster, or else the reason
/// of the failure.
pub(crate) fn host(
    config: &ClusterConfig,
    own: SocketAddr,
    acceptor: &Acceptor,
    arrivals: &Receiver<Arrival>,
) -> Result<Assembly, ClusterError> {
    let registry = Registry::new(config, own);
    let mut host = Host { config, registry, acceptor, controls: Vec::new(), notices: 0 };
    let deadline = Instant::now() + config.rendezvous_timeout();
    match host.gather(arrivals, deadline).and_then(|()| host.registry.roster()) {
        Ok(roster) => {
            // A rank that does not receive its answer has died, which the control plane detects.
            host.answer_all(&Admission::Roster { job: acceptor.job(), addrs: roster.clone() });
            Ok(Assembly { roster, controls: host.controls })
        }
        Err(reason) => {
            host.reject(&reason, arrivals, deadline);
            Err(ClusterError::Rendezvous(reason))
        }
    }
}

/// The state of the rendezvous on rank 0.
struct Host<'a> {
    config: &'a ClusterConfig,
    registry: Registry<'a>,
    acceptor: &'a Acceptor,
    // The ranks that wait for an answer, including one that made the rendezvous fail.
    controls: Vec<(usize, SecureStream)>,
    notices: usize,
}

impl Host<'_> {
    /// Waits until all ranks have registered. The error is the reason of a failure.
    fn gather(&mut self, arrivals: &Receiver<Arrival>, deadline: Instant) -> Result<(), String> {
        let mut next_look = Instant::now() + CONNECTION_CHECK_INTERVAL;
        while !self.registry.is_complete() {
            let now = Instant::now();
            if now >= deadline {
                let strangers = self.acceptor.strangers().summary();
                return Err(self.registry.timeout_reason(self.config.rendezvous_timeout(), strangers));
            }
            if now >= next_look {
                self.find_ended_rank()?;
                next_look = now + CONNECTION_CHECK_INTERVAL;
            }
            match arrivals.recv_timeout(CONNECTION_CHECK_INTERVAL.min(deadline - now)) {
                Ok(arrival) => self.handle(arrival)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("rank 0 stopped listening".to_owned()),
            }
        }
        Ok(())
    }

    fn handle(&mut self, arrival: Arrival) -> Result<(), String> {
        match arrival {
            Arrival::Rank { register, stream, peer } => self.admit(&register, stream, peer),
            Arrival::GaveUp { rank, run, peer, reason } => {
                let reason = format!("rank {rank} at {peer} cannot join: {reason}");
                match self.registry.other_run(rank, &run, peer) {
                    Some(_) => {
                        self.note_rejection(&reason);
                        Ok(())
                    }
                    None => Err(reason),
                }
            }
            Arrival::CannotAccept { reason } => Err(format!("rank 0 cannot take in other ranks: {reason}")),
            // This does not fail the rendezvous. Otherwise any process could stop the job, for example one of an
            // earlier job with an older secret. The peer has been told and ends at once. If it was a rank of this job,
            // it is missing at the deadline, and the error then mentions this rejection as a likely cause.
            Arrival::TurnedAway { reason } => {
                self.note_rejection(&reason);
                Ok(())
            }
        }
    }

    fn admit(&mut self, register: &Register, mut stream: SecureStream, peer: SocketAddr) -> Result<(), String> {
        let waited = Duration::from_millis(register.waited_ms);
        let now = Instant::now();
        // The clocks of different machines are not compared: the rank sends the time since its start.
        let started = now.checked_sub(waited).unwrap_or(now);
        match self.registry.admit(&Candidate { register, peer, started }) {
            Ok(Admitted::New) => {
                self.controls.push((register.rank, stream));
                Ok(())
            }
            Ok(Admitted::InPlaceOf(reason)) => {
                if let Some(at) = self.controls.iter().position(|(rank, _)| *rank == register.rank) {
                    let (_, mut older) = self.controls.swap_remove(at);
                    self.turn_away(&mut older, reason);
                }
                self.controls.push((register.rank, stream));
                Ok(())
            }
            Err(Rejection::Leftover(reason)) => {
                self.turn_away(&mut stream, reason);
                Ok(())
            }
            Err(Rejection::Fatal(reason)) => {
                self.controls.push((register.rank, stream));
                Err(reason)
            }
        }
    }

    /// Rejects a process and goes on with the rendezvous.
    fn turn_away(&mut self, stream: &mut SecureStream, reason: String) {
        self.note_rejection(&reason);
        answer(stream, &Admission::Rejected { reason });
    }

    fn note_rejection(&mut self, reason: &str) {
        self.registry.remember_rejection(reason);
        if self.notices < MAX_NOTICES {
            self.notices += 1;
            (self.config.notice)(&format!("rendezvous: turned a peer away: {reason}"));
        }
    }

    /// Fails if a registered rank has ended.
    fn find_ended_rank(&self) -> Result<(), String> {
        match self.controls.iter().find(|(_, stream)| has_ended(stream)) {
            Some(&(rank, _)) => {
                let peer = self.registry.peer_of(rank).map_or(String::new(), |peer| format!(" at {peer}"));
                Err(format!("rank {rank}{peer} ended before all ranks had joined"))
            }
            None => Ok(()),
        }
    }

    fn answer_all(&mut self, admission: &Admission) {
        for (_, stream) in &mut self.controls {
            answer(stream, admission);
        }
    }

    /// Sends the reason of a failure to the ranks that have registered, and for up to [`FAILED_RENDEZVOUS_TIMEOUT`] to those that come
    /// later.
    fn reject(&mut self, reason: &str, arrivals: &Receiver<Arrival>, deadline: Instant) {
        let rejection = Admission::Rejected { reason: reason.to_owned() };
        self.answer_all(&rejection);
        let linger_until = deadline.min(Instant::now() + FAILED_RENDEZVOUS_TIMEOUT);
        let mut told = self.controls.len();
        while told + 1 < self.config.world_size {
            let remaining = linger_until.saturating_duration_since(Instant::now());
            match arrivals.recv_timeout(remaining) {
                Ok(Arrival::Rank { mut stream, .. }) => {
                    answer(&mut stream, &rejection);
                    told += 1;
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

/// Sends an answer. Ignores errors: a peer that does not receive it has ended, which is detected elsewhere.
fn answer(stream: &mut SecureStream, admission: &Admission) {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let _ = write_frame(stream.by(deadline), admission);
}

/// Returns whether the peer of a connection has ended. The peer must have no reason to send data yet.
fn has_ended(stream: &SecureStream) -> bool {
    let stream = stream.socket();
    if stream.set_nonblocking(true).is_err() {
        return true;
    }
    // An open connection without data gives `WouldBlock`; a closed one gives 0 bytes or another error.
    let outcome = stream.peek(&mut [0]);
    let restored = stream.set_nonblocking(false);
    restored.is_err() || outcome.map_or_else(|error| error.kind() != io::ErrorKind::WouldBlock, |read| read == 0)
}

/// Begins the rendezvous on a rank other than 0: reaches rank 0 and opens the listening socket.
pub(crate) fn reach(config: &ClusterConfig) -> Result<Applicant, ClusterError> {
    let started = Instant::now();
    let mut control = reach_master(config)?;
    let master = control.peer_addr().map_err(system("ask for the master's address"))?;
    let local_ip = control.local_addr().map_err(system("ask for the own address"))?.ip();
    match listen_as_member(config, local_ip) {
        Ok((listener, listen)) => Ok(Applicant { control, master, started, listener, listen }),
        Err(error) => {
            // Tell rank 0, so that the other ranks do not wait until the deadline.
            let farewell =
                Joining::GiveUp { rank: config.rank, run: RunName::of(config), reason: format!("{error:#}") };
            let deadline = Instant::now() + ANSWER_TIMEOUT;
            let _ = write_frame(control.by(deadline), &farewell);
            Err(error)
        }
    }
}

/// A rank that registers at rank 0.
pub(crate) struct Registration {
    control: SecureStream,
    master: SocketAddr,
    register: Register,
}

impl Applicant {
    /// Takes the listening socket, and prepares the registration with `listen` as the address of this rank.
    pub(crate) fn into_registration(self, config: &ClusterConfig, listen: SocketAddr) -> (TcpListener, Registration) {
        let register = Register {
            rank: config.rank,
            run: RunName::of(config),
            world_size: config.world_size,
            seat: Seat::of(config),
            fingerprint: config.fingerprint.clone(),
            protection: config.protection,
            listen,
            waited_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        (self.listener, Registration { control: self.control, master: self.master, register })
    }
}

impl Registration {
    /// Registers at rank 0 and waits for the roster.
    pub(crate) fn complete(self, config: &ClusterConfig) -> Result<Membership, ClusterError> {
        let Self { mut control, master, register: own } = self;
        let (job, mut roster) = register(config, &mut control, master, own)?;
        if roster.len() != config.world_size {
            let reason = format!("rank 0 at {master} sent a roster of {} ranks", roster.len());
            return Err(ClusterError::Rendezvous(reason));
        }
        // Rank 0 may listen on several addresses. The one that this rank has connected to is known to work.
        roster[0] = master;
        check_roster(config, &roster, master)?;
        Ok(Membership { job, roster, control })
    }
}

/// Checks the addresses of a roster, so that rank 0 cannot make this rank connect to an address that is not allowed.
fn check_roster(config: &ClusterConfig, roster: &[SocketAddr], master: SocketAddr) -> Result<(), ClusterError> {
    for (rank, &addr) in roster.iter().enumerate() {
        check_given(config, addr).map_err(|cause| ClusterError::RosterAddress {
            master,
            rank,
            addr,
            cause: Box::new(cause),
        })?;
    }
    Ok(())
}

/// Registers at rank 0 and waits for its answer. Returns the name of the job and the roster.
fn register(
    config: &ClusterConfig,
    control: &mut SecureStream,
    master: SocketAddr,
    own: Register,
) -> Result<(String, Vec<SocketAddr>), ClusterError> {
    // Rank 0 started its clock before it accepted this connection, so it decides before this deadline.
    let deadline = Instant::now() + config.rendezvous_timeout() + JOIN_EXTRA_TIMEOUT;
    let admission =
        write_frame(control.by(deadline), &Joining::Register(own)).and_then(|()| read_frame(control.by(deadline)));
    match admission {
        Ok(Admission::Roster { job, addrs }) => Ok((job, addrs)),
        Ok(Admission::Rejected { reason }) => Err(ClusterError::Rendezvous(reason)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(ClusterError::Rendezvous(format!("rank 0 at {master} ended before all ranks had joined")))
        }
        Err(cause) => Err(ClusterError::NoRoster { master, cause }),
    }
}

/// Connects to rank 0, which may start later than this process.
fn reach_master(config: &ClusterConfig) -> Result<SecureStream, ClusterError> {
    let deadline = Instant::now() + config.rendezvous_timeout();
    let mut pause = MIN_MASTER_RETRY_INTERVAL;
    loop {
        let obstacle = match try_master(config, deadline) {
            Ok(stream) => return Ok(stream),
            Err(Obstacle::Final(error)) => return Err(error),
            Err(Obstacle::Passing(error)) => error,
        };
        if Instant::now() + pause >= deadline {
            return Err(ClusterError::MasterUnreachable {
                rank: config.rank,
                waited: seconds(config.rendezvous_timeout()),
                cause: Box::new(obstacle),
            });
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(MAX_MASTER_RETRY_INTERVAL);
    }
}

/// The reason why rank 0 could not be reached.
enum Obstacle {
    /// Rank 0 may not have started yet.
    Passing(ClusterError),
    /// A retry does not help.
    Final(ClusterError),
}

/// Tries once to connect to rank 0, at each of its addresses.
fn try_master(config: &ClusterConfig, deadline: Instant) -> Result<SecureStream, Obstacle> {
    let mut obstacle = None;
    for addr in resolve_master(config, deadline).map_err(Obstacle::Passing)? {
        if let Err(error) = check_allowed(config, "connect to", addr) {
            obstacle.get_or_insert(Obstacle::Final(error));
            continue;
        }
        let deadline = deadline.min(Instant::now() + config.connect_timeout());
        // A rank learns the name of the job from rank 0.
        let to = Identity { party: Party::Rank(0), job: JobId::UNKNOWN };
        let binding = Binding { purpose: Purpose::Join, from: Party::rank(config.rank), to };
        let target = Target { binding, ring: None, peer: "rank 0".to_owned(), addr };
        match connector::open(&target, ConnectorSettings::of(config), deadline) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let is_transient = error.is_transient();
                let error = error.naming(format!("the master at {addr}"));
                if !is_transient {
                    return Err(Obstacle::Final(error));
                }
                obstacle = Some(Obstacle::Passing(error));
            }
        }
    }
    Err(obstacle.unwrap_or_else(|| Obstacle::Passing(ClusterError::Config("the master has no address".to_owned()))))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::handshake::tests::secure_pair;
    use crate::join::acceptor::{AcceptorSettings, HandshakeLimits};
    use crate::secure::protection::Protection;
    use edgecut_testing::assert_has;

    #[test]
    fn a_roster_is_checked() {
        let config = ClusterConfig::new(1, 2, "127.0.0.1", 29500);
        let master = SocketAddr::from((Ipv4Addr::LOCALHOST, 29500));
        check_roster(&config, &[master, master], master).unwrap();
        let error = check_roster(&config, &[master, ([203, 0, 113, 5], 80).into()], master).unwrap_err();
        assert_has(format!("{error:#}"), &["gives 203.0.113.5:80 as the address of rank 1: connect to"]);
    }

    #[test]
    fn a_rank_that_dies_during_the_rendezvous_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = listener.local_addr().unwrap();
        let (member, stream) = secure_pair(Protection::Checked);
        let peer = member.local_addr().unwrap();
        let (sender, arrivals) = sync_channel(1);
        let register = Register {
            rank: 1,
            run: RunName { job: None, attempt: 0 },
            world_size: 3,
            seat: Seat { local_rank: 0, local_world_size: 1 },
            fingerprint: String::new(),
            protection: Protection::default(),
            listen: own,
            waited_ms: 0,
        };
        sender.send(Arrival::Rank { register, stream, peer }).unwrap();
        drop(member);
        let config = ClusterConfig::new(0, 3, "127.0.0.1", own.port());
        let acceptor = Acceptor::new(AcceptorSettings {
            token: None,
            protection: Protection::default(),
            party: Party::Rank(0),
            job: Some("job".to_owned()),
            world_size: 3,
            limits: HandshakeLimits::of(&config),
            notice: |_| {},
            keep_alive: Duration::from_secs(60),
            pulses: std::sync::mpsc::sync_channel(1).0,
            arrivals: None,
            rpc: tokio::sync::mpsc::channel(1).0,
        });
        let error = host(&config, own, &acceptor, &arrivals).err().unwrap().to_string();
        assert_eq!(error, format!("rendezvous: rank 1 at {peer} ended before all ranks had joined"));
    }
}

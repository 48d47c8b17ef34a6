//! Connections that this process opens.

use crate::timeouts::CONNECT_RETRY_INTERVAL;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::config::ClusterConfig;
use crate::error::ClusterError;
use crate::failure::keep_alive::probe_when_idle;
use crate::frames::{make_nonblocking, read_frame, write_frame};
use crate::handshake::identity::Binding;
use crate::handshake::{Handshake, HandshakeError};
use crate::join::messages::{Answer, RingKey};
use crate::secure::protection::Protection;
use crate::secure::stream::SecureStream;
use crate::token::Token;

/// The settings of the connections that a process opens.
#[derive(Clone, Copy)]
pub(crate) struct ConnectorSettings<'a> {
    pub(crate) token: Option<&'a Token>,
    pub(crate) protection: Protection,
    /// The approximate time after which idle connections end when the network is lost.
    pub(crate) keep_alive: Duration,
}

impl<'a> ConnectorSettings<'a> {
    pub(crate) fn of(config: &'a ClusterConfig) -> Self {
        Self { token: config.token.as_ref(), protection: config.protection, keep_alive: config.heartbeat_timeout() }
    }
}

/// Opens a connection and runs the handshake, until `deadline`. The kernel probes the connection while it is idle.
pub(crate) fn open(
    target: &Target<'_>,
    settings: ConnectorSettings<'_>,
    deadline: Instant,
) -> Result<SecureStream, HandshakeError> {
    let addr = target.addr;
    let remaining = deadline.saturating_duration_since(Instant::now());
    // The standard library rejects a timeout of zero.
    let stream = TcpStream::connect_timeout(&addr, remaining.max(Duration::from_millis(1)))?;
    if stream.local_addr()? == stream.peer_addr()? {
        // If the port is in the range of ephemeral ports and nobody listens on it, a socket can connect to itself (TCP
        // simultaneous open).
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    stream.set_nodelay(true)?;
    probe_when_idle(&stream, settings.keep_alive)?;
    let handshake = Handshake::new(settings.token, settings.protection, deadline);
    let session = handshake.connect(&stream, &target.binding)?;
    Ok(SecureStream::new(stream, &session.keys, target.name())?)
}

/// Opens a connection as [`open`] does, and retries if the peer closes it during the handshake. A peer to which many
/// processes connect at once closes the slowest connections. A peer that has ended refuses the next attempt.
fn open_patiently(
    target: &Target<'_>,
    settings: ConnectorSettings<'_>,
    deadline: Instant,
) -> Result<SecureStream, HandshakeError> {
    loop {
        match open(target, settings, deadline) {
            Err(error) if error.is_hang_up() && Instant::now() + CONNECT_RETRY_INTERVAL < deadline => {
                std::thread::sleep(CONNECT_RETRY_INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

/// A connection to open to a rank of the same job, or to a server.
pub(crate) struct Target<'a> {
    pub(crate) binding: Binding,
    /// The group of a connection with the purpose [`Purpose::Ring`](crate::handshake::identity::Purpose::Ring).
    pub(crate) ring: Option<&'a RingKey>,
    /// The peer in errors.
    pub(crate) peer: String,
    pub(crate) addr: SocketAddr,
}

impl Target<'_> {
    fn name(&self) -> String {
        let addr = self.addr.to_string();
        // A server whose name is its address is named once.
        if self.peer.ends_with(&addr) { self.peer.clone() } else { format!("{} at {addr}", self.peer) }
    }
}

/// Opens a connection to a rank of the same job, or to a server. The returned stream is non-blocking.
pub(crate) fn open_for(
    target: &Target<'_>,
    settings: ConnectorSettings<'_>,
    timeout: Duration,
) -> Result<SecureStream, ClusterError> {
    let deadline = Instant::now() + timeout;
    let mut stream = open_patiently(target, settings, deadline).map_err(|error| error.naming(target.name()))?;
    let ours = settings.protection;
    let theirs = stream.peer_protection();
    if theirs != ours {
        return Err(ClusterError::OtherPeer(format!(
            "{} was started {theirs}, this process {ours}: give all processes the same protection (--encrypt, \
             --check-traffic)",
            target.name()
        )));
    }
    let failed = |cause: io::Error| ClusterError::Connect { peer: target.name(), cause };
    if let Some(key) = target.ring {
        write_frame(stream.by(deadline), key).map_err(failed)?;
    }
    match read_frame(stream.by(deadline)).map_err(failed)? {
        Answer::Welcome => {
            make_nonblocking(stream.socket()).map_err(failed)?;
            Ok(stream)
        }
        Answer::Refused { reason } => Err(ClusterError::Refused { peer: target.name(), reason }),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::sync::Arc;

    use tokio::sync::mpsc;

    use super::*;
    use crate::handshake::identity::{Identity, JobId, Party, Purpose};
    use crate::join::acceptor::{AcceptThread, Acceptor, AcceptorSettings, HandshakeLimits, RpcStream};

    const MINUTE: Duration = Duration::from_secs(60);

    /// Starts the acceptor of rank 0 of two ranks. Returns it with the connections that it accepts.
    fn rank_0(job: Option<&str>) -> (Arc<Acceptor>, AcceptThread, SocketAddr, mpsc::Receiver<RpcStream>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (rpc, incoming) = mpsc::channel(1);
        let acceptor = Arc::new(Acceptor::new(AcceptorSettings {
            token: None,
            protection: Protection::Checked,
            party: Party::Rank(0),
            job: job.map(str::to_owned),
            world_size: 2,
            keep_alive: MINUTE,
            limits: HandshakeLimits::of(&ClusterConfig::new(0, 2, "localhost", 1)),
            notice: |_| {},
            arrivals: None,
            rpc,
            pulses: std::sync::mpsc::sync_channel(1).0,
        }));
        let thread = acceptor.start(listener).unwrap();
        (acceptor, thread, addr, incoming)
    }

    /// Connects to rank 0 of a job, as a rank.
    fn call(addr: SocketAddr, job: &str, from: u32) -> Result<SecureStream, ClusterError> {
        let to = Identity { party: Party::Rank(0), job: JobId::of(job) };
        let binding = Binding { purpose: Purpose::Rpc, from: Party::Rank(from), to };
        let settings = ConnectorSettings { token: None, protection: Protection::Checked, keep_alive: MINUTE };
        open_for(&Target { binding, ring: None, peer: "rank 0".to_owned(), addr }, settings, MINUTE)
    }

    #[test]
    fn a_stray_from_another_job_is_refused() {
        let (_acceptor, _thread, addr, mut incoming) = rank_0(Some("this"));
        let text = |outcome: Result<SecureStream, ClusterError>| outcome.unwrap_err().to_string();
        assert!(text(call(addr, "other", 1)).contains("has reached rank 0 of another job"));
        assert!(text(call(addr, "this", 2)).ends_with("there is no rank 2 in a job of 2"));
        call(addr, "this", 1).unwrap();
        assert_eq!(incoming.blocking_recv().unwrap().0, 1);
    }

    #[test]
    fn a_rank_that_does_not_know_its_job_yet_answers_once_it_does() {
        let (acceptor, _thread, addr, mut incoming) = rank_0(None);
        std::thread::scope(|scope| {
            let early = scope.spawn(|| call(addr, "this", 1));
            while acceptor.strangers().summary().is_none() {
                std::thread::yield_now();
            }
            acceptor.name_job("this".to_owned());
            early.join().unwrap().unwrap();
        });
        assert_eq!(incoming.blocking_recv().unwrap().0, 1);
    }
}

//! Connections that this process opens.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::config::ClusterConfig;
use crate::error::ClusterError;
use crate::failure::keep_alive::probe_when_idle;
use crate::join::handshake::{Handshake, HandshakeError};
use crate::join::identity::Binding;
use crate::join::messages::{Answer, RingKey};
use crate::secure::protection::Protection;
use crate::secure::stream::SecureStream;
use crate::token::Token;
use crate::wire::{make_nonblocking, read_frame, write_frame};

/// The pause before the next attempt to connect to a peer that has closed the connection.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

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
    Ok(SecureStream::new(stream, &session, target.name())?)
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
            Err(error) if error.is_hang_up() && Instant::now() + RETRY_PAUSE < deadline => {
                std::thread::sleep(RETRY_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// A connection to open to a rank of the same job, or to a server.
pub(crate) struct Target<'a> {
    pub(crate) binding: Binding,
    /// The group of a connection with the purpose [`Purpose::Ring`](crate::join::identity::Purpose::Ring).
    pub(crate) ring: Option<&'a RingKey>,
    /// The peer in errors.
    pub(crate) peer: String,
    pub(crate) addr: SocketAddr,
}

impl Target<'_> {
    fn name(&self) -> String {
        format!("{} at {}", self.peer, self.addr)
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
        return Err(ClusterError::ProtectionDiffers { peer: target.name(), theirs, ours });
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

    use super::*;
    use crate::join::acceptor::{Acceptor, AcceptorSettings, HandshakeLimits};
    use crate::join::identity::{Identity, JobId, Party, Purpose};

    #[test]
    fn a_stray_from_another_job_is_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (rpc, mut incoming) = tokio::sync::mpsc::channel(1);
        let minute = Duration::from_secs(60);
        let settings = AcceptorSettings {
            token: None,
            protection: Protection::Checked,
            party: Party::Rank(0),
            job: Some("this".to_owned()),
            world_size: 2,
            keep_alive: minute,
            limits: HandshakeLimits::of(&ClusterConfig::new(0, 2, "localhost", 1)),
            notice: |_| {},
            arrivals: None,
            rpc,
            pulses: std::sync::mpsc::sync_channel(1).0,
        };
        let _doorkeeper = Arc::new(Acceptor::new(settings)).start(listener).unwrap();
        let call = |job: &str, from| {
            let to = Identity { party: Party::Rank(0), job: JobId::of(job) };
            let binding = Binding { purpose: Purpose::Rpc, from: Party::Rank(from), to };
            let settings = ConnectorSettings { token: None, protection: Protection::Checked, keep_alive: minute };
            open_for(&Target { binding, ring: None, peer: "rank 0".to_owned(), addr }, settings, minute)
        };
        assert!(call("other", 1).unwrap_err().to_string().contains("has reached rank 0 of another job"));
        assert!(call("this", 2).unwrap_err().to_string().ends_with("there is no rank 2 in a job of 2"));
        call("this", 1).unwrap();
        assert_eq!(incoming.blocking_recv().unwrap().0, 1);
    }
}

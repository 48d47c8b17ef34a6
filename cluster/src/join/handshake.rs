//! The handshake at the start of every connection, in which both sides prove that they know the shared secret.
//!
//! ```text
//! connector ─► acceptor   magic (8) | version (u32 LE) | nonce (32)
//! acceptor  ─► connector  magic (8) | version (u32 LE) | nonce (32) | HMAC-SHA256(key, "acceptor" | version | both nonces)
//! connector ─► acceptor   verdict (1) | HMAC-SHA256(key, "connector" | version | both nonces)
//! acceptor  ─► connector  verdict (1)
//! ```
//! All messages have a fixed size. The labels "acceptor" and "connector" prevent reflection of a proof, the nonces
//! prevent replay.
//!
//! The acceptor proves the secret first, so a process that only pretends to be a rank gets no proof from the ranks that
//! connect to it. Anyone who can connect to a rank gets the acceptor's proof and can test guesses of the secret against
//! it offline. The minimum length of a [`Token`] and the iterated derivation of its key make that infeasible for a
//! random secret.
//!
//! Without a secret the key is derived from the empty text, so the handshake between a process with a secret and one
//! without fails with a clear error on both sides. Without a secret both sides also check that the same user runs the
//! other process.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::ClusterError;
use crate::io_error::{explain, invalid, is_exhausted};
use crate::join::peer_user::peer_user;
use crate::token::{Token, random_bytes};
use crate::wire::Timed;

/// The version of all protocols of this crate. Both sides of a connection must have the same version.
pub(crate) const PROTOCOL_VERSION: u32 = 4;

const MAGIC: [u8; 8] = *b"EDGECUT\n";
const NONCE_BYTES: usize = 32;
const PREAMBLE_BYTES: usize = 8 + 4 + NONCE_BYTES;
const PROOF_BYTES: usize = 32;
const ACCEPTED: u8 = 1;
/// The longest that a connection to a rejected process of another user stays open, so that the peer can look up the
/// user of this end and report the reason itself.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// The reason of a failed handshake.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The connection broke, or was too slow.
    Io(io::Error),
    /// The peer sent no magic in time.
    Silent,
    /// The peer sent something other than the magic: it is not a process of this project.
    Stray,
    /// The peer speaks another version.
    Version { theirs: u32, ours: u32 },
    /// The peer rejected this side's proof.
    Rejected,
    /// The peer's proof is wrong.
    Differs,
    /// There is no secret, and the peer is a process of another user.
    OtherUser { theirs: u32, ours: u32 },
    /// There is no secret, and the system does not tell the user of the peer.
    UnknownUser(io::Error),
}

impl HandshakeError {
    /// Returns whether another attempt to connect to the same peer may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Io(error) => !is_exhausted(error),
            Self::Stray | Self::Silent => true,
            // The connection is missing in the system's table: the acceptor has closed it to make room for others.
            Self::UnknownUser(error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Returns whether the acceptor closed the connection during the handshake, as it does to make room for others.
    pub(crate) fn is_hang_up(&self) -> bool {
        let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        match self {
            Self::Io(error) => kinds.contains(&error.kind()),
            Self::UnknownUser(error) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Converts to an error that names the peer.
    pub(crate) fn naming(self, peer: String) -> ClusterError {
        match self {
            Self::Io(cause) => ClusterError::Connect { peer, cause: explain(cause) },
            Self::Silent => ClusterError::Connect { peer, cause: io::ErrorKind::TimedOut.into() },
            Self::Stray => ClusterError::NotACluster { peer },
            Self::Version { theirs, ours } => ClusterError::Version { peer, theirs, ours },
            Self::Rejected => ClusterError::TokenRejected { peer },
            Self::Differs => ClusterError::TokenDiffers { peer },
            Self::OtherUser { theirs, ours } => ClusterError::OtherUser { peer, theirs, ours },
            Self::UnknownUser(cause) => ClusterError::UnknownUser { peer, cause },
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// The settings of one side of a handshake.
pub(crate) struct Handshake<'a> {
    pub(crate) token: Option<&'a Token>,
    /// [`PROTOCOL_VERSION`], except in tests.
    pub(crate) version: u32,
    pub(crate) deadline: Instant,
}

struct Nonces {
    connector: [u8; NONCE_BYTES],
    acceptor: [u8; NONCE_BYTES],
}

impl<'a> Handshake<'a> {
    pub(crate) fn new(token: Option<&'a Token>, deadline: Instant) -> Self {
        Self { token, version: PROTOCOL_VERSION, deadline }
    }

    /// Runs the connector's side.
    pub(crate) fn connect(&self, stream: &TcpStream) -> Result<(), HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline };
        let connector = random_bytes()?;
        timed.write_all(&self.preamble(&connector))?;
        self.read_magic(&mut timed)?;
        let (theirs, acceptor) = Self::read_rest(&mut timed)?;
        self.check_version(theirs)?;
        // The peer has sent its preamble, so it has accepted the connection, and the system knows the owner of that
        // end.
        self.check_user(stream)?;
        let nonces = Nonces { connector, acceptor };
        let mut proof = [0; PROOF_BYTES];
        timed.read_exact(&mut proof)?;

        let mut answer = [0; 1 + PROOF_BYTES];
        if let Err(error) = self.check_proof("acceptor", &nonces, &proof) {
            // The zeros of `answer` are a rejection without a proof.
            timed.write_all(&answer)?;
            return Err(error);
        }
        answer[0] = ACCEPTED;
        answer[1..].copy_from_slice(&self.proof("connector", &nonces)?.finalize().into_bytes());
        timed.write_all(&answer)?;

        let mut verdict = [0];
        timed.read_exact(&mut verdict)?;
        if verdict[0] == ACCEPTED { Ok(()) } else { Err(HandshakeError::Rejected) }
    }

    /// Waits for the magic of the connector, until the earlier deadline `first_bytes`: a process of this project sends
    /// it at once.
    pub(crate) fn accept_magic(&self, stream: &TcpStream, first_bytes: Instant) -> Result<(), HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline.min(first_bytes) };
        self.read_magic(&mut timed).map_err(|error| match error {
            HandshakeError::Io(error) if error.kind() == io::ErrorKind::TimedOut => HandshakeError::Silent,
            error => error,
        })
    }

    /// Runs the acceptor's side, after [`Handshake::accept_magic`].
    pub(crate) fn accept(&self, stream: &TcpStream) -> Result<(), HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline };
        let (theirs, connector) = Self::read_rest(&mut timed)?;
        let acceptor = random_bytes()?;
        let preamble = self.preamble(&acceptor);
        if let Err(error) = self.check_version(theirs) {
            // With this preamble the peer detects the mismatch too, and reports it to its own user.
            timed.write_all(&preamble)?;
            return Err(error);
        }
        if let Err(error) = self.check_user(stream) {
            timed.write_all(&preamble)?;
            // The peer makes the same check, which needs this end to be open, and then hangs up. Wait for that.
            let deadline = self.deadline.min(Instant::now() + LAST_LOOK);
            let _ = Timed { stream, deadline }.read(&mut [0]);
            return Err(error);
        }
        let nonces = Nonces { connector, acceptor };
        let mut opening = [0; PREAMBLE_BYTES + PROOF_BYTES];
        opening[..PREAMBLE_BYTES].copy_from_slice(&preamble);
        opening[PREAMBLE_BYTES..].copy_from_slice(&self.proof("acceptor", &nonces)?.finalize().into_bytes());
        timed.write_all(&opening)?;

        let mut answer = [0; 1 + PROOF_BYTES];
        timed.read_exact(&mut answer)?;
        if answer[0] != ACCEPTED {
            return Err(HandshakeError::Rejected);
        }
        if let Err(error) = self.check_proof("connector", &nonces, &answer[1..]) {
            timed.write_all(&[!ACCEPTED])?;
            return Err(error);
        }
        Ok(timed.write_all(&[ACCEPTED])?)
    }

    fn preamble(&self, nonce: &[u8; NONCE_BYTES]) -> [u8; PREAMBLE_BYTES] {
        let mut preamble = [0; PREAMBLE_BYTES];
        preamble[..8].copy_from_slice(&MAGIC);
        preamble[8..12].copy_from_slice(&self.version.to_le_bytes());
        preamble[12..].copy_from_slice(nonce);
        preamble
    }

    /// Reads the magic and nothing after it: a client of another protocol may send fewer bytes than a preamble and then
    /// wait.
    fn read_magic(&self, stream: &mut Timed<'_>) -> Result<(), HandshakeError> {
        let mut magic = [0; 8];
        stream.read_exact(&mut magic)?;
        if magic == MAGIC { Ok(()) } else { Err(HandshakeError::Stray) }
    }

    /// Reads the version and the nonce.
    fn read_rest(stream: &mut Timed<'_>) -> Result<(u32, [u8; NONCE_BYTES]), HandshakeError> {
        let mut version = [0; 4];
        let mut nonce = [0; NONCE_BYTES];
        stream.read_exact(&mut version)?;
        stream.read_exact(&mut nonce)?;
        Ok((u32::from_le_bytes(version), nonce))
    }

    /// Checks, if there is no secret, that the user of the peer's process is the user of this process.
    fn check_user(&self, stream: &TcpStream) -> Result<(), HandshakeError> {
        if self.token.is_some() {
            return Ok(());
        }
        let theirs = peer_user(stream).map_err(HandshakeError::UnknownUser)?;
        let ours = rustix::process::geteuid().as_raw();
        if theirs == ours { Ok(()) } else { Err(HandshakeError::OtherUser { theirs, ours }) }
    }

    fn check_version(&self, theirs: u32) -> Result<(), HandshakeError> {
        let ours = self.version;
        if theirs == ours { Ok(()) } else { Err(HandshakeError::Version { theirs, ours }) }
    }

    /// Returns the HMAC that the side `role` proves the secret with.
    fn proof(&self, role: &str, nonces: &Nonces) -> Result<Hmac<Sha256>, HandshakeError> {
        // HMAC takes keys of any length, so this never fails.
        let mut mac = Hmac::<Sha256>::new_from_slice(&Token::key(self.token))
            .map_err(|error| HandshakeError::Io(invalid(error)))?;
        mac.update(role.as_bytes());
        mac.update(&self.version.to_le_bytes());
        mac.update(&nonces.connector);
        mac.update(&nonces.acceptor);
        Ok(mac)
    }

    fn check_proof(&self, role: &str, nonces: &Nonces, proof: &[u8]) -> Result<(), HandshakeError> {
        // `verify_slice` compares in constant time.
        self.proof(role, nonces)?.verify_slice(proof).map_err(|_| HandshakeError::Differs)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    type Outcome = Result<(), HandshakeError>;

    fn side(token: Option<&Token>, version: u32) -> Handshake<'_> {
        Handshake { token, version, deadline: Instant::now() + Duration::from_secs(20) }
    }

    fn answer(acceptor: &Handshake<'_>, stream: &TcpStream) -> Outcome {
        acceptor.accept_magic(stream, acceptor.deadline)?;
        acceptor.accept(stream)
    }

    /// Runs both sides. Returns the outcomes of the connector and of the acceptor.
    fn meet(connector: Handshake<'_>, acceptor: Handshake<'_>) -> (Outcome, Outcome) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let connector = scope.spawn(move || connector.connect(&TcpStream::connect(addr).unwrap()));
            let accepted = answer(&acceptor, &listener.accept().unwrap().0);
            (connector.join().unwrap(), accepted)
        })
    }

    #[test]
    fn equal_secrets_meet() {
        let token = Token::random().unwrap();
        let (connector, acceptor) = meet(side(Some(&token), 1), side(Some(&token), 1));
        connector.unwrap();
        acceptor.unwrap();
        let (connector, acceptor) = meet(side(None, 1), side(None, 1));
        connector.unwrap();
        acceptor.unwrap();
    }

    #[test]
    fn different_secrets_are_found_on_both_sides() {
        let one = Token::random().unwrap();
        let other = Token::random().unwrap();
        for (a, b) in [(Some(&one), Some(&other)), (Some(&one), None), (None, Some(&one))] {
            let (connector, acceptor) = meet(side(a, 1), side(b, 1));
            assert!(matches!(connector, Err(HandshakeError::Differs)), "{connector:?}");
            assert!(matches!(acceptor, Err(HandshakeError::Rejected)), "{acceptor:?}");
        }
    }

    #[test]
    fn different_versions_are_named_on_both_sides() {
        let (connector, acceptor) = meet(side(None, 3), side(None, 4));
        let connector = connector.unwrap_err().naming("10.0.0.1:29500".into()).to_string();
        assert_eq!(connector, "peer 10.0.0.1:29500 speaks protocol 4, this node speaks 3");
        let acceptor = acceptor.unwrap_err().naming("10.0.0.2:41000".into()).to_string();
        assert_eq!(acceptor, "peer 10.0.0.2:41000 speaks protocol 3, this node speaks 4");
    }

    #[test]
    fn a_stray_client_is_told_nothing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut stray = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stray.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let accepted = answer(&side(None, 1), &listener.accept().unwrap().0);
        assert!(matches!(accepted, Err(HandshakeError::Stray)), "{accepted:?}");
        let mut answer = Vec::new();
        // The stream ends with an orderly close or, since the acceptor left bytes unread, with a reset.
        let _ = stray.read_to_end(&mut answer);
        assert!(answer.is_empty());
    }

    #[test]
    fn a_slow_client_runs_into_the_deadline() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        slow.write_all(&MAGIC[..3]).unwrap();
        let first_bytes = Instant::now() + Duration::from_millis(50);
        let silent = side(None, 1).accept_magic(&listener.accept().unwrap().0, first_bytes);
        assert!(matches!(silent, Err(HandshakeError::Silent)), "{silent:?}");
    }

    #[test]
    fn a_client_that_stops_after_the_magic_runs_into_the_deadline() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut slow = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        slow.write_all(&MAGIC).unwrap();
        let acceptor = Handshake { token: None, version: 1, deadline: Instant::now() + Duration::from_millis(50) };
        match answer(&acceptor, &listener.accept().unwrap().0) {
            Err(HandshakeError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_fake_listener_gets_no_proof() {
        let token = Token::random().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let connector = scope.spawn(|| side(Some(&token), 1).connect(&TcpStream::connect(addr).unwrap()));
            let mut fake = listener.accept().unwrap().0;
            let mut preamble = [0; PREAMBLE_BYTES];
            fake.read_exact(&mut preamble).unwrap();
            // Echo the preamble as the listener's own, then send an invalid proof.
            fake.write_all(&preamble).unwrap();
            fake.write_all(&[7; PROOF_BYTES]).unwrap();
            let mut answer = Vec::new();
            fake.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, [0; 1 + PROOF_BYTES], "a verdict and no proof");
            assert!(matches!(connector.join().unwrap(), Err(HandshakeError::Differs)));
        });
    }

    #[test]
    fn a_reflected_proof_is_wrong() {
        let token = Token::random().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let acceptor = scope.spawn(|| answer(&side(Some(&token), 1), &listener.accept().unwrap().0));
            let mut thief = TcpStream::connect(addr).unwrap();
            thief.write_all(&side(Some(&token), 1).preamble(&[1; NONCE_BYTES])).unwrap();
            let mut opening = [0; PREAMBLE_BYTES + PROOF_BYTES];
            thief.read_exact(&mut opening).unwrap();
            thief.write_all(&[ACCEPTED]).unwrap();
            thief.write_all(&opening[PREAMBLE_BYTES..]).unwrap();
            let mut verdict = Vec::new();
            thief.read_to_end(&mut verdict).unwrap();
            assert_eq!(verdict, [!ACCEPTED]);
            assert!(matches!(acceptor.join().unwrap(), Err(HandshakeError::Differs)));
        });
    }
}

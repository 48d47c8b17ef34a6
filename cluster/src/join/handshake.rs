//! The handshake at the start of every connection, in which both sides prove that they know the shared secret.
//!
//! ```text
//! opening                 magic (8) | version (u32 LE) | protection (1) | nonce (32) | public key (32)
//! connector ─► acceptor   opening
//! acceptor  ─► connector  opening | HMAC-SHA256(key, "acceptor" | both openings)
//! connector ─► acceptor   verdict (1) | HMAC-SHA256(key, "connector" | both openings)
//! acceptor  ─► connector  verdict (1)
//! ```
//! All messages have a fixed size. The labels "acceptor" and "connector" prevent reflection of a proof, the nonces
//! prevent replay. The proofs cover the public keys, so nobody in between can replace them. Both sides derive the keys
//! of the records that follow from the two public keys, the secret and both openings.
//!
//! If the two sides were started with different protections, the connection has the stronger one, so that the reason of
//! the refusal that follows can be sent over it.
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
use crate::secure::key_exchange::{KeyExchange, PUBLIC_KEY_BYTES, RecordKeys};
use crate::secure::protection::Protection;
use crate::token::{Token, random_bytes};
use crate::wire::Timed;

/// The version of all protocols of this crate. Both sides of a connection must have the same version.
pub(crate) const PROTOCOL_VERSION: u32 = 6;

const MAGIC: [u8; 8] = *b"EDGECUT\n";
const NONCE_BYTES: usize = 32;
const OPENING_BYTES: usize = 8 + 4 + 1 + NONCE_BYTES + PUBLIC_KEY_BYTES;
const PROOF_BYTES: usize = 32;
const ACCEPTED: u8 = 1;
/// The longest that a connection to a process of another version stays open, so that the peer can read the answer.
const LAST_BYTES: Duration = Duration::from_millis(200);
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
    pub(crate) protection: Protection,
    /// [`PROTOCOL_VERSION`], except in tests.
    pub(crate) version: u32,
    pub(crate) deadline: Instant,
}

/// The result of a handshake: the protection of the connection, and the keys of each direction.
pub(crate) struct Session {
    /// The stronger one of the protections that the two sides were started with.
    pub(crate) protection: Protection,
    /// The protection that the other side was started with.
    pub(crate) peer_protection: Protection,
    pub(crate) incoming: RecordKeys,
    pub(crate) outgoing: RecordKeys,
}

/// The first message of a side.
struct Opening {
    bytes: [u8; OPENING_BYTES],
}

/// The first messages of both sides, which the proofs cover.
struct Openings {
    connector: Opening,
    acceptor: Opening,
}

impl<'a> Handshake<'a> {
    pub(crate) fn new(token: Option<&'a Token>, protection: Protection, deadline: Instant) -> Self {
        Self { token, protection, version: PROTOCOL_VERSION, deadline }
    }

    /// Runs the connector's side.
    pub(crate) fn connect(&self, stream: &TcpStream) -> Result<Session, HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline };
        let key_exchange = KeyExchange::new()?;
        let connector = Opening::new(self, key_exchange.public_key())?;
        timed.write_all(&connector.bytes)?;
        self.read_magic(&mut timed)?;
        let acceptor = self.read_rest(&mut timed)?;
        // The peer has sent its opening, so it has accepted the connection, and the system knows the owner of that end.
        self.check_user(stream)?;
        let openings = Openings { connector, acceptor };
        let mut proof = [0; PROOF_BYTES];
        timed.read_exact(&mut proof)?;

        let mut answer = [0; 1 + PROOF_BYTES];
        if let Err(error) = self.check_proof("acceptor", &openings, &proof) {
            // The zeros of `answer` are a rejection without a proof.
            timed.write_all(&answer)?;
            return Err(error);
        }
        answer[0] = ACCEPTED;
        answer[1..].copy_from_slice(&self.proof("connector", &openings)?.finalize().into_bytes());
        timed.write_all(&answer)?;

        let mut verdict = [0];
        timed.read_exact(&mut verdict)?;
        if verdict[0] != ACCEPTED {
            return Err(HandshakeError::Rejected);
        }
        let peer_protection = openings.acceptor.protection()?;
        let keys =
            key_exchange.agree(openings.acceptor.public_key(), &Token::key(self.token), &openings.transcript())?;
        Ok(Session {
            protection: self.protection.max(peer_protection),
            peer_protection,
            incoming: keys.of_acceptor,
            outgoing: keys.of_connector,
        })
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
    pub(crate) fn accept(&self, stream: &TcpStream) -> Result<Session, HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline };
        let key_exchange = KeyExchange::new()?;
        let acceptor = Opening::new(self, key_exchange.public_key())?;
        let connector = match self.read_rest(&mut timed) {
            Err(error @ HandshakeError::Version { .. }) => {
                // With this opening the peer detects the mismatch too, and reports it to its own user.
                timed.write_all(&acceptor.bytes)?;
                self.wait_for_end(stream, LAST_BYTES);
                return Err(error);
            }
            outcome => outcome?,
        };
        if let Err(error) = self.check_user(stream) {
            timed.write_all(&acceptor.bytes)?;
            // The peer makes the same check, which needs this end to be open.
            self.wait_for_end(stream, LAST_LOOK);
            return Err(error);
        }
        let openings = Openings { connector, acceptor };
        let mut reply = [0; OPENING_BYTES + PROOF_BYTES];
        reply[..OPENING_BYTES].copy_from_slice(&openings.acceptor.bytes);
        reply[OPENING_BYTES..].copy_from_slice(&self.proof("acceptor", &openings)?.finalize().into_bytes());
        timed.write_all(&reply)?;

        let mut answer = [0; 1 + PROOF_BYTES];
        timed.read_exact(&mut answer)?;
        if answer[0] != ACCEPTED {
            return Err(HandshakeError::Rejected);
        }
        if let Err(error) = self.check_proof("connector", &openings, &answer[1..]) {
            timed.write_all(&[!ACCEPTED])?;
            return Err(error);
        }
        let peer_protection = openings.connector.protection()?;
        let keys =
            key_exchange.agree(openings.connector.public_key(), &Token::key(self.token), &openings.transcript())?;
        timed.write_all(&[ACCEPTED])?;
        Ok(Session {
            protection: self.protection.max(peer_protection),
            peer_protection,
            incoming: keys.of_connector,
            outgoing: keys.of_acceptor,
        })
    }

    /// Waits for a rejected peer to hang up, for at most `longest`. To close a connection with unread data would
    /// reset it, and the peer might not get the answer.
    fn wait_for_end(&self, stream: &TcpStream, longest: Duration) {
        let deadline = self.deadline.min(Instant::now() + longest);
        let mut timed = Timed { stream, deadline };
        let mut unread = [0; OPENING_BYTES];
        while matches!(timed.read(&mut unread), Ok(count) if count > 0) {}
    }

    /// Reads the magic and nothing after it: a client of another protocol may send fewer bytes than an opening and then
    /// wait.
    fn read_magic(&self, stream: &mut Timed<'_>) -> Result<(), HandshakeError> {
        let mut magic = [0; 8];
        stream.read_exact(&mut magic)?;
        if magic == MAGIC { Ok(()) } else { Err(HandshakeError::Stray) }
    }

    /// Reads the rest of an opening. Checks the version first, since it determines the length of the rest.
    fn read_rest(&self, stream: &mut Timed<'_>) -> Result<Opening, HandshakeError> {
        let mut bytes = [0; OPENING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        stream.read_exact(&mut bytes[8..12])?;
        self.check_version(u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]))?;
        stream.read_exact(&mut bytes[12..])?;
        Ok(Opening { bytes })
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
    fn proof(&self, role: &str, openings: &Openings) -> Result<Hmac<Sha256>, HandshakeError> {
        // HMAC takes keys of any length, so this never fails.
        let mut mac = Hmac::<Sha256>::new_from_slice(&Token::key(self.token))
            .map_err(|error| HandshakeError::Io(invalid(error)))?;
        mac.update(role.as_bytes());
        mac.update(&openings.transcript());
        Ok(mac)
    }

    fn check_proof(&self, role: &str, openings: &Openings, proof: &[u8]) -> Result<(), HandshakeError> {
        // `verify_slice` compares in constant time.
        self.proof(role, openings)?.verify_slice(proof).map_err(|_| HandshakeError::Differs)
    }
}

impl Opening {
    /// Creates the opening of this side, with a random nonce.
    fn new(handshake: &Handshake<'_>, public_key: &[u8; PUBLIC_KEY_BYTES]) -> io::Result<Self> {
        let mut bytes = [0; OPENING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&handshake.version.to_le_bytes());
        bytes[12] = handshake.protection.code();
        bytes[13..13 + NONCE_BYTES].copy_from_slice(&random_bytes::<NONCE_BYTES>()?);
        bytes[13 + NONCE_BYTES..].copy_from_slice(public_key);
        Ok(Self { bytes })
    }

    fn protection(&self) -> io::Result<Protection> {
        Protection::from_code(self.bytes[12]).ok_or_else(|| invalid("a protection of connections that does not exist"))
    }

    fn public_key(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        self.bytes.last_chunk().unwrap_or(&[0; PUBLIC_KEY_BYTES])
    }
}

impl Openings {
    fn transcript(&self) -> [u8; 2 * OPENING_BYTES] {
        let mut bytes = [0; 2 * OPENING_BYTES];
        bytes[..OPENING_BYTES].copy_from_slice(&self.connector.bytes);
        bytes[OPENING_BYTES..].copy_from_slice(&self.acceptor.bytes);
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::secure::stream::SecureStream;

    type Outcome = Result<Session, HandshakeError>;

    fn side(token: Option<&Token>, version: u32) -> Handshake<'_> {
        let deadline = Instant::now() + Duration::from_secs(20);
        Handshake { token, protection: Protection::Checked, version, deadline }
    }

    /// Returns the two ends of a connection after a handshake.
    pub(crate) fn secure_pair(protection: Protection) -> (SecureStream, SecureStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let other = listener.accept().unwrap().0;
        let handshake = || Handshake { protection, ..side(None, 1) };
        let (session, peer_session) = std::thread::scope(|scope| {
            let connector = scope.spawn(|| handshake().connect(&one));
            let accepted = answer(&handshake(), &other);
            (connector.join().unwrap().unwrap(), accepted.unwrap())
        });
        for stream in [&one, &other] {
            stream.set_read_timeout(None).unwrap();
            stream.set_write_timeout(None).unwrap();
        }
        let secure = |stream, session: &Session| SecureStream::new(stream, session, "the other end".to_owned());
        (secure(one, &session).unwrap(), secure(other, &peer_session).unwrap())
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
    fn different_protections_become_the_stronger_one_and_are_known_to_both() {
        use Protection::{Checked, Encrypted};
        for (one, other) in [(Checked, Encrypted), (Encrypted, Checked), (Encrypted, Encrypted), (Checked, Checked)] {
            let (connector, acceptor) =
                meet(Handshake { protection: one, ..side(None, 1) }, Handshake { protection: other, ..side(None, 1) });
            let connector = connector.unwrap();
            let acceptor = acceptor.unwrap();
            assert_eq!((connector.protection, connector.peer_protection), (one.max(other), other));
            assert_eq!((acceptor.protection, acceptor.peer_protection), (one.max(other), one));
        }
    }

    #[test]
    fn an_opening_that_was_modified_on_the_way_is_rejected() {
        let token = Token::random().unwrap();
        // The protection, the nonce and the public key. Other versions have errors of their own.
        for at in [12, 13, OPENING_BYTES - 1] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let middle = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let addr = listener.local_addr().unwrap();
            let middle_addr = middle.local_addr().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut from = middle.accept().unwrap().0;
                    let mut to = TcpStream::connect(addr).unwrap();
                    let mut opening = [0; OPENING_BYTES];
                    from.read_exact(&mut opening).unwrap();
                    opening[at] ^= 1;
                    to.write_all(&opening).unwrap();
                    let mut reply = [0; OPENING_BYTES + PROOF_BYTES];
                    to.read_exact(&mut reply).unwrap();
                    from.write_all(&reply).unwrap();
                    let mut answer = [0; 1 + PROOF_BYTES];
                    from.read_exact(&mut answer).unwrap();
                    to.write_all(&answer).unwrap();
                });
                let connect = || side(Some(&token), 1).connect(&TcpStream::connect(middle_addr).unwrap()).err();
                let connector = scope.spawn(connect);
                let accepted = answer(&side(Some(&token), 1), &listener.accept().unwrap().0).err();
                assert!(matches!(accepted, Some(HandshakeError::Rejected)), "{accepted:?}");
                let connected = connector.join().unwrap();
                assert!(matches!(connected, Some(HandshakeError::Differs)), "{connected:?}");
            });
        }
    }

    #[test]
    fn different_secrets_are_found_on_both_sides() {
        let one = Token::random().unwrap();
        let other = Token::random().unwrap();
        for (a, b) in [(Some(&one), Some(&other)), (Some(&one), None), (None, Some(&one))] {
            let (connector, acceptor) = meet(side(a, 1), side(b, 1));
            let connector = connector.err();
            let acceptor = acceptor.err();
            assert!(matches!(connector, Some(HandshakeError::Differs)), "{connector:?}");
            assert!(matches!(acceptor, Some(HandshakeError::Rejected)), "{acceptor:?}");
        }
    }

    #[test]
    fn different_versions_are_named_on_both_sides() {
        let (connector, acceptor) = meet(side(None, 3), side(None, 4));
        let connector = connector.err().unwrap().naming("10.0.0.1:29500".into()).to_string();
        assert_eq!(connector, "peer 10.0.0.1:29500 speaks protocol 4, this node speaks 3");
        let acceptor = acceptor.err().unwrap().naming("10.0.0.2:41000".into()).to_string();
        assert_eq!(acceptor, "peer 10.0.0.2:41000 speaks protocol 3, this node speaks 4");
    }

    #[test]
    fn a_stray_client_is_told_nothing() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut stray = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stray.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let accepted = answer(&side(None, 1), &listener.accept().unwrap().0).err();
        assert!(matches!(accepted, Some(HandshakeError::Stray)), "{accepted:?}");
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
        let acceptor = Handshake { deadline: Instant::now() + Duration::from_millis(50), ..side(None, 1) };
        match answer(&acceptor, &listener.accept().unwrap().0) {
            Err(HandshakeError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            other => panic!("{:?}", other.err()),
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
            let mut opening = [0; OPENING_BYTES];
            fake.read_exact(&mut opening).unwrap();
            // Echo the opening as the listener's own, then send an invalid proof.
            fake.write_all(&opening).unwrap();
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
            thief.write_all(&Opening::new(&side(Some(&token), 1), &[9; PUBLIC_KEY_BYTES]).unwrap().bytes).unwrap();
            let mut opening = [0; OPENING_BYTES + PROOF_BYTES];
            thief.read_exact(&mut opening).unwrap();
            thief.write_all(&[ACCEPTED]).unwrap();
            thief.write_all(&opening[OPENING_BYTES..]).unwrap();
            let mut verdict = Vec::new();
            thief.read_to_end(&mut verdict).unwrap();
            assert_eq!(verdict, [!ACCEPTED]);
            assert!(matches!(acceptor.join().unwrap(), Err(HandshakeError::Differs)));
        });
    }
}

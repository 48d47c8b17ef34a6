//! The proof, at the start of every connection, that both sides know the shared secret.
//!
//! ```text
//! connector ─► acceptor   magic (8) | version (u32 LE) | nonce (32)
//! acceptor  ─► connector  magic (8) | version (u32 LE) | nonce (32)
//! connector ─► acceptor   HMAC-SHA256(secret, "connector" | version | both nonces)
//! acceptor  ─► connector  verdict (1) | HMAC-SHA256(secret, "acceptor" | version | both nonces)
//! ```
//! All of it has a fixed size. The two labels keep a proof from being reflected, the nonces from being replayed.
//! Without a secret the key is empty, so that a process without one and a process with one find out about each other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::ClusterError;
use crate::token::{Token, random_bytes};
use crate::wire::{Timed, invalid};

/// The version of everything that this crate puts on the wire. Both sides of a connection must speak the same.
pub const PROTOCOL_VERSION: u32 = 4;

const MAGIC: [u8; 8] = *b"EDGECUT\n";
const NONCE_BYTES: usize = 32;
const PREAMBLE_BYTES: usize = 8 + 4 + NONCE_BYTES;
const PROOF_BYTES: usize = 32;
const ACCEPTED: u8 = 1;

/// Why a handshake failed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The connection broke, or was too slow.
    Io(io::Error),
    /// The peer did not send the magic: it is something else altogether.
    Stray,
    /// The peer speaks another version.
    Version { theirs: u32, ours: u32 },
    /// The acceptor says that our proof is wrong.
    Rejected,
    /// The peer's proof is wrong.
    Differs,
}

impl HandshakeError {
    /// Whether another attempt at the same peer may end better.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Stray)
    }

    pub(crate) fn naming(self, peer: String) -> ClusterError {
        match self {
            Self::Io(cause) => ClusterError::Connect { peer, cause },
            Self::Stray => ClusterError::NotACluster { peer },
            Self::Version { theirs, ours } => ClusterError::Version { peer, theirs, ours },
            Self::Rejected => ClusterError::TokenRejected { peer },
            Self::Differs => ClusterError::TokenDiffers { peer },
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// One side of a handshake.
pub(crate) struct Handshake<'a> {
    pub(crate) token: Option<&'a Token>,
    /// Only tests speak another version.
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

    /// The side that opened the connection.
    pub(crate) fn connect(&self, stream: &TcpStream) -> Result<(), HandshakeError> {
        let mut stream = Timed { stream, deadline: self.deadline };
        let connector = self.send_preamble(&mut stream)?;
        let acceptor = self.read_preamble(&mut stream)?;
        self.check_version(acceptor.0)?;
        let nonces = Nonces { connector, acceptor: acceptor.1 };
        stream.write_all(&self.proof("connector", &nonces)?.finalize().into_bytes())?;

        let mut verdict = [0; 1 + PROOF_BYTES];
        stream.read_exact(&mut verdict)?;
        if verdict[0] != ACCEPTED {
            return Err(HandshakeError::Rejected);
        }
        self.check_proof("acceptor", &nonces, &verdict[1..])
    }

    /// The side that was connected to. It says nothing to a peer that does not start with the magic.
    pub(crate) fn accept(&self, stream: &TcpStream) -> Result<(), HandshakeError> {
        let mut stream = Timed { stream, deadline: self.deadline };
        let (theirs, connector) = self.read_preamble(&mut stream)?;
        // Sent before the versions are compared, so that the peer can name both as well.
        let acceptor = self.send_preamble(&mut stream)?;
        self.check_version(theirs)?;
        let nonces = Nonces { connector, acceptor };
        let mut proof = [0; PROOF_BYTES];
        stream.read_exact(&mut proof)?;

        let mut verdict = [0; 1 + PROOF_BYTES];
        if let Err(error) = self.check_proof("connector", &nonces, &proof) {
            stream.write_all(&verdict)?;
            return Err(error);
        }
        verdict[0] = ACCEPTED;
        verdict[1..].copy_from_slice(&self.proof("acceptor", &nonces)?.finalize().into_bytes());
        Ok(stream.write_all(&verdict)?)
    }

    fn send_preamble(&self, stream: &mut Timed<'_>) -> Result<[u8; NONCE_BYTES], HandshakeError> {
        let nonce = random_bytes::<NONCE_BYTES>()?;
        let mut preamble = [0; PREAMBLE_BYTES];
        preamble[..8].copy_from_slice(&MAGIC);
        preamble[8..12].copy_from_slice(&self.version.to_le_bytes());
        preamble[12..].copy_from_slice(&nonce);
        stream.write_all(&preamble)?;
        Ok(nonce)
    }

    fn read_preamble(&self, stream: &mut Timed<'_>) -> Result<(u32, [u8; NONCE_BYTES]), HandshakeError> {
        let (mut magic, mut version, mut nonce) = ([0; 8], [0; 4], [0; NONCE_BYTES]);
        // The magic comes first and alone: a stray client may send fewer bytes than a preamble and then wait.
        stream.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(HandshakeError::Stray);
        }
        stream.read_exact(&mut version)?;
        stream.read_exact(&mut nonce)?;
        Ok((u32::from_le_bytes(version), nonce))
    }

    fn check_version(&self, theirs: u32) -> Result<(), HandshakeError> {
        let ours = self.version;
        if theirs == ours { Ok(()) } else { Err(HandshakeError::Version { theirs, ours }) }
    }

    fn proof(&self, role: &str, nonces: &Nonces) -> Result<Hmac<Sha256>, HandshakeError> {
        // HMAC takes keys of any length, so this never fails; but a library does not panic on a promise.
        let mut mac = Hmac::<Sha256>::new_from_slice(Token::key(self.token))
            .map_err(|error| HandshakeError::Io(invalid(error.to_string())))?;
        mac.update(role.as_bytes());
        mac.update(&self.version.to_le_bytes());
        mac.update(&nonces.connector);
        mac.update(&nonces.acceptor);
        Ok(mac)
    }

    fn check_proof(&self, role: &str, nonces: &Nonces, proof: &[u8]) -> Result<(), HandshakeError> {
        // Compares in constant time.
        self.proof(role, nonces)?.verify_slice(proof).map_err(|_| HandshakeError::Differs)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::time::Duration;

    use super::*;

    type Outcome = Result<(), HandshakeError>;

    fn side(token: Option<&Token>, version: u32) -> Handshake<'_> {
        Handshake { token, version, deadline: Instant::now() + Duration::from_secs(20) }
    }

    /// Runs both sides; returns how it ended for the connector and for the acceptor.
    fn meet(connector: Handshake<'_>, acceptor: Handshake<'_>) -> (Outcome, Outcome) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let connector = scope.spawn(move || connector.connect(&TcpStream::connect(addr).unwrap()));
            let accepted = acceptor.accept(&listener.accept().unwrap().0);
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
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        for (a, b) in [(Some(&one), Some(&other)), (Some(&one), None), (None, Some(&one))] {
            let (connector, acceptor) = meet(side(a, 1), side(b, 1));
            assert!(matches!(connector, Err(HandshakeError::Rejected)), "{connector:?}");
            assert!(matches!(acceptor, Err(HandshakeError::Differs)), "{acceptor:?}");
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
        let accepted = side(None, 1).accept(&listener.accept().unwrap().0);
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
        let acceptor = Handshake { token: None, version: 1, deadline: Instant::now() + Duration::from_millis(50) };
        match acceptor.accept(&listener.accept().unwrap().0) {
            Err(HandshakeError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::TimedOut),
            other => panic!("{other:?}"),
        }
    }
}

//! The handshake at the start of every connection: both sides prove that they know the shared secret, and that the
//! connection links the two processes that it is meant for.
//!
//! ```text
//! connector ─► acceptor   opening: magic (8) | version (u32 LE) | protection (1) | binding (43); first Noise message (48)
//! acceptor  ─► connector  magic (8) | version (u32 LE); second Noise message (48), with protection (1) | identity (37)
//! connector ─► acceptor   verdict (1) | confirmation (32)
//! acceptor  ─► connector  verdict (1)
//! ```
//! All messages have a fixed size. The opening is the prologue of the [Noise handshake](NoiseHandshake), and the identity
//! of the acceptor is the payload of its message. So whatever the two sides believe about the version, the protections,
//! the job, both processes and the purpose is equal on both, or the handshake fails. See
//! [`identity`](crate::handshake::identity).
//!
//! If the two sides were started with different protections, the connection has the stronger one, so that the reason of
//! the refusal that follows can be sent over it.
//!
//! The acceptor proves the secret first, so a process that only pretends to be a rank gets no proof from the ranks that
//! connect to it. Anyone who can connect to a rank gets the acceptor's proof and can test guesses of the secret against
//! it offline. The minimum length of a [`Token`] and the iterated derivation of its key make that infeasible for a
//! random secret. Someone who only listens gets nothing to test guesses against.
//!
//! Without a secret the key is derived from the empty text, so the handshake between a process with a secret and one
//! without fails with a clear error on both sides. Without a secret both sides also check that the same user runs the
//! other process.

pub(crate) mod identity;
mod peer_user;
mod version;

use crate::timeouts::{USER_LOOKUP_TIMEOUT, VERSION_ANSWER_TIMEOUT};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::ClusterError;
use crate::frames::Timed;
use crate::handshake::identity::{BINDING_BYTES, Binding, IDENTITY_BYTES, Identity, Misdirection};
use crate::io_error::{explain, invalid, is_exhausted};
use crate::secure::noise::{
    CONFIRMATION_BYTES, ConnectionKeys, FIRST_MESSAGE_BYTES, NoiseHandshake, SECOND_MESSAGE_BYTES,
};
use crate::secure::protection::Protection;
use crate::secure::stream::SessionKeys;
use crate::token::Token;
use peer_user::peer_user;
pub(crate) use version::PROTOCOL_VERSION;

const MAGIC: [u8; 8] = *b"EDGECUT\n";
/// The magic and the version, with which both sides begin in every version of the protocol.
const GREETING_BYTES: usize = 8 + 4;
const OPENING_BYTES: usize = GREETING_BYTES + 1 + BINDING_BYTES;
/// The payload of the acceptor's Noise message.
const REPLY_BYTES: usize = 1 + IDENTITY_BYTES;
const ANSWER_BYTES: usize = 1 + CONFIRMATION_BYTES;
const ACCEPTED: u8 = 1;

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
    /// The connection, which this side has opened, has reached another process than the one it is for.
    ReachedOther(Misdirection),
    /// The connection, which the peer has opened, is for another process than this one.
    MeantForOther(Misdirection),
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
        let what = match self {
            Self::Io(cause) => return ClusterError::Connect { peer, cause: explain(cause) },
            Self::Silent => return ClusterError::Connect { peer, cause: io::ErrorKind::TimedOut.into() },
            Self::Stray => return ClusterError::NotACluster { peer },
            Self::UnknownUser(cause) => return ClusterError::UnknownUser { peer, cause },
            Self::ReachedOther(misdirection) => return misdirection.of_connector(peer),
            Self::MeantForOther(misdirection) => return misdirection.of_acceptor(&peer),
            Self::Version { theirs, ours } => format!("peer {peer} speaks protocol {theirs}, this node speaks {ours}"),
            Self::Rejected => format!(
                "{peer} rejected this process's token (EDGECUT_TOKEN differs between the two, or only one of them has it)"
            ),
            Self::Differs => format!("the token of {peer} differs from this process's (EDGECUT_TOKEN)"),
            Self::OtherUser { theirs, ours } => format!(
                "{peer} is a process of user {theirs}, this process is one of user {ours}: without a shared secret all \
                 processes must belong to one user; set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the same secret on every \
                 rank"
            ),
        };
        ClusterError::OtherPeer(what)
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

/// The result of a handshake.
pub(crate) struct Session {
    /// The ends of the connection, which both sides agree on.
    pub(crate) binding: Binding,
    pub(crate) keys: SessionKeys,
}

/// The first message of a connector, up to its Noise message.
struct Opening {
    bytes: [u8; OPENING_BYTES],
    protection: Protection,
    binding: Binding,
}

impl<'a> Handshake<'a> {
    pub(crate) fn new(token: Option<&'a Token>, protection: Protection, deadline: Instant) -> Self {
        Self { token, protection, version: PROTOCOL_VERSION, deadline }
    }

    /// Runs the connector's side of a connection with these ends.
    pub(crate) fn connect(&self, stream: &TcpStream, binding: &Binding) -> Result<Session, HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline };
        let opening = Opening::new(self, binding);
        let mut noise = NoiseHandshake::connector(&opening.bytes, &Token::key(self.token))?;
        let mut sent = [0; OPENING_BYTES + FIRST_MESSAGE_BYTES];
        sent[..OPENING_BYTES].copy_from_slice(&opening.bytes);
        noise.write(&[], &mut sent[OPENING_BYTES..])?;
        timed.write_all(&sent)?;

        self.read_magic(&mut timed)?;
        self.read_version(&mut timed)?;
        // The peer has answered, so it has accepted the connection, and the system knows the owner of that end.
        self.check_user(stream)?;
        let mut message = [0; SECOND_MESSAGE_BYTES + REPLY_BYTES];
        timed.read_exact(&mut message)?;
        let mut answer = [0; ANSWER_BYTES];
        let mut reply = [0; REPLY_BYTES];
        if noise.read(&message, &mut reply).is_err() {
            // The zeros of `answer` are a rejection without a proof.
            timed.write_all(&answer)?;
            return Err(HandshakeError::Differs);
        }
        let ConnectionKeys { of_connector, of_acceptor, confirmation } = noise.finish()?;
        answer[0] = ACCEPTED;
        answer[1..].copy_from_slice(&confirmation.bytes());
        timed.write_all(&answer)?;
        let mut verdict = [0];
        timed.read_exact(&mut verdict)?;
        if verdict[0] != ACCEPTED {
            return Err(HandshakeError::Rejected);
        }

        let (peer_protection, found) = decode_reply(&reply)?;
        binding.check(found).map_err(HandshakeError::ReachedOther)?;
        Ok(Session {
            binding: *binding,
            keys: SessionKeys {
                protection: self.protection.max(peer_protection),
                peer_protection,
                incoming: of_acceptor,
                outgoing: of_connector,
            },
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

    /// Runs the acceptor's side, after [`Handshake::accept_magic`]. `identify` returns the identity of this process,
    /// given the ends that the connector wants.
    pub(crate) fn accept(
        &self,
        stream: &TcpStream,
        identify: impl FnOnce(&Binding) -> Identity,
    ) -> Result<Session, HandshakeError> {
        let mut timed = Timed { stream, deadline: self.deadline };
        if let Err(error) = self.read_version(&mut timed) {
            // With this greeting the peer detects another version too, and reports it to its own user.
            timed.write_all(&self.greeting())?;
            self.wait_for_end(stream, VERSION_ANSWER_TIMEOUT);
            return Err(error);
        }
        let opening = self.read_opening(&mut timed)?;
        let mut message = [0; FIRST_MESSAGE_BYTES];
        timed.read_exact(&mut message)?;
        if let Err(error) = self.check_user(stream) {
            timed.write_all(&self.greeting())?;
            // The peer makes the same check, which needs this end to be open.
            self.wait_for_end(stream, USER_LOOKUP_TIMEOUT);
            return Err(error);
        }
        let mut noise = NoiseHandshake::acceptor(&opening.bytes, &Token::key(self.token))?;
        // This message does not depend on the secret, so an error means that it was modified on the way.
        noise.read(&message, &mut [])?;
        let own = identify(&opening.binding);
        let mut reply = [0; REPLY_BYTES];
        reply[0] = self.protection.code();
        reply[1..].copy_from_slice(&own.encode());
        let mut sent = [0; GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES];
        sent[..GREETING_BYTES].copy_from_slice(&self.greeting());
        noise.write(&reply, &mut sent[GREETING_BYTES..])?;
        timed.write_all(&sent)?;

        let mut answer = [0; ANSWER_BYTES];
        timed.read_exact(&mut answer)?;
        if answer[0] != ACCEPTED {
            return Err(HandshakeError::Rejected);
        }
        let ConnectionKeys { of_connector, of_acceptor, confirmation } = noise.finish()?;
        if !confirmation.is(&answer[1..]) {
            timed.write_all(&[!ACCEPTED])?;
            return Err(HandshakeError::Differs);
        }
        // The connector compares the identities as well, and reports the same to its own user.
        timed.write_all(&[ACCEPTED])?;
        opening.binding.check(own).map_err(HandshakeError::MeantForOther)?;
        Ok(Session {
            binding: opening.binding,
            keys: SessionKeys {
                protection: self.protection.max(opening.protection),
                peer_protection: opening.protection,
                incoming: of_connector,
                outgoing: of_acceptor,
            },
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

    /// Reads and checks the version, which determines everything that follows.
    fn read_version(&self, stream: &mut Timed<'_>) -> Result<(), HandshakeError> {
        let mut version = [0; 4];
        stream.read_exact(&mut version)?;
        let theirs = u32::from_le_bytes(version);
        let ours = self.version;
        if theirs == ours { Ok(()) } else { Err(HandshakeError::Version { theirs, ours }) }
    }

    /// Reads the rest of an opening, after its version.
    fn read_opening(&self, stream: &mut Timed<'_>) -> Result<Opening, HandshakeError> {
        let mut bytes = [0; OPENING_BYTES];
        bytes[..GREETING_BYTES].copy_from_slice(&self.greeting());
        stream.read_exact(&mut bytes[GREETING_BYTES..])?;
        let binding = bytes.last_chunk().and_then(Binding::decode);
        let binding = binding.ok_or_else(|| invalid("a connection with a purpose or an end that does not exist"))?;
        Ok(Opening { bytes, protection: decode_protection(bytes[GREETING_BYTES])?, binding })
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

    fn greeting(&self) -> [u8; GREETING_BYTES] {
        let mut bytes = [0; GREETING_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }
}

impl Opening {
    fn new(handshake: &Handshake<'_>, binding: &Binding) -> Self {
        let mut bytes = [0; OPENING_BYTES];
        bytes[..GREETING_BYTES].copy_from_slice(&handshake.greeting());
        bytes[GREETING_BYTES] = handshake.protection.code();
        bytes[GREETING_BYTES + 1..].copy_from_slice(&binding.encode());
        Self { bytes, protection: handshake.protection, binding: *binding }
    }
}

/// Decodes the payload of the acceptor's Noise message.
fn decode_reply(reply: &[u8; REPLY_BYTES]) -> io::Result<(Protection, Identity)> {
    let identity = reply.last_chunk().and_then(Identity::decode);
    let identity = identity.ok_or_else(|| invalid("a process of a kind that does not exist"))?;
    Ok((decode_protection(reply[0])?, identity))
}

fn decode_protection(code: u8) -> io::Result<Protection> {
    Protection::from_code(code).ok_or_else(|| invalid("a protection of connections that does not exist"))
}

#[cfg(test)]
pub(crate) mod tests;

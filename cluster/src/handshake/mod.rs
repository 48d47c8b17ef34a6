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
pub(crate) mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::handshake::identity::{JobId, Party, Purpose};
    use crate::secure::stream::SecureStream;

    type Outcome = Result<Session, HandshakeError>;

    /// The acceptor of the tests.
    const RANK_0: Identity = Identity { party: Party::Rank(0), job: JobId::UNKNOWN };
    /// A connection to [`RANK_0`].
    const TO_RANK_0: Binding = Binding { purpose: Purpose::Join, from: Party::Rank(1), to: RANK_0 };

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
            let connector = scope.spawn(|| handshake().connect(&one, &TO_RANK_0));
            let accepted = answer(&handshake(), &other);
            (connector.join().unwrap().unwrap(), accepted.unwrap())
        });
        for stream in [&one, &other] {
            stream.set_read_timeout(None).unwrap();
            stream.set_write_timeout(None).unwrap();
        }
        let secure = |stream, session: &Session| SecureStream::new(stream, &session.keys, "the other end".to_owned());
        (secure(one, &session).unwrap(), secure(other, &peer_session).unwrap())
    }

    fn answer(acceptor: &Handshake<'_>, stream: &TcpStream) -> Outcome {
        answer_as(RANK_0, acceptor, stream)
    }

    fn answer_as(own: Identity, acceptor: &Handshake<'_>, stream: &TcpStream) -> Outcome {
        acceptor.accept_magic(stream, acceptor.deadline)?;
        acceptor.accept(stream, |_| own)
    }

    /// Runs both sides. Returns the outcomes of the connector and of the acceptor.
    fn meet(connector: Handshake<'_>, acceptor: Handshake<'_>) -> (Outcome, Outcome) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let connector = scope.spawn(move || connector.connect(&TcpStream::connect(addr).unwrap(), &TO_RANK_0));
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
            assert_eq!((connector.keys.protection, connector.keys.peer_protection), (one.max(other), other));
            assert_eq!((acceptor.keys.protection, acceptor.keys.peer_protection), (one.max(other), one));
        }
    }

    /// Runs a handshake through someone in between, who modifies a byte. Returns the errors of the connector and of the
    /// acceptor.
    fn meet_modified(from_connector: bool, at: usize) -> (HandshakeError, HandshakeError) {
        let token = Token::random().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let middle = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let middle_addr = middle.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| -> io::Result<()> {
                let mut from = middle.accept().unwrap().0;
                let mut to = TcpStream::connect(addr).unwrap();
                let mut opening = [0; OPENING_BYTES + FIRST_MESSAGE_BYTES];
                from.read_exact(&mut opening)?;
                opening[at] ^= u8::from(from_connector);
                to.write_all(&opening)?;
                let mut reply = [0; GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES];
                to.read_exact(&mut reply)?;
                reply[at] ^= u8::from(!from_connector);
                from.write_all(&reply)?;
                let mut answer = [0; ANSWER_BYTES];
                from.read_exact(&mut answer)?;
                to.write_all(&answer)
            });
            let connect = || side(Some(&token), 1).connect(&TcpStream::connect(middle_addr).unwrap(), &TO_RANK_0).err();
            let connector = scope.spawn(connect);
            let accepted = answer(&side(Some(&token), 1), &listener.accept().unwrap().0).err();
            (connector.join().unwrap().unwrap(), accepted.unwrap())
        })
    }

    #[test]
    fn messages_that_were_modified_on_the_way_are_rejected() {
        // Each byte after the version: another version has an error of its own.
        for at in GREETING_BYTES..OPENING_BYTES + FIRST_MESSAGE_BYTES {
            let (connector, acceptor) = meet_modified(true, at);
            assert!(connector.is_hang_up(), "byte {at}: {connector:?}");
            assert!(matches!(acceptor, HandshakeError::Io(_)), "byte {at}: {acceptor:?}");
        }
        for at in GREETING_BYTES..GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES {
            let (connector, acceptor) = meet_modified(false, at);
            assert!(matches!(connector, HandshakeError::Differs), "byte {at}: {connector:?}");
            assert!(matches!(acceptor, HandshakeError::Rejected), "byte {at}: {acceptor:?}");
        }
    }

    /// Runs a handshake with the acceptor `own`. Returns the texts of the errors of both sides; `None` if both accept.
    fn refusals(binding: &Binding, own: Identity, mode: (Option<&Token>, Protection)) -> Option<[String; 2]> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let handshake = || Handshake { protection: mode.1, ..side(mode.0, PROTOCOL_VERSION) };
        let (connected, accepted) = std::thread::scope(|scope| {
            let connector = scope.spawn(|| handshake().connect(&TcpStream::connect(addr).unwrap(), binding));
            let accepted = answer_as(own, &handshake(), &listener.accept().unwrap().0);
            (connector.join().unwrap(), accepted)
        });
        let texts = [connected.err(), accepted.err()].map(|error| error.map(|e| e.naming("a peer".into()).to_string()));
        match texts {
            [Some(connector), Some(acceptor)] => Some([connector, acceptor]),
            [None, None] => None,
            one_side => panic!("only one side refuses {binding:?} to {own:?}: {one_side:?}"),
        }
    }

    #[test]
    fn every_kind_of_connection_to_every_other_process_is_refused_by_name_on_both_sides() {
        let token = Token::random().unwrap();
        let job = JobId::of("a job");
        let modes = [
            (None, Protection::Unprotected),
            (Some(&token), Protection::Unprotected),
            (Some(&token), Protection::Encrypted),
        ];
        let parties: Vec<Party> = (0..3).map(Party::Rank).chain((0..2).map(Party::Server)).collect();
        for mode in modes {
            for purpose in Purpose::ALL {
                for (&from, &to) in parties.iter().flat_map(|from| parties.iter().map(move |to| (from, to))) {
                    let binding = Binding { purpose, from, to: Identity { party: to, job } };
                    for &found in &parties {
                        let refused = refusals(&binding, Identity { party: found, job }, mode);
                        assert_eq!(refused.is_some(), to != found, "{binding:?} reaches {found}");
                        for text in refused.iter().flatten() {
                            let names = [from, to, found].map(|party| text.contains(&party.to_string()));
                            assert_eq!(names, [true; 3], "{binding:?} reaches {found}: {text}");
                        }
                    }
                    let other_job = Identity { party: to, job: JobId::of("another job") };
                    assert!(refusals(&binding, other_job, mode).is_some(), "{binding:?} of another job");
                }
            }
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
            let connect = || side(Some(&token), 1).connect(&TcpStream::connect(addr).unwrap(), &TO_RANK_0);
            let connector = scope.spawn(connect);
            let mut fake = listener.accept().unwrap().0;
            let mut opening = [0; OPENING_BYTES + FIRST_MESSAGE_BYTES];
            fake.read_exact(&mut opening).unwrap();
            // The echoed greeting is valid, the Noise message is not.
            fake.write_all(&opening[..GREETING_BYTES]).unwrap();
            fake.write_all(&[7; SECOND_MESSAGE_BYTES + REPLY_BYTES]).unwrap();
            let mut answer = Vec::new();
            fake.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, [0; ANSWER_BYTES], "a verdict and no proof");
            assert!(matches!(connector.join().unwrap(), Err(HandshakeError::Differs)));
        });
    }

    #[test]
    fn a_connector_without_the_secret_cannot_answer() {
        let token = Token::random().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let acceptor = scope.spawn(|| answer(&side(Some(&token), 1), &listener.accept().unwrap().0));
            let mut thief = TcpStream::connect(addr).unwrap();
            let handshake = side(None, 1);
            let opening = Opening::new(&handshake, &TO_RANK_0);
            let mut message = [0; FIRST_MESSAGE_BYTES];
            NoiseHandshake::connector(&opening.bytes, &Token::key(None)).unwrap().write(&[], &mut message).unwrap();
            thief.write_all(&[&opening.bytes[..], &message].concat()).unwrap();
            let mut reply = [0; GREETING_BYTES + SECOND_MESSAGE_BYTES + REPLY_BYTES];
            thief.read_exact(&mut reply).unwrap();
            thief.write_all(&[ACCEPTED]).unwrap();
            thief.write_all(&reply[..CONFIRMATION_BYTES]).unwrap();
            let mut verdict = Vec::new();
            thief.read_to_end(&mut verdict).unwrap();
            assert_eq!(verdict, [!ACCEPTED]);
            assert!(matches!(acceptor.join().unwrap(), Err(HandshakeError::Differs)));
        });
    }
}

//! Entry points for fuzzing: what a peer can send before and after it has proved the secret. Not for other use.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::env::node_list::expand;
use crate::failure::messages::Message;
use crate::frames::{encode, read_frame, take_frame};
use crate::handshake::identity::{Binding, Identity, JobId, Party, Purpose};
use crate::handshake::{Handshake, PROTOCOL_VERSION};
use crate::join::messages::{Admission, Answer, Joining, Register, RingKey, RunName, Seat, Topology};
use crate::secure::Protection;
use crate::token::Token;

/// The time for a handshake whose peer sends all its bytes at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// The ends of the connection in a handshake.
const BINDING: Binding = Binding {
    purpose: Purpose::Join,
    from: Party::Rank(1),
    to: Identity { party: Party::Rank(0), job: JobId::UNKNOWN },
};

/// Returns the two ends of a connection. The peer's end has sent `bytes` and nothing more.
fn connection(bytes: &[u8]) -> std::io::Result<(TcpStream, UnixStream)> {
    let (ours, mut theirs) = UnixStream::pair()?;
    theirs.write_all(bytes)?;
    theirs.shutdown(Shutdown::Write)?;
    // The handshake only reads, writes and sets timeouts, which is the same for both kinds of sockets.
    Ok((TcpStream::from(OwnedFd::from(ours)), theirs))
}

/// Runs the side of a handshake that connects, against an acceptor that sends `bytes`. Returns the error.
pub fn connect(bytes: &[u8], token: Option<&Token>) -> String {
    let run = || -> std::io::Result<String> {
        let (stream, _theirs) = connection(bytes)?;
        let handshake = Handshake::new(token, Protection::Encrypted, Instant::now() + PATIENCE);
        let ended = handshake.connect(&stream, &BINDING);
        Ok(ended.err().map(|error| error.naming("a peer".to_owned()).to_string()).unwrap_or_default())
    };
    run().unwrap_or_else(|error| error.to_string())
}

/// Runs the side of a handshake that accepts, against a connector that sends `bytes`. Returns the error.
pub fn accept(bytes: &[u8], token: Option<&Token>) -> String {
    let run = || -> std::io::Result<String> {
        let (stream, _theirs) = connection(bytes)?;
        let deadline = Instant::now() + PATIENCE;
        let handshake = Handshake::new(token, Protection::Checked, deadline);
        let ended = handshake
            .accept_magic(&stream, deadline)
            .and_then(|()| handshake.accept(&stream, |_| BINDING.to).map(drop));
        Ok(ended.err().map(|error| error.naming("a peer".to_owned()).to_string()).unwrap_or_default())
    };
    run().unwrap_or_else(|error| error.to_string())
}

/// Returns the bytes of a connector and of an acceptor up to their proofs, which are wrong.
pub fn handshakes() -> Vec<Vec<u8>> {
    let greeting = [&b"EDGECUT\n"[..], &PROTOCOL_VERSION.to_le_bytes()].concat();
    // The Noise message of a connector depends on the bytes before it. A fuzzer does not find such a message.
    let (stream, mut theirs) = connection(&[]).expect("a pair of sockets");
    let handshake = Handshake::new(None, Protection::Checked, Instant::now() + PATIENCE);
    // This side has no peer. It sends its opening first.
    let _ = handshake.connect(&stream, &BINDING);
    drop(stream);
    let mut opening = Vec::new();
    theirs.read_to_end(&mut opening).expect("the opening");
    vec![[&opening[..], &[1; 33]].concat(), [&greeting[..], &[3; 86], &[1]].concat(), opening]
}

/// Decodes `bytes` as each kind of control message, in both ways of reading. Returns the number of messages.
pub fn control_messages(bytes: &[u8]) -> usize {
    decoded::<Joining>(bytes)
        + decoded::<RingKey>(bytes)
        + decoded::<Admission>(bytes)
        + decoded::<Answer>(bytes)
        + decoded::<Message>(bytes)
}

fn decoded<M: DeserializeOwned + Serialize>(bytes: &[u8]) -> usize {
    let mut buffer = bytes.to_vec();
    let mut taken = 0;
    while let Ok(Some(message)) = take_frame::<M>(&mut buffer) {
        // A message that was received can be sent.
        encode(&message).expect("encode a decoded message");
        taken += 1;
    }
    let mut rest = bytes;
    let mut read = 0;
    while read_frame::<M>(&mut rest).is_ok() {
        read += 1;
    }
    assert_eq!(taken, read, "messages by both ways of reading");
    taken
}

/// Returns frames of control messages.
pub fn frames() -> Vec<Vec<u8>> {
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 29500));
    let run = RunName { job: Some("a".to_owned()), attempt: 0 };
    let register = Register {
        rank: 1,
        run: run.clone(),
        world_size: 2,
        seat: Seat { local_rank: 1, local_world_size: 2 },
        fingerprint: "abc".to_owned(),
        listen,
        waited_ms: 12,
        protection: Protection::Checked,
    };
    let key = RingKey { name: "world".to_owned(), members: vec![0, 1], instance: 0, from: 1, lane: Topology::Ring };
    let job = || "job".to_owned();
    let joining = [Joining::Register(register), Joining::GiveUp { rank: 1, run, reason: "x".to_owned() }];
    let admissions = [
        Admission::Roster { job: job(), addrs: vec![listen, listen] },
        Admission::Rejected { reason: "late".to_owned() },
    ];
    let answers = [Answer::Welcome, Answer::Refused { reason: "no".to_owned() }];
    let messages = [Message::Heartbeat, Message::AskWaits, Message::Waits(vec![1, 2]), Message::Leaving];
    let mut frames: Vec<Vec<u8>> = joining.iter().filter_map(|message| encode(message).ok()).collect();
    frames.extend(encode(&key).ok());
    frames.extend(admissions.iter().filter_map(|message| encode(message).ok()));
    frames.extend(answers.iter().filter_map(|message| encode(message).ok()));
    frames.extend(messages.iter().filter_map(|message| encode(message).ok()));
    frames
}

/// Expands Slurm's form of a list of nodes. Returns the names or the error.
///
/// # Errors
/// Describes the problem of the list.
pub fn node_list(list: &str) -> Result<Vec<String>, String> {
    expand(list)
}

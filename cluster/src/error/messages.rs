//! The messages of errors that have a cause. The alternate form (`{:#}`) shows the cause as well.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

/// Returns the message of an error and of its causes in one line. A cause that an earlier message includes already is
/// left out.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    causes.fold(error.to_string(), |text, cause| if text.contains(&cause) { text } else { format!("{text}: {cause}") })
}

/// Writes a message, and in the alternate form also its cause and the causes of that.
fn with_cause(f: &mut fmt::Formatter<'_>, message: fmt::Arguments<'_>, cause: &dyn Error) -> fmt::Result {
    f.write_fmt(message)?;
    let mut next = f.alternate().then_some(cause);
    while let Some(error) = next {
        write!(f, ": {error}")?;
        next = error.source();
    }
    Ok(())
}

/// Declares the messages of variants by their fields before the cause.
macro_rules! messages {
    ($($name:ident($($field:ident: $type:ty),*) = $text:literal $(, $argument:expr)*;)+) => {
        $(pub(super) fn $name($($field: &$type,)* cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            with_cause(f, format_args!($text $(, $argument)*), cause)
        })+
    };
}

messages! {
    token_file(path: Path) = "read the shared secret from {}", path.display();
    unknown_user(peer: str) = "find the user whose process is at {peer} (set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the \
        same secret on every rank to do without)";
    resolve(host: str) = "resolve {host}";
    listen(addr: SocketAddr) = "listen on {addr}";
    connect(peer: str) = "connect to {peer}";
    master_unreachable(rank: usize, waited: str) =
        "rendezvous: rank {rank} has not reached the master within {waited}";
    no_roster(master: SocketAddr) = "rendezvous: no roster from rank 0 at {master}";
    roster_address(master: SocketAddr, rank: usize, addr: SocketAddr) =
        "rendezvous: rank 0 at {master} gives {addr} as the address of rank {rank}";
    peer_lost(operation: str, rank: usize, addr: SocketAddr, progress: str) =
        "{operation}: lost rank {rank} at {addr} ({progress})";
    system(operation: str) = "{operation}";
}

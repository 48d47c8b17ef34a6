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

pub(super) fn token_file(path: &Path, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_cause(f, format_args!("read the shared secret from {}", path.display()), cause)
}

pub(super) fn unknown_user(peer: &str, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let advice = "set EDGECUT_TOKEN (or EDGECUT_TOKEN_FILE) to the same secret on every rank to do without";
    with_cause(f, format_args!("find the user whose process is at {peer} ({advice})"), cause)
}

pub(super) fn resolve(host: &str, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_cause(f, format_args!("resolve {host}"), cause)
}

pub(super) fn listen(addr: &SocketAddr, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_cause(f, format_args!("listen on {addr}"), cause)
}

pub(super) fn connect(peer: &str, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_cause(f, format_args!("connect to {peer}"), cause)
}

pub(super) fn master_unreachable(
    rank: &usize,
    waited: &str,
    cause: &impl Error,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    with_cause(f, format_args!("rendezvous: rank {rank} has not reached the master within {waited}"), cause)
}

pub(super) fn no_roster(master: &SocketAddr, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_cause(f, format_args!("rendezvous: no roster from rank 0 at {master}"), cause)
}

pub(super) fn roster_address(
    master: &SocketAddr,
    rank: &usize,
    addr: &SocketAddr,
    cause: &impl Error,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let message = format_args!("rendezvous: rank 0 at {master} gives {addr} as the address of rank {rank}");
    with_cause(f, message, cause)
}

pub(super) fn peer_lost(
    operation: &str,
    rank: &usize,
    addr: &SocketAddr,
    cause: &impl Error,
    progress: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    with_cause(f, format_args!("{operation}: lost rank {rank} at {addr} ({progress})"), cause)
}

pub(super) fn system(operation: &str, cause: &impl Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    with_cause(f, format_args!("{operation}"), cause)
}

//! The error of a connection whose bytes were modified on the way.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// A record that is not the next one that the peer sent: bytes were modified, dropped, repeated or reordered.
#[derive(Debug, thiserror::Error)]
#[error(
    "a message from {peer} was modified on the way: the network, or a machine between the two, has changed, dropped or \
     repeated bytes"
)]
struct ModifiedMessage {
    peer: String,
}

/// Returns the error for a message from `peer` that was modified on the way.
pub(super) fn modified(peer: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, ModifiedMessage { peer: peer.to_owned() })
}

/// Returns whether an error, or one of its causes, says that a message was modified on the way.
///
/// ```
/// use edgecut_cluster::is_modified;
///
/// assert!(!is_modified(&std::io::Error::other("disk full")));
/// ```
pub fn is_modified(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source()).any(|error| {
        // The error inside an `io::Error` is not its source: the source is that of the error inside.
        let io_error =
            error.downcast_ref::<io::Error>().or_else(|| error.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref));
        let inner = io_error.and_then(io::Error::get_ref);
        error.is::<ModifiedMessage>() || inner.is_some_and(|inner| is_modified(inner))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modified_message_is_found_among_the_causes() {
        let error = io::Error::other(io::Error::other(modified("rank 2 at 10.0.0.3:41000")));
        assert!(is_modified(&error));
        assert!(is_modified(&Arc::new(modified("rank 2"))), "as in errors of tarpc");
        let text = error.to_string();
        assert!(text.starts_with("a message from rank 2 at 10.0.0.3:41000 was modified on the way"), "{text}");
        assert!(!is_modified(&io::Error::new(io::ErrorKind::InvalidData, "malformed")));
    }
}

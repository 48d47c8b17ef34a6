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
pub fn is_modified(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .any(|error| error.is::<ModifiedMessage>() || inner(error).is_some_and(is_modified))
}

/// Returns the error inside a wrapper whose source is not that error, but the source of it.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().map(|inner| inner as _);
    }
    if let Some(shared) = error.downcast_ref::<Arc<io::Error>>() {
        return Some(&**shared);
    }
    let shared = error.downcast_ref::<Arc<dyn Error + Send + Sync>>()?;
    Some(&**shared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modified_message_is_found_among_the_causes() {
        let error = io::Error::other(io::Error::other(modified("rank 2 at 10.0.0.3:41000")));
        assert!(is_modified(&error));
        let shared: Arc<dyn Error + Send + Sync> = Arc::new(modified("rank 2"));
        assert!(is_modified(&shared) && is_modified(&Arc::new(modified("rank 2"))), "as in errors of tarpc");
        let text = error.to_string();
        assert!(text.starts_with("a message from rank 2 at 10.0.0.3:41000 was modified on the way"), "{text}");
        assert!(!is_modified(&io::Error::new(io::ErrorKind::InvalidData, "malformed")));
    }
}

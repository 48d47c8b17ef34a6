//! Authenticated connections whose bytes are checked or encrypted, after the handshake.
//!
//! Invariant: no byte of a protected connection is used before it was verified. A large record is verified or decrypted
//! where its bytes belong, and a checked one is sent from where they are, so hot paths copy nothing more. A message
//! that was modified on the way ends the job with an error that names its sender (`cluster/tests/protection.rs`,
//! `dist-sampler/tests/protection.rs`).

mod async_stream;
mod incoming;
mod modified;
pub(crate) mod noise;
mod outgoing;
pub(crate) mod protection;
mod record;
pub(crate) mod stream;
mod timed;

pub use async_stream::AsyncSecureStream;
pub use modified::is_modified;
pub use protection::Protection;
pub use stream::SecureStream;

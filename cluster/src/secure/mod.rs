//! Authenticated connections whose bytes are checked or encrypted, after the handshake.

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

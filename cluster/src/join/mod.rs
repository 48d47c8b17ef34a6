//! The start of a job and of each connection: rendezvous, and the acceptor of incoming connections.
//!
//! [`rendezvous`] brings the ranks together. Every connection of a job is opened by [`connector`] and accepted by
//! [`acceptor`], and begins with the [`handshake`](crate::handshake), which
//! binds it to its ends and its purpose. [`dispatch`] passes an accepted connection on by its purpose.

pub(crate) mod acceptor;
pub(crate) mod connector;
pub(crate) mod dispatch;
pub(crate) mod file_limit;
pub(crate) mod messages;
pub(crate) mod pending_handshakes;
pub(crate) mod registry;
pub(crate) mod rendezvous;
pub(crate) mod strangers;

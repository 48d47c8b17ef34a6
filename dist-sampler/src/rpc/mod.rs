//! Requests between processes: their encoding, the client and the service.

pub(crate) mod connection;
pub(crate) mod dialer;
mod feature_pieces;
mod frame_reader;
mod frame_writer;
pub(crate) mod messages;
pub(crate) mod payload_memory;
pub(crate) mod peer;
pub(crate) mod peer_request;
mod received;
mod reply_sinks;
pub(crate) mod served;
pub(crate) mod server_requests;
pub(crate) mod service;
pub(crate) mod silence;
mod split_hop;
pub(crate) mod traffic;
pub(crate) mod transport;

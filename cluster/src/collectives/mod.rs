//! Collectives of a process group, over TCP connections of its own and on the calling thread.
//!
//! A group ([`group`]) owns the connections of a rank ([`ring_connection`]). Plans without sockets say which bytes move
//! when: [`ring`] and [`transfer_plan`] for large data, [`doubling`] for small data. [`transfer`] and
//! [`doubling_transfer`] execute them.

pub(crate) mod all_reduce;
pub mod doubling;
pub(crate) mod doubling_exchange;
pub(crate) mod doubling_transfer;
pub(crate) mod group;
pub(crate) mod header;
pub(crate) mod header_exchange;
pub(crate) mod reduce;
pub mod ring;
pub(crate) mod ring_connection;
pub(crate) mod transfer;
pub(crate) mod transfer_plan;

//! Servers that hold the parts for clients on other machines, and the clients' side.

pub(crate) mod client;
pub(crate) mod description;
pub(crate) mod requests;
pub(crate) mod sampled;
pub(crate) mod seed_edges;
pub(crate) mod server;
pub(crate) mod server_list;
pub(crate) mod split_nodes;

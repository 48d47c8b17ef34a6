//! Servers that hold the parts for clients on other machines, and the clients' side.
//!
//! A client is a rank with an empty part after all others (`Part::without_nodes`), so samplers, loaders and caches work
//! on it unchanged. It makes the same batches as a rank that holds a part (`dist-loader/tests/server_client.rs`).
//!
//! Invariant: servers keep no state of clients. A request for a batch contains the settings of the sampler, the seeds
//! and the key, and the end of a client's connection cancels its requests. Servers are in no job. Each dials the others
//! when it needs them, so a server can end and start again while the others run (`server/tests/processes.rs`). A
//! connection names the data that the client expects, so a server that was restarted with other data is refused. Each
//! client has a bounded number of batches in progress, and the batches of all clients share the sampling threads.

pub(crate) mod client;
pub(crate) mod description;
pub(crate) mod server;

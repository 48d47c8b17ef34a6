//! Membership and communication of the processes of a job: rendezvous, authenticated streams, collectives.
//!
//! Every process of a job calls [`Cluster::join`] with its rank. Rank 0 listens on the master address. The other ranks
//! register there and receive the roster: one listening address per rank. After that:
//!
//! * the *control plane* (one connection from each rank to rank 0, one thread per process) carries heartbeats and
//!   failure reports, so that every process ends within seconds and names the rank that failed first;
//! * ranks that exchange data have a *pulse* as well, a connection that carries heartbeats alone, so that a network
//!   which drops the packets between two ranks ends the job within seconds, with an error that names both;
//! * a [`ProcessGroup`] runs collectives over TCP connections of its own, synchronously, on the calling thread: no
//!   async runtime is needed. Little data takes recursive doubling ([`doubling`]), much data a ring ([`ring`]);
//! * [`spawn`] starts a job of several processes on one machine, without a launcher;
//! * [`Cluster::connect_rpc`] and [`Cluster::take_rpc_incoming`] hand out authenticated streams for other protocols.
//!
//! # Invariants
//! * A process listens on one port, for all connections of its job. Every connection starts with the same handshake.
//! * Nothing of variable length is read from a peer before it has proved that it knows the shared secret.
//! * A process that listens proves the secret before those that connect to it do.
//! * Every connection is bound to its job, the two processes at its ends and its purpose. Both ends refuse one that the
//!   network has led to another process.
//! * Without a secret, only loopback addresses are listened on, connected to and accepted, and only processes of one
//!   user take part.
//! * Every wait has a deadline, every queue and every frame a bound; each is a field of [`ClusterConfig`] or a named
//!   constant.
//! * All ranks of a group call the same collectives in the same order; a header before each one checks that.
//! * After a collective the result has the same bits on every rank.
//!
//! * On connections that are checked or encrypted ([`Protection`]), no byte is delivered before it was verified.
//!
//! Without encryption, the secret authenticates the start of a connection only. [`Protection::Checked`] protects from
//! accidents: it detects faults of the network, not an attacker. Only [`Protection::Encrypted`] defends against an attacker
//! who can read or modify the traffic between the nodes.
//!
//! # Example
//! ```
//! use edgecut_cluster::{Cluster, ReduceOp};
//!
//! // Three ranks as threads of this process. Real jobs call `Cluster::join` once in each process.
//! let ranks = Cluster::join_local(3, |config| config.fingerprint = "karate in 3 parts".into())?;
//! let workers: Vec<_> = ranks
//!     .into_iter()
//!     .map(|cluster| {
//!         std::thread::spawn(move || {
//!             let mut world = cluster.world()?;
//!             let mut losses = [cluster.rank() as f32, 1.0];
//!             world.all_reduce(&mut losses, ReduceOp::Mean)?;
//!             assert_eq!(losses, [1.0, 1.0]);
//!             cluster.shutdown()
//!         })
//!     })
//!     .collect();
//! for worker in workers {
//!     worker.join().expect("no rank panics")?;
//! }
//! # Ok::<(), edgecut_cluster::ClusterError>(())
//! ```
#![deny(clippy::print_stdout, clippy::print_stderr)]

// Collectives send numbers in their memory representation.
#[cfg(target_endian = "big")]
compile_error!("edgecut-cluster sends numbers in little-endian order and is not ported to big-endian hosts");

mod address;
mod cluster;
mod collectives;
mod config;
mod env;
mod error;
mod failure;
mod frames;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod io_error;
mod ip_config;
mod join;
mod locks;
mod part_layout;
mod processes;
mod readiness;
mod say;
mod secure;
mod service;
mod stopwatch;
mod timeouts;
mod token;

pub use cluster::Cluster;
pub use collectives::all_reduce::AllReduceCost;
pub use collectives::group::{MAX_GATHER_BYTES, ProcessGroup};
pub use collectives::reduce::{Reduce, ReduceOp};
pub use collectives::{doubling, ring};
pub use config::{ClusterConfig, DEFAULT_MASTER_PORT};
pub use env::{Attempt, EnvRanks, Launcher, address_of_interface, gloo_listen_addr, node_addresses};
pub use error::{ClusterError, Failure, with_causes};
pub use failure::blame::{Blame, OTHER_RANK_FAILED};
pub use failure::panics::panic_text;
pub use failure::verdict::Verdict;
pub use ip_config::{IpConfig, IpConfigError, NodeAddress, NodeRole};
pub use part_layout::PartLayout;
pub use processes::end_with_parent::{SPAWNED, end_with_parent};
pub use processes::interrupts::on_interrupt;
pub use processes::local_ranks::{LocalRanks, RanksEnd, free_port, share_of_cores};
pub use processes::rank_errors::report_to_parent;
pub use processes::spawn::spawn;
pub use processes::termination::{DeferredTermination, STATE_STORED, Termination};
pub use say::say;
pub use secure::{AsyncSecureStream, Protection, SecureStream, is_modified};
pub use service::{DEFAULT_SERVER_PORT, ServiceAddress, ServiceCaller, ServiceConfig, ServiceListener, ServiceTarget};
pub use token::Token;

//! The plan of a cluster: a prediction of the time, the traffic and the memory of a training on other numbers of nodes, from
//! a [profile](BatchProfile) of a few batches.
//!
//! Let a job of `K` ranks be measured. Per rank and batch, `p` is the CPU time of making a batch and of serving batches of
//! other ranks, `s` the CPU time of a step, `a(K)` the CPU time of the all-reduce, `F` the bytes of requests and replies,
//! `R` the feature rows of other parts, and `r` the rounds of requests that follow each other. A request takes `q` of CPU
//! time on both of its ends together, and a row of another part `g` more than a row of the own part.
//!
//! On `N` nodes, each with one rank and `C` cores, on links of `B` bytes per second and a delay of `d`:
//!
//! * *Rows of other parts*: `R(N) = R * (1 - 1/N) / (1 - 1/K)`. A neighbor lies in another part with a probability that
//!   grows with the number of parts as it does for nodes that are assigned at random, times a constant: it is near to the
//!   node with some probability, and otherwise anywhere. On graphs of communities the cuts of METIS follow this (the guide
//!   lists them). `F(N)` grows in the same way.
//! * *CPU*: `p(N) = p + g * (R(N) - R) + q * r * (N - K)`, since a round sends a request to each other rank. Cores are never
//!   idle while there is work, so a batch takes at least `(p(N) + s + a(N)) / C`.
//! * *Steps* follow each other: `s / C` and the all-reduce, which waits for `m` messages one after the other and receives
//!   `G` bytes ([`AllReduceCost`](edgecut_cluster::AllReduceCost)): `m * (d + o) + w * G / B`. `o` is the time in which
//!   the software handles a message, and `w` the headers of frames.
//! * *Network*: `w * (F(N) + G) / B`, in each direction.
//! * *Batches ahead*: a batch takes at least `p(N)` on one core, `2 * r * (d + o)` and `w * F(N) / B`. With `A` batches in
//!   progress, one is ready in each `A`-th part of this time.
//!
//! The time of a batch is the largest of these four bounds, which the first step adds to the time of its batch. The bounds are
//! the asymptotic bounds of a closed queueing network (P. J. Denning and J. P. Buzen, "The operational analysis of queueing
//! network models", 1978).

mod cluster_shape;
mod exchange_costs;
mod prediction;
mod profile;
mod profile_meter;

pub use cluster_shape::ClusterShape;
pub use prediction::{Bound, Prediction};
pub use profile::BatchProfile;
pub(crate) use profile_meter::ProfileMeter;

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
//! * *Rows of other parts*: Let `c` be the fraction of neighbors that are in another part, and `x` the fraction of rows that
//!   come from there. The odds `x / (1 - x)` are `c / (1 - c)` times a constant, which the profile tells: a batch reads the
//!   ends of cut edges more often than others, as often for all partitionings. `c(N)` is in the metadata of the parts if the
//!   graph is also partitioned into `N` of them. Otherwise `c(N) = c(K) * (1 - 1/N) / (1 - 1/K)`: a neighbor is near to the
//!   node with some probability, and otherwise anywhere. The cuts of graphs with communities by METIS follow this (the guide
//!   lists them). `F` grows as the rows do.
//! * *CPU*: `p(N) = p + g * (R(N) - R) + q * (Q(N) - Q(K))`, where `Q` are the requests: a round
//!   sends at least one to each other rank, and large replies come in pieces. The cores take
//!   `(p(N) + s + a(N)) / C` for a batch and its step.
//! * *Network*: `w * (F(N) + G) / B` in each direction, where `G` are the bytes of the all-reduce
//!   ([`AllReduceCost`](edgecut_cluster::AllReduceCost)) and `w` adds the headers of frames.
//! * *Delays*: `2 * r * (d + o)` for the rounds of a batch, where `o` is the time in which the software handles a message, and
//!   `p(N) * (C - 1) / C`, since a batch is made on one core.
//! * *Steps* follow each other: `s / C` and the all-reduce, which waits for `m` messages one after the other: `m * (d + o) + w
//!   * G / B`.
//!
//! A rank makes `A` batches at the same time, while another one waits for its step. They share the cores and the link. The time
//! of a batch is the time between two batches that leave a closed queueing network with `A + 1` customers, two queues and the
//! delays, by mean value analysis (M. Reiser and S. S. Lavenberg, "Mean-value analysis of closed multichain queuing networks",
//! 1980; the cores as in A. Seidmann, P. J. Schweitzer and S. Shalev-Oren, "Computerized closed queueing network models of
//! flexible manufacturing systems", 1987), and at least the time of a step. The first batch of an epoch takes the time of all of
//! its parts.
//!
//! Not counted: rows that several batches need at the same time and that are fetched once, evaluations and checkpoints, and
//! ranks that are slower than others.

mod cluster_shape;
mod exchange_costs;
mod prediction;
mod profile;
mod profile_meter;
mod queueing;

pub use cluster_shape::ClusterShape;
pub use prediction::{Bound, Prediction, RowsBasis};
pub use profile::BatchProfile;
pub(crate) use profile_meter::ProfileMeter;

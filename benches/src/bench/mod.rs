//! The benchmarks, one per file.

pub(crate) mod aggregation;
pub(crate) mod all;
pub(crate) mod all_reduce;
pub(crate) mod cache;
pub(crate) mod csv;
pub(crate) mod epoch;
pub(crate) mod gather;
pub(crate) mod gather_ranks;
pub(crate) mod graphs;
pub(crate) mod limits;
pub(crate) mod linear;
pub(crate) mod many_ranks;
pub(crate) mod partition;
pub(crate) mod protection;
pub(crate) mod rpc;
pub(crate) mod sampling;
pub(crate) mod startup;
pub(crate) mod step;
pub(crate) mod tables;

//! The seeds of an epoch, their order, and the seeds that are left after an interruption.

pub(crate) mod edge_ends;
pub(crate) mod edge_seeds;
pub(crate) mod epoch_segment;
pub(crate) mod node_clusters;
pub(crate) mod rest_of_epoch;
pub(crate) mod seed_plan;

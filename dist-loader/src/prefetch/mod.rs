//! Batches made ahead of the consumer, within limits of memory and number.

pub(crate) mod batch_iter;
pub(crate) mod loader_threads;
pub(crate) mod look_ahead;
pub(crate) mod prefetch_budget;
pub(crate) mod prefetching_loader;
pub(crate) mod seed_loader;

//! Batches of sampled neighborhoods as plain arrays, and the rows that they get from caches.

pub(crate) mod cached_rows;
pub(crate) mod collate;
pub(crate) mod mini_batch;

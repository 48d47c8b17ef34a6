//! Bounds of requests.

/// The number of requests in flight.
pub(crate) const REQUESTS: usize = 16;
/// The bytes that a request reads. With [`REQUESTS`], this bounds the memory of a download.
pub(crate) const RANGE_BYTES: u64 = 8 << 20;
/// The bytes that a request writes. Larger files are uploaded in blocks of this size, or of a size at which
/// [`MOST_BLOCKS`] suffice. With [`UPLOADS`], this bounds the memory of an upload.
pub(crate) const BLOCK_BYTES: u64 = 16 << 20;
/// The number of blocks or small files in flight.
pub(crate) const UPLOADS: usize = 8;
/// The most blocks of an object, which S3 limits to 10,000.
pub(crate) const MOST_BLOCKS: u64 = 9_000;
/// Retries of a request that fails by a fault of the network or the server, with growing pauses.
pub(crate) const MAX_RETRIES: usize = 5;

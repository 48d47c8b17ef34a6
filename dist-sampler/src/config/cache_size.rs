//! The size of a cache of features.

/// The size of the cache of features of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// The most bytes of rows.
    Bytes(u64),
    /// The most bytes of rows, as a fraction of those that other parts own.
    Ratio(f64),
}

impl CacheSize {
    /// Returns the limit in bytes if other parts own rows of `remote_bytes` bytes.
    pub fn bytes(self, remote_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Ratio(ratio) => (remote_bytes as f64 * ratio) as u64,
        }
    }
}

//! Sizes and checksums of files.

use serde::{Deserialize, Serialize};

/// The size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// The size in bytes.
    pub bytes: u64,
    /// The XXH3-64 checksum of the whole file, as 16 hexadecimal digits.
    pub xxh3: String,
}

/// Returns the XXH3-64 checksum of `bytes`, in the form of [`FileMeta::xxh3`].
pub fn checksum(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

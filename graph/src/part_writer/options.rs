//! The options for writing parts.

use crate::part::Provenance;

/// The options for writing parts.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The number of parts.
    pub num_parts: u32,
    /// The provenance to record in `META.json`.
    pub provenance: Provenance,
    /// True to sync all files to disk, so that they survive a crash of the machine.
    pub is_synced: bool,
}

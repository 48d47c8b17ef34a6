//! Saved models, read once for all ranks.

use anyhow::Context;
use edgecut_cluster::ProcessGroup;
use std::path::Path;

/// The bytes of a file that rank 0 reads for all, so that all have the same.
pub(crate) fn read_on_rank_0(path: &Path, world: &mut ProcessGroup) -> anyhow::Result<Vec<u8>> {
    let mut bytes = match world.rank() {
        0 => std::fs::read(path).with_context(|| format!("read model {}", path.display()))?,
        _ => Vec::new(),
    };
    world.broadcast_bytes(&mut bytes, 0)?;
    Ok(bytes)
}

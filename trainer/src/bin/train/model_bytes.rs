//! Saved models, read once for all ranks.

use edgecut_cluster::ProcessGroup;
use edgecut_trainer::model_file::read_network;
use std::path::Path;

/// The network of a model file, which rank 0 reads for all, so that all have the same. Embeddings stay in their files.
pub(crate) fn read_on_rank_0(path: &Path, world: &mut ProcessGroup) -> anyhow::Result<Vec<u8>> {
    let mut bytes = match world.rank() {
        0 => read_network(path)?,
        _ => Vec::new(),
    };
    world.broadcast_bytes(&mut bytes, 0)?;
    Ok(bytes)
}

//! Reading of saved models, once for all ranks.

use edgecut_cluster::ProcessGroup;
use edgecut_trainer::model_file::read_network;
use std::path::Path;

/// Reads the network of a model file on rank 0 and broadcasts it, so that all ranks have the same one. Embeddings stay
/// in their files.
pub(crate) fn read_on_rank_0(path: &Path, world: &mut ProcessGroup) -> anyhow::Result<Vec<u8>> {
    let mut bytes = match world.rank() {
        0 => read_network(path)?,
        _ => Vec::new(),
    };
    world.broadcast_bytes(&mut bytes, 0)?;
    Ok(bytes)
}

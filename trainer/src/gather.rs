//! Gathering more than one message holds.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// Bytes that all ranks together gather at once.
const BYTES_AT_ONCE: usize = 32 << 20;

/// The bytes of every rank, by rank, on all ranks; in pieces, so that there is no limit but memory.
///
/// # Errors
/// A failure of the job.
pub(crate) fn all_gather_large(world: &mut ProcessGroup, mine: &[u8]) -> Result<Vec<Vec<u8>>, ClusterError> {
    let piece = (BYTES_AT_ONCE / world.size()).max(1);
    let mut rounds = [mine.len().div_ceil(piece) as u64];
    world.all_reduce(&mut rounds, ReduceOp::Max)?;
    let mut all = vec![Vec::new(); world.size()];
    for round in 0..rounds[0] as usize {
        let start = (round * piece).min(mine.len());
        let end = (start + piece).min(mine.len());
        for (all, piece) in all.iter_mut().zip(world.all_gather(&mine[start..end])?) {
            all.extend(piece);
        }
    }
    Ok(all)
}

//! An all-gather of data that exceeds the size of a message.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// The bytes that all ranks together gather in one round.
const BYTES_AT_ONCE: usize = 32 << 20;

/// Returns the bytes of every rank, by rank, on all ranks. Gathers in rounds, so that only memory limits the size.
///
/// # Errors
/// A failure of the job.
pub(crate) fn all_gather_large(world: &mut ProcessGroup, mine: &[u8]) -> Result<Vec<Vec<u8>>, ClusterError> {
    let piece = (BYTES_AT_ONCE / world.size()).max(1);
    // Ranks may have different amounts of data. All ranks take part in as many rounds as the largest one needs.
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

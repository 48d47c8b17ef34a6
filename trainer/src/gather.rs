//! An all-gather of data that exceeds the size of a message.

use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};

/// The bytes that all ranks together gather in one round.
const BYTES_AT_ONCE: usize = 32 << 20;

/// Returns the bytes of every rank, by rank, on all ranks. Gathers in rounds, so that only memory limits the size.
///
/// # Errors
/// A failure of the job.
pub(crate) fn all_gather_large(world: &mut ProcessGroup, mine: &[u8]) -> Result<Vec<Vec<u8>>, ClusterError> {
    let mut all = vec![Vec::new(); world.size()];
    for_each_round(world, mine, 1, |rank, piece| all[rank].extend_from_slice(piece))?;
    Ok(all)
}

/// Calls `visit` with the bytes of all ranks, in pieces of whole records of `record` bytes. Only one round is in memory.
///
/// # Errors
/// A failure of the job.
pub(crate) fn all_gather_records(
    world: &mut ProcessGroup,
    mine: &[u8],
    record: usize,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), ClusterError> {
    for_each_round(world, mine, record, |_, piece| visit(piece))
}

/// Calls `visit` with the rank and the bytes of each piece.
fn for_each_round(
    world: &mut ProcessGroup,
    mine: &[u8],
    record: usize,
    mut visit: impl FnMut(usize, &[u8]),
) -> Result<(), ClusterError> {
    let piece = (BYTES_AT_ONCE / world.size() / record).max(1) * record;
    // Ranks may have different amounts of data. All ranks take part in as many rounds as the largest one needs.
    let mut rounds = [mine.len().div_ceil(piece) as u64];
    world.all_reduce(&mut rounds, ReduceOp::Max)?;
    for round in 0..rounds[0] as usize {
        let start = (round * piece).min(mine.len());
        let end = (start + piece).min(mine.len());
        for (rank, piece) in world.all_gather(&mine[start..end])?.iter().enumerate() {
            visit(rank, piece);
        }
    }
    Ok(())
}

//! The plan of a ring all-reduce: the chunks that each rank sends and receives in each step, computed without sockets.
//!
//! A vector is cut into as many chunks as there are ranks. In the first `world - 1` steps (reduce-scatter) each rank
//! adds the chunk from its left neighbor to its own copy of that chunk, so every chunk collects the contributions of
//! all ranks on its way round. In the next `world - 1` steps (all-gather) the finished chunks go round once more. Each
//! rank sends and receives `2 (world - 1) / world` of the vector, which is optimal (P. Patarasuk and X. Yuan,
//! "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
//!
//! The socket code relies on two properties:
//! * *Relay*: each step sends the chunk that the previous step received. A rank may send its first chunk at once, and
//!   after that any byte as soon as it has received and reduced it: the steps need no boundaries on the wire.
//! * *One order*: each chunk is reduced along one path and then copied, so all ranks end with the same bits.

use std::ops::Range;

/// The action on a received chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Combine it with this rank's chunk.
    Reduce,
    /// Combine it with this rank's chunk, which is then complete: all ranks have contributed.
    ReduceLast,
    /// Replace this rank's chunk by it.
    Replace,
}

/// One step of one rank: send a chunk to the right neighbor, receive one from the left, at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The chunk to send.
    pub send_chunk: usize,
    /// The chunk to receive.
    pub recv_chunk: usize,
    /// The action on the received chunk.
    pub action: Action,
}

/// Returns the steps of `rank` in an all-reduce over `world` ranks; none for a world of one.
pub fn plan(rank: usize, world: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for step in 0..2 * world.saturating_sub(1) {
        let action = match (step + 2).cmp(&world) {
            std::cmp::Ordering::Less => Action::Reduce,
            std::cmp::Ordering::Equal => Action::ReduceLast,
            std::cmp::Ordering::Greater => Action::Replace,
        };
        steps.push(Step::new(rank, world, step, action));
    }
    steps
}

/// Returns the steps of `rank` in an all-gather of one block per rank. These are the steps of the second half of an
/// all-reduce, except that each rank starts by sending its own block.
pub fn gather_plan(rank: usize, world: usize) -> Vec<Step> {
    (0..world.saturating_sub(1)).map(|step| Step::new(rank, world, step, Action::Replace)).collect()
}

impl Step {
    fn new(rank: usize, world: usize, step: usize, action: Action) -> Self {
        // 2 * world keeps the differences from going below zero.
        let send_chunk = (rank + 2 * world - step) % world;
        Self { send_chunk, recv_chunk: (send_chunk + world - 1) % world, action }
    }
}

/// Returns the range of chunk `chunk` when `len` elements are cut into `chunks` chunks whose sizes differ by at most
/// one. The range is empty if `chunks` is 0.
pub(crate) fn chunk_range(len: usize, chunks: usize, chunk: usize) -> Range<usize> {
    if chunks == 0 {
        return 0..0;
    }
    let base = len / chunks;
    // The first `longer` chunks have one element more.
    let longer = len % chunks;
    let start = chunk * base + chunk.min(longer);
    start..start + base + usize::from(chunk < longer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs the plans of all ranks in lock step, on integers, whose sums are exact.
    fn simulate(mut data: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
        let world = data.len();
        let len = data[0].len();
        let plans: Vec<_> = (0..world).map(|rank| plan(rank, world)).collect();
        for step in 0..plans[0].len() {
            let sent: Vec<Vec<u64>> = (0..world)
                .map(|rank| data[rank][chunk_range(len, world, plans[rank][step].send_chunk)].to_vec())
                .collect();
            for rank in 0..world {
                let left = (rank + world - 1) % world;
                let Step { recv_chunk, action, .. } = plans[rank][step];
                assert_eq!(recv_chunk, plans[left][step].send_chunk, "both sides mean the same chunk");
                let own = &mut data[rank][chunk_range(len, world, recv_chunk)];
                for (own, received) in own.iter_mut().zip(&sent[left]) {
                    *own = if action == Action::Replace { *received } else { *own + received };
                }
            }
        }
        data
    }

    #[test]
    fn the_plan_sums_for_every_world_size() {
        for world in 1..=16 {
            for len in [0, 1, 7, world, 5 * world + 3] {
                let data: Vec<Vec<u64>> =
                    (0..world).map(|rank| (0..len).map(|i| (rank * 1000 + i) as u64).collect()).collect();
                let sum: Vec<u64> = (0..len).map(|i| data.iter().map(|row| row[i]).sum()).collect();
                assert_eq!(simulate(data), vec![sum; world], "world {world}, length {len}");
            }
        }
    }

    #[test]
    fn each_step_sends_what_the_last_one_received() {
        for world in 2..=16 {
            for rank in 0..world {
                for steps in [plan(rank, world), gather_plan(rank, world)] {
                    assert!(steps.windows(2).all(|pair| pair[1].send_chunk == pair[0].recv_chunk));
                    assert_eq!(steps[0].send_chunk, rank);
                }
                let last = plan(rank, world).iter().filter(|step| step.action == Action::ReduceLast).count();
                assert_eq!(last, 1, "each rank completes one chunk");
            }
        }
    }

    #[test]
    fn a_gather_brings_every_block_to_every_rank() {
        for world in 1..=16 {
            for rank in 0..world {
                let mut seen: Vec<_> = gather_plan(rank, world).iter().map(|step| step.recv_chunk).collect();
                seen.push(rank);
                seen.sort_unstable();
                assert_eq!(seen, (0..world).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_chunks_hold_nothing() {
        assert_eq!(chunk_range(7, 0, 0), 0..0);
    }

    proptest! {
        #[test]
        fn chunks_cover_a_vector_without_gaps(len in 0_usize..1000, chunks in 1_usize..20) {
            let mut end = 0;
            for chunk in 0..chunks {
                let range = chunk_range(len, chunks, chunk);
                prop_assert_eq!(range.start, end);
                prop_assert!(range.len().abs_diff(len / chunks) <= 1);
                end = range.end;
            }
            prop_assert_eq!(end, len);
        }
    }
}

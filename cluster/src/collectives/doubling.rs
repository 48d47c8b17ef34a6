//! The plan of recursive doubling: the peer and the contributions of each rank in each step, computed without sockets.
//!
//! In each step two ranks exchange everything that they hold, which doubles the number of contributions that they hold.
//! After `log2(world)` steps each rank holds all contributions (R. Thakur, R. Rabenseifner and W. Gropp, "Optimization
//! of collective communication operations in MPICH", 2005). A ring needs `2 (world - 1)` steps, but each step of
//! recursive doubling carries the whole vector. So large vectors take the ring; [`pays`] decides.
//!
//! If `world` is not a power of two, let `p` be the largest power of two below it. Then `world - p` ranks first send
//! their contribution to their right neighbor, and receive the result from it at the end.
//!
//! The socket code relies on two properties:
//! * *Neighboring blocks*: at any time a rank holds the contributions of consecutive ranks, and it receives those of
//!   the ranks directly below or above them.
//! * *One order*: the two ranks of a step combine the same two vectors, that of the lower ranks first. So all ranks end
//!   with the same bits.

use std::ops::Range;

/// The largest vector for recursive doubling, which needs a copy of the whole vector.
const MAX_BYTES: usize = 4 << 20;
/// The product of latency and bandwidth: the bytes that a connection moves in the time of an empty message (50 µs at
/// 1.25 GB/s).
const LATENCY_BYTES: usize = 64 << 10;

/// One step of one rank: send to a peer, receive from it, or both at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The rank at the other end.
    pub peer: usize,
    /// The ranks whose contributions are sent; empty if nothing is sent.
    pub sends: Range<usize>,
    /// The ranks whose contributions are received; empty if nothing is received, all ranks if the result is received.
    pub receives: Range<usize>,
}

impl Step {
    /// Returns whether this step combines the last missing contributions, so that this rank then has the result.
    pub(crate) fn completes(&self, world: usize) -> bool {
        self.sends.len() + self.receives.len() == world && !self.receives.is_empty() && !self.sends.is_empty()
    }

    /// Returns whether the received data is the result, which replaces this rank's data instead of being combined with
    /// it.
    pub(crate) fn replaces(&self, world: usize) -> bool {
        self.receives.len() == world
    }
}

/// Returns the steps of `rank` among `world` ranks; none for a world of one.
pub fn plan(rank: usize, world: usize) -> Vec<Step> {
    if world < 2 {
        return Vec::new();
    }
    let core = Core::of(world);
    let own = rank..rank + 1;
    if rank < 2 * core.extra && rank.is_multiple_of(2) {
        // The right neighbor takes part in the exchanges on behalf of this rank.
        let hand_over = Step { peer: rank + 1, sends: own, receives: 0..0 };
        return vec![hand_over, Step { peer: rank + 1, sends: 0..0, receives: 0..world }];
    }
    let stands_in = rank < 2 * core.extra;
    let mut steps = Vec::new();
    if stands_in {
        steps.push(Step { peer: rank - 1, sends: 0..0, receives: rank - 1..rank });
    }
    let place = core.place_of(rank);
    for bit in (0..core.size.ilog2()).map(|exponent| 1 << exponent) {
        let peer = place ^ bit;
        let sends = core.ranks_before(place, bit);
        steps.push(Step { peer: core.rank_at(peer), sends, receives: core.ranks_before(peer, bit) });
    }
    if stands_in {
        steps.push(Step { peer: rank - 1, sends: 0..world, receives: 0..0 });
    }
    steps
}

/// Returns the number of sequential messages in the plans of `world` ranks.
pub fn hops(world: usize) -> usize {
    if world < 2 {
        return 0;
    }
    let core = Core::of(world);
    core.size.ilog2() as usize + if core.extra > 0 { 2 } else { 0 }
}

/// The smallest number of ranks for recursive doubling. Two or three ranks are all neighbors in a ring, where each
/// receives the vectors of all others in one or two messages.
pub const MIN_WORLD: usize = 4;

/// Returns whether recursive doubling is expected to reduce a vector of `bytes` bytes faster than the ring.
///
/// With `s` steps, it takes `s` times the latency and moves `s` vectors. The ring takes `2 (world - 1)` times the
/// latency and moves `2 (world - 1) / world` vectors. The cost of moving data by recursive doubling is increased by a
/// quarter, because it reduces a vector only after it has received all of it, while the ring does both at the same
/// time.
pub fn pays(bytes: usize, world: usize) -> bool {
    let steps = hops(world);
    let ring_steps = 2 * world.saturating_sub(1);
    if bytes > MAX_BYTES || world < MIN_WORLD {
        return false;
    }
    // Compare (1.25 * steps - ring_steps / world) * bytes with (ring_steps - steps) * LATENCY_BYTES. Both sides are
    // multiplied by 4 * world to stay in integers.
    let more_bytes = (bytes as u128) * (5 * steps * world).saturating_sub(8 * (world - 1)) as u128;
    let fewer_steps = 4 * world * (ring_steps - steps);
    more_bytes <= (LATENCY_BYTES as u128) * fewer_steps as u128
}

/// The ranks that take part in the exchanges, numbered by places. Their number is a power of two.
///
/// Example: of 6 ranks, the ranks 1, 3, 4 and 5 have the places 0 to 3, and the ranks 0 and 2 have none.
struct Core {
    // The number of places.
    size: usize,
    // The number of ranks without a place: the even ranks below `2 * extra`. The odd ranks next to them, which have the
    // first `extra` places, take part on their behalf.
    extra: usize,
}

impl Core {
    fn of(world: usize) -> Self {
        let size = 1 << world.ilog2();
        Self { size, extra: world - size }
    }

    fn place_of(&self, rank: usize) -> usize {
        if rank < 2 * self.extra { rank / 2 } else { rank - self.extra }
    }

    fn rank_at(&self, place: usize) -> usize {
        if place < self.extra { 2 * place + 1 } else { place + self.extra }
    }

    /// Returns the ranks whose contributions the rank at `place` holds before its step with `place ^ bit`: those of the
    /// `bit` places that differ from its own in lower bits only.
    fn ranks_before(&self, place: usize, bit: usize) -> Range<usize> {
        let first = place & !(bit - 1);
        self.first_rank(first)..self.first_rank(first + bit)
    }

    /// Returns the lowest rank whose contribution the rank at `place` holds before the first exchange.
    fn first_rank(&self, place: usize) -> usize {
        if place < self.extra { 2 * place } else { place + self.extra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contributions that a rank holds.
    #[derive(Clone, Debug, PartialEq)]
    struct Held {
        ranks: Range<usize>,
        // The order in which they were combined, as a formula.
        sum: String,
    }

    /// Runs the plans of all ranks. Messages between two ranks arrive in the order of the sender's steps.
    fn run(world: usize) -> Vec<Held> {
        let plans: Vec<_> = (0..world).map(|rank| plan(rank, world)).collect();
        let mut held: Vec<_> = (0..world).map(|rank| Held { ranks: rank..rank + 1, sum: rank.to_string() }).collect();
        let mut next = vec![0; world];
        let mut sent = vec![0; world];
        let mut messages: Vec<(usize, usize, Held)> = Vec::new();
        loop {
            let mut moved = false;
            for rank in 0..world {
                let Some(step) = plans[rank].get(next[rank]) else { continue };
                if sent[rank] == next[rank] {
                    sent[rank] += 1;
                    moved = true;
                    if !step.sends.is_empty() {
                        assert_eq!(held[rank].ranks, step.sends, "rank {rank} of {world} sends all that it has");
                        messages.push((rank, step.peer, held[rank].clone()));
                    }
                }
                if !step.receives.is_empty() {
                    let from_peer = |message: &(usize, usize, Held)| message.0 == step.peer && message.1 == rank;
                    let Some(index) = messages.iter().position(from_peer) else { continue };
                    let received = messages.remove(index).2;
                    assert_eq!(received.ranks, step.receives, "rank {rank} of {world}");
                    held[rank] = if step.replaces(world) { received } else { combined(&held[rank], &received) };
                    let is_complete = held[rank].ranks == (0..world);
                    assert_eq!(is_complete, step.completes(world) || step.replaces(world));
                }
                next[rank] += 1;
                moved = true;
            }
            if !moved {
                break;
            }
        }
        assert!(messages.is_empty(), "{world} ranks: a message was not taken");
        assert!((0..world).all(|rank| next[rank] == plans[rank].len()), "{world} ranks: stuck");
        held
    }

    fn combined(own: &Held, received: &Held) -> Held {
        let (low, high) = if received.ranks.start < own.ranks.start { (received, own) } else { (own, received) };
        assert_eq!(low.ranks.end, high.ranks.start, "the blocks are neighbors");
        Held { ranks: low.ranks.start..high.ranks.end, sum: format!("({}+{})", low.sum, high.sum) }
    }

    #[test]
    fn all_ranks_end_with_the_same_sum_of_all_in_any_world() {
        for world in 1..=64 {
            let held = run(world);
            assert!(held.iter().all(|held| held.ranks == (0..world)), "{world} ranks");
            assert!(held.windows(2).all(|pair| pair[0] == pair[1]), "{world} ranks add up in different orders");
        }
    }

    #[test]
    fn the_hops_grow_with_the_logarithm() {
        for (world, expected) in [(1, 0), (2, 1), (3, 3), (4, 2), (5, 4), (8, 3), (63, 7), (64, 6), (65, 8)] {
            assert_eq!(hops(world), expected, "{world} ranks");
            let longest = (0..world).map(|rank| plan(rank, world).len()).max();
            assert_eq!(longest, Some(expected), "{world} ranks");
        }
    }

    #[test]
    fn little_data_takes_recursive_doubling_and_much_takes_the_ring() {
        for world in MIN_WORLD..=64 {
            assert!(pays(0, world) && pays(64, world) && pays(8 << 10, world), "{world} ranks");
            assert!(!pays(MAX_BYTES + 1, world), "{world} ranks");
        }
        assert!(pays(1 << 20, 64) && !pays(1 << 20, 4));
        assert!((0..MIN_WORLD).all(|world| !pays(64, world)));
    }
}

//! The transfers of one rank in one collective, as positions in its buffer, computed without sockets.

use std::ops::Range;

use crate::collectives::ring::{Action, Step};

/// The ranges that one rank receives from its left neighbor, and those that it sends to its right neighbor, in order.
#[derive(Debug, Default)]
pub(crate) struct TransferPlan {
    pub(crate) incoming: Vec<Incoming>,
    pub(crate) outgoing: Vec<Outgoing>,
}

/// The destination of incoming bytes.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) range: Range<usize>,
    pub(crate) action: Action,
}

/// The source of outgoing bytes.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) range: Range<usize>,
    /// The relay rule. `Some(n)`: this range forwards the incoming bytes from number `n` on, so its byte `i` may be
    /// sent once `n + i + 1` incoming bytes have been processed. `None`: the range holds this rank's own data and may
    /// be sent at once.
    pub(crate) relays: Option<usize>,
}

impl TransferPlan {
    /// Builds the transfers of the steps of a ring plan. Chunk `index` is the range `chunk(index)` of the buffer, in
    /// bytes.
    pub(crate) fn of_steps(steps: &[Step], chunk: impl Fn(usize) -> Range<usize>) -> Self {
        Self::of_blocks(steps, 1, |_, index| chunk(index))
    }

    /// Builds the transfers of a ring plan that runs on each of `blocks` blocks. Chunk `index` of a block is the range
    /// `chunk(block, index)` of the buffer, in bytes.
    ///
    /// The steps of the blocks are interleaved as in a pipeline: when a block takes its second step, one or two later
    /// blocks have taken their first. So there is data to send while a step waits for the data that it forwards, and
    /// received data is still in the cache when it is forwarded.
    pub(crate) fn of_blocks(steps: &[Step], blocks: usize, chunk: impl Fn(usize, usize) -> Range<usize>) -> Self {
        // A turn sends one chunk per step. With two steps or fewer, a single turn between a block's steps is too little
        // data to cover the round trip of a fast network, so there are two.
        let lag = if steps.len() <= 2 { 2 } else { 1 };
        let mut plan = Self::default();
        let mut position = 0;
        // By block: the number of incoming bytes before those of the block's previous step; `None` before its first
        // step.
        let mut arrived = vec![None; blocks];
        // In turn `t`, step `i` of the plan runs on block `t - lag * i`, if there is such a block.
        for turn in 0..blocks + lag * steps.len() {
            for (index, step) in steps.iter().enumerate() {
                let Some(block) = turn.checked_sub(lag * index).filter(|&block| block < blocks) else { continue };
                plan.outgoing.push(Outgoing { range: chunk(block, step.send_chunk), relays: arrived[block] });
                let range = chunk(block, step.recv_chunk);
                arrived[block] = Some(position);
                position += range.len();
                plan.incoming.push(Incoming { range, action: step.action });
            }
        }
        plan
    }

    /// Builds the transfers of a broadcast of `bytes` bytes along the ring, from the root to the root's left neighbor.
    /// `distance` is this rank's distance from the root.
    pub(crate) fn of_broadcast(bytes: usize, distance: usize, size: usize) -> Self {
        let all = 0..bytes;
        let is_root = distance == 0;
        let is_last = distance + 1 == size;
        let incoming = if is_root { vec![] } else { vec![Incoming { range: all.clone(), action: Action::Replace }] };
        let relays = if is_root { None } else { Some(0) };
        let outgoing = if is_last { vec![] } else { vec![Outgoing { range: all, relays }] };
        Self { incoming, outgoing }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::collectives::ring::{chunk_range, plan};

    #[test]
    fn a_broadcast_is_a_chain() {
        let shape = |distance| {
            let plan = TransferPlan::of_broadcast(9, distance, 3);
            (plan.incoming.len(), plan.outgoing.iter().map(|range| range.relays).collect::<Vec<_>>())
        };
        assert_eq!(shape(0), (0, vec![None]));
        assert_eq!(shape(1), (1, vec![Some(0)]));
        assert_eq!(shape(2), (1, vec![]));
    }

    /// Returns the destination of each incoming byte.
    fn bytes_to_receive(plan: &TransferPlan) -> Vec<(usize, Action)> {
        plan.incoming.iter().flat_map(|piece| piece.range.clone().map(|at| (at, piece.action))).collect()
    }

    /// Returns the source of each outgoing byte, and the number of incoming bytes that must be processed before it.
    fn bytes_to_send(plan: &TransferPlan) -> Vec<(usize, usize)> {
        let needed = |next: &Outgoing, index: usize| next.relays.map_or(0, |start| start + index + 1);
        let bytes = |next: &Outgoing| -> Vec<_> {
            next.range.clone().enumerate().map(|(index, at)| (at, needed(next, index))).collect()
        };
        plan.outgoing.iter().flat_map(bytes).collect()
    }

    /// Runs the plans of all ranks byte by byte, on links that buffer `room` bytes each.
    fn simulate(plans: &[TransferPlan], data: &mut [Vec<u8>], room: usize) {
        let world = plans.len();
        let to_receive: Vec<Vec<(usize, Action)>> = plans.iter().map(bytes_to_receive).collect();
        let to_send: Vec<Vec<(usize, usize)>> = plans.iter().map(bytes_to_send).collect();
        let mut received = vec![0; world];
        let mut sent = vec![0; world];
        let mut links = vec![VecDeque::new(); world];
        loop {
            let mut moved = false;
            for rank in 0..world {
                if let Some(&(at, needed)) = to_send[rank].get(sent[rank])
                    && received[rank] >= needed
                    && links[rank].len() < room
                {
                    links[rank].push_back(data[rank][at]);
                    sent[rank] += 1;
                    moved = true;
                }
                if let Some(byte) = links[(rank + world - 1) % world].pop_front() {
                    let (at, action) = to_receive[rank][received[rank]];
                    let own = &mut data[rank][at];
                    *own = if action == Action::Replace { byte } else { own.wrapping_add(byte) };
                    received[rank] += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        for rank in 0..world {
            assert_eq!((received[rank], sent[rank]), (to_receive[rank].len(), to_send[rank].len()), "stuck");
        }
    }

    #[test]
    fn blocks_are_summed_for_every_world_and_any_room_on_the_way() {
        for world in 2..=8 {
            for blocks in [1, 2, 3, 9] {
                for (len, room) in [(0, 1), (1, 1), (blocks, 1), (97, 1), (97, 1000)] {
                    let chunk = |block: usize, index: usize| {
                        let block = chunk_range(len, blocks, block);
                        let chunk = chunk_range(block.len(), world, index);
                        block.start + chunk.start..block.start + chunk.end
                    };
                    let plans: Vec<_> =
                        (0..world).map(|rank| TransferPlan::of_blocks(&plan(rank, world), blocks, chunk)).collect();
                    let mut data: Vec<Vec<u8>> =
                        (0..world).map(|rank| (0..len).map(|at| (31 * rank + 7 * at) as u8).collect()).collect();
                    let sum: Vec<u8> =
                        (0..len).map(|at| data.iter().fold(0_u8, |sum, row| sum.wrapping_add(row[at]))).collect();
                    simulate(&plans, &mut data, room);
                    assert_eq!(data, vec![sum; world], "world {world}, {blocks} blocks, length {len}");
                }
            }
        }
    }
}

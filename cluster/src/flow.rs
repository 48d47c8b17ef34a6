//! What one rank receives and sends in one collective, as positions in its buffer: decided without a socket.

use std::ops::Range;

use crate::ring::{Action, Step};

/// What one rank receives from its left neighbor and sends to its right one, each in order.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) incoming: Vec<Incoming>,
    pub(crate) outgoing: Vec<Outgoing>,
}

/// Where incoming bytes go.
#[derive(Clone, Debug)]
pub(crate) struct Incoming {
    pub(crate) range: Range<usize>,
    pub(crate) action: Action,
}

/// Where outgoing bytes come from.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) range: Range<usize>,
    /// The relay rule: how many incoming bytes come before those that this range passes on. A byte of it may be sent
    /// once its counterpart has been dealt with. The own bytes of a rank, `None`, may be sent at once.
    pub(crate) relays: Option<usize>,
}

impl Flow {
    /// Executes the steps of a plan whose chunks lie at `chunk` in the buffer, in bytes.
    pub(crate) fn of_plan(steps: &[Step], chunk: impl Fn(usize) -> Range<usize>) -> Self {
        Self::of_blocks(steps, 1, |_, index| chunk(index))
    }

    /// Executes the steps of a plan on each of `blocks` blocks. Chunk `index` of a block lies at `chunk(block, index)`,
    /// in bytes.
    ///
    /// The blocks take turns: when a block takes its second step, one or two others have taken their first. So there
    /// is something to send while a step waits for what it passes on, and what was received shortly before is still in
    /// the cache when it is sent on.
    pub(crate) fn of_blocks(steps: &[Step], blocks: usize, chunk: impl Fn(usize, usize) -> Range<usize>) -> Self {
        // A turn has as many chunks as there are steps. With two of them, the next turn alone is little to send on a
        // fast network while the answer of the neighbor is under way.
        let lag = if steps.len() <= 2 { 2 } else { 1 };
        let mut flow = Self::default();
        let mut position = 0;
        // Where, among all incoming bytes, those begin that a block has received in its last step.
        let mut arrived = vec![None; blocks];
        for turn in 0..blocks + lag * steps.len() {
            for (index, step) in steps.iter().enumerate() {
                let Some(block) = turn.checked_sub(lag * index).filter(|&block| block < blocks) else { continue };
                flow.outgoing.push(Outgoing { range: chunk(block, step.send_chunk), relays: arrived[block] });
                let range = chunk(block, step.recv_chunk);
                arrived[block] = Some(position);
                position += range.len();
                flow.incoming.push(Incoming { range, action: step.action });
            }
        }
        flow
    }

    /// Passes `bytes` bytes down the ring, from the root to its left neighbor. `distance` is that from the root.
    pub(crate) fn of_broadcast(bytes: usize, distance: usize, size: usize) -> Self {
        let all = 0..bytes;
        let (is_root, is_last) = (distance == 0, distance + 1 == size);
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
    use crate::ring::{chunk_range, plan};

    #[test]
    fn a_broadcast_is_a_chain() {
        let shape = |distance| {
            let flow = Flow::of_broadcast(9, distance, 3);
            (flow.incoming.len(), flow.outgoing.iter().map(|range| range.relays).collect::<Vec<_>>())
        };
        assert_eq!(shape(0), (0, vec![None]));
        assert_eq!(shape(1), (1, vec![Some(0)]));
        assert_eq!(shape(2), (1, vec![]));
    }

    /// Where each incoming byte goes.
    fn bytes_to_receive(flow: &Flow) -> Vec<(usize, Action)> {
        flow.incoming.iter().flat_map(|piece| piece.range.clone().map(|at| (at, piece.action))).collect()
    }

    /// Where each outgoing byte comes from, and how many incoming ones must have been dealt with before.
    fn bytes_to_send(flow: &Flow) -> Vec<(usize, usize)> {
        let needed = |next: &Outgoing, index: usize| next.relays.map_or(0, |start| start + index + 1);
        let bytes = |next: &Outgoing| -> Vec<_> {
            next.range.clone().enumerate().map(|(index, at)| (at, needed(next, index))).collect()
        };
        flow.outgoing.iter().flat_map(bytes).collect()
    }

    /// Runs the flows of all ranks, byte by byte, on links that hold `room` bytes each.
    fn simulate(flows: &[Flow], data: &mut [Vec<u8>], room: usize) {
        let world = flows.len();
        let to_receive: Vec<Vec<(usize, Action)>> = flows.iter().map(bytes_to_receive).collect();
        let to_send: Vec<Vec<(usize, usize)>> = flows.iter().map(bytes_to_send).collect();
        let (mut received, mut sent) = (vec![0; world], vec![0; world]);
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
                    let flows: Vec<_> =
                        (0..world).map(|rank| Flow::of_blocks(&plan(rank, world), blocks, chunk)).collect();
                    let mut data: Vec<Vec<u8>> =
                        (0..world).map(|rank| (0..len).map(|at| (31 * rank + 7 * at) as u8).collect()).collect();
                    let sum: Vec<u8> =
                        (0..len).map(|at| data.iter().fold(0_u8, |sum, row| sum.wrapping_add(row[at]))).collect();
                    simulate(&flows, &mut data, room);
                    assert_eq!(data, vec![sum; world], "world {world}, {blocks} blocks, length {len}");
                }
            }
        }
    }
}

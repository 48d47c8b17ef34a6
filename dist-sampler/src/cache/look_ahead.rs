//! A plan of the rows of one node type that a cache holds, made with the batches to come.
//!
//! The plan is Belady's: of the rows in the cache and the rows that a batch fetches, the cache keeps the ones whose next use
//! is nearest ("A study of replacement algorithms for a virtual-storage computer", 1966), as far as the batches of the
//! window tell. Rows that no batch of the window uses stay while there is room.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The step of a use that is not known.
const NEVER: u32 = u32::MAX;

/// The rows of one node type in a cache of a number of slots, and the uses of rows in a window of batches.
#[derive(Debug, Default)]
pub(crate) struct CachePlan {
    num_slots: usize,
    /// The slots that have a row.
    slots: Vec<Slot>,
    /// The slot of each node whose row is in the cache.
    slot_of: FxHashMap<u32, u32>,
    /// The slots whose row has no known use, the first of which is replaced first. A slot that has got a use again stays
    /// in the list until it is taken out.
    idle: VecDeque<u32>,
    /// The batches of the window.
    window: VecDeque<PlannedBatch>,
    /// The step of the first batch of the window.
    first_step: u32,
    /// The last use of each node of the window.
    last_use: FxHashMap<u32, Use>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    node: u32,
    /// The step of the next use.
    next: u32,
    /// True if the slot is in the list of idle slots.
    is_listed: bool,
}

#[derive(Debug, Default)]
struct PlannedBatch {
    rows: Vec<WantedRow>,
    /// The slots whose next use was this batch when they were listed.
    due: Vec<u32>,
}

/// A row of another part that a batch uses.
#[derive(Clone, Copy, Debug)]
struct WantedRow {
    /// The position among the nodes of the batch.
    position: u32,
    node: u32,
    /// The step of the next use. It is the step of the batch itself if the batch has the node again.
    next: u32,
}

/// A use of a row by a batch.
#[derive(Clone, Copy, Debug)]
struct Use {
    step: u32,
    /// The index among the rows of the batch.
    index: u32,
}

/// The rows of a batch that are read from the cache and stored in it, pairs of a position and a slot. A slot may be read and
/// then get another row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CacheMoves {
    pub(crate) read: Vec<(u32, u32)>,
    pub(crate) stored: Vec<(u32, u32)>,
}

impl CachePlan {
    /// Sets the number of slots of a plan that has none.
    pub(crate) fn set_num_slots(&mut self, num_slots: usize) {
        self.num_slots = num_slots;
    }

    /// Returns the number of nodes in the window.
    pub(crate) fn num_nodes(&self) -> usize {
        self.last_use.len()
    }

    /// Adds the next batch to the window. `rows` are the positions and the nodes of its rows of other parts.
    pub(crate) fn enter(&mut self, rows: impl Iterator<Item = (u32, u32)>) {
        let step = self.first_step + self.window.len() as u32;
        self.window.push_back(PlannedBatch::default());
        let mut wanted: Vec<WantedRow> = Vec::new();
        for (position, node) in rows {
            let index = wanted.len() as u32;
            wanted.push(WantedRow { position, node, next: NEVER });
            if let Some(before) = self.last_use.insert(node, Use { step, index }) {
                let batch = &mut self.window[(before.step - self.first_step) as usize];
                let rows = if before.step == step { &mut wanted } else { &mut batch.rows };
                rows[before.index as usize].next = step;
            } else if let Some(&slot) = self.slot_of.get(&node) {
                self.set_next_use(slot, step);
            }
        }
        if let Some(batch) = self.window.back_mut() {
            batch.rows = wanted;
        }
    }

    /// Takes the first batch out of the window. Returns what it reads from the cache and stores in it.
    ///
    /// # Panics
    /// If the window is empty.
    pub(crate) fn leave(&mut self) -> CacheMoves {
        let PlannedBatch { rows, .. } = self.window.pop_front().expect("a batch in the window");
        let step = self.first_step;
        self.first_step += 1;
        let mut moves = CacheMoves::default();
        let mut missing = Vec::new();
        for row in rows {
            if row.next == NEVER {
                self.last_use.remove(&row.node);
            }
            match self.slot_of.get(&row.node) {
                Some(&slot) => {
                    moves.read.push((row.position, slot));
                    if row.next != step {
                        self.set_next_use(slot, row.next);
                    }
                }
                None if row.next != step => missing.push(row),
                None => {}
            }
        }
        // The nearest uses come first, so no row replaces another one of this batch.
        missing.sort_unstable_by_key(|row| (row.next, row.position));
        for row in missing {
            let Some(slot) = self.slot_for(row) else { break };
            self.slot_of.insert(row.node, slot);
            self.set_next_use(slot, row.next);
            moves.stored.push((row.position, slot));
        }
        moves
    }

    /// Ends an epoch. The next one starts with the rows in the cache, whose uses are unknown, and an empty window.
    pub(crate) fn restart(&mut self) {
        self.window.clear();
        self.last_use.clear();
        self.first_step = 0;
        for slot in 0..self.slots.len() as u32 {
            self.set_next_use(slot, NEVER);
        }
    }

    /// Returns a slot for a row: an empty one, or one whose row is used later.
    fn slot_for(&mut self, row: WantedRow) -> Option<u32> {
        let slot = Slot { node: row.node, next: NEVER, is_listed: false };
        if self.slots.len() < self.num_slots {
            self.slots.push(slot);
            return Some(self.slots.len() as u32 - 1);
        }
        if row.next == NEVER {
            return None;
        }
        let found = self.idle_slot().or_else(|| self.slot_used_after(row.next))?;
        self.slot_of.remove(&self.slots[found as usize].node);
        self.slots[found as usize] = slot;
        Some(found)
    }

    /// Takes the first slot without a known use out of the list.
    fn idle_slot(&mut self) -> Option<u32> {
        while let Some(slot) = self.idle.pop_front() {
            let listed = &mut self.slots[slot as usize];
            listed.is_listed = false;
            if listed.next == NEVER {
                return Some(slot);
            }
        }
        None
    }

    /// Returns the slot whose next use is the farthest, if it is later than `step`.
    fn slot_used_after(&mut self, step: u32) -> Option<u32> {
        let later = (step + 1).saturating_sub(self.first_step) as usize;
        for index in (later..self.window.len()).rev() {
            let due_step = self.first_step + index as u32;
            while let Some(slot) = self.window[index].due.pop() {
                if self.slots[slot as usize].next == due_step {
                    return Some(slot);
                }
            }
        }
        None
    }

    fn set_next_use(&mut self, slot: u32, next: u32) {
        let entry = &mut self.slots[slot as usize];
        entry.next = next;
        if next != NEVER {
            self.window[(next - self.first_step) as usize].due.push(slot);
        } else if !entry.is_listed {
            entry.is_listed = true;
            self.idle.push_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Runs batches through a cache. Returns the number of rows that were not in the cache. Checks that each slot that is
    /// read has the row of the node.
    fn num_missed(
        plan: &mut CachePlan,
        arena: &mut [Option<u32>],
        batches: &[BTreeSet<u32>],
        num_ahead: usize,
    ) -> usize {
        let mut missed = 0;
        let mut entered = 0;
        for (step, batch) in batches.iter().enumerate() {
            while entered < batches.len() && entered < step + num_ahead.max(1) {
                plan.enter((0..).zip(batches[entered].iter().copied()));
                entered += 1;
            }
            let nodes: Vec<u32> = batch.iter().copied().collect();
            let moves = plan.leave();
            for &(position, slot) in &moves.read {
                assert_eq!(arena[slot as usize], Some(nodes[position as usize]));
            }
            let stored: BTreeSet<u32> = moves.stored.iter().map(|&(_, slot)| slot).collect();
            assert_eq!(stored.len(), moves.stored.len(), "a slot gets one row");
            for &(position, slot) in &moves.stored {
                arena[slot as usize] = Some(nodes[position as usize]);
            }
            missed += nodes.len() - moves.read.len();
        }
        missed
    }

    /// Returns the number of misses of a cache that knows all batches, by keeping the nearest uses after each batch.
    fn fewest_missed(batches: &[BTreeSet<u32>], num_slots: usize) -> usize {
        let mut kept: BTreeSet<u32> = BTreeSet::new();
        let mut missed = 0;
        for (step, batch) in batches.iter().enumerate() {
            missed += batch.difference(&kept).count();
            let next = |node: u32| batches[step + 1..].iter().position(|later| later.contains(&node));
            let mut candidates: Vec<(usize, u32)> =
                kept.union(batch).filter_map(|&node| Some((next(node)?, node))).collect();
            candidates.sort_unstable();
            kept = candidates.into_iter().take(num_slots).map(|(_, node)| node).collect();
        }
        missed
    }

    fn plan_of(num_slots: usize) -> (CachePlan, Vec<Option<u32>>) {
        let mut plan = CachePlan::default();
        plan.set_num_slots(num_slots);
        (plan, vec![None; num_slots])
    }

    proptest! {
        #[test]
        fn a_window_over_all_batches_misses_as_few_rows_as_can_be(
            batches in proptest::collection::vec(proptest::collection::btree_set(0_u32..30, 0..12), 0..12),
            num_slots in 0_usize..20,
        ) {
            let (mut plan, mut arena) = plan_of(num_slots);
            let missed = num_missed(&mut plan, &mut arena, &batches, batches.len());
            prop_assert_eq!(missed, fewest_missed(&batches, num_slots));
        }

        #[test]
        fn rows_are_those_of_their_nodes_over_several_epochs(
            batches in proptest::collection::vec(proptest::collection::btree_set(0_u32..30, 0..12), 0..12),
            num_slots in 0_usize..20,
            num_ahead in 0_usize..6,
        ) {
            let (mut plan, mut arena) = plan_of(num_slots);
            for _ in 0..3 {
                num_missed(&mut plan, &mut arena, &batches, num_ahead);
                plan.restart();
                prop_assert!(plan.idle.len() <= num_slots && plan.slots.len() <= num_slots);
            }
        }
    }

    #[test]
    fn a_node_that_a_batch_has_twice_gets_one_slot() {
        let (mut plan, _) = plan_of(2);
        let batches = [[7, 8, 7], [9, 7, 7], [7, 8, 9]];
        batches.iter().for_each(|batch| plan.enter((0..).zip(*batch)));
        let moves = [(); 3].map(|()| plan.leave());
        assert_eq!(moves[0], CacheMoves { read: Vec::new(), stored: vec![(2, 0), (1, 1)] });
        assert_eq!(moves[1], CacheMoves { read: vec![(1, 0), (2, 0)], stored: Vec::new() });
        assert_eq!(moves[2], CacheMoves { read: vec![(0, 0), (1, 1)], stored: Vec::new() });
    }

    #[test]
    fn a_cache_with_room_for_all_rows_misses_each_once() {
        let batches: Vec<BTreeSet<u32>> = (0..20).map(|step| (step..step + 10).collect()).collect();
        let (mut plan, mut arena) = plan_of(29);
        assert_eq!(num_missed(&mut plan, &mut arena, &batches, 1), 29);
        plan.restart();
        assert_eq!(num_missed(&mut plan, &mut arena, &batches, 1), 0);
    }
}

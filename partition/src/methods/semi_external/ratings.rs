//! The weight of the edges between a node and the clusters or parts around it.

/// Sums of weights by id: an open-addressing hash table that is sized for one node's neighbors at a time, so that the
/// table of an ordinary node stays in the cache.
#[derive(Debug, Default)]
pub(super) struct Ratings {
    /// (id, weight) in the slots in use; [`FREE`] is the id of a free slot.
    slots: Vec<(u32, u32)>,
    /// The slots in use, in the order in which their ids were first seen.
    used: Vec<u32>,
    /// The hash is shifted right by this number of bits to give a slot.
    shift: u32,
}

/// Joined ids end below this value.
const FREE: u32 = u32::MAX;

impl Ratings {
    /// Removes all sums, and makes room for `num_ids` distinct ids.
    pub(super) fn reset(&mut self, num_ids: usize) {
        for &slot in &self.used {
            self.slots[slot as usize].0 = FREE;
        }
        self.used.clear();
        let capacity = (2 * num_ids).next_power_of_two().max(16);
        if capacity > self.slots.len() {
            self.slots.resize(capacity, (FREE, 0));
        }
        self.shift = 32 - capacity.trailing_zeros().min(32);
    }

    /// Adds 1 to the sum of `id`.
    pub(super) fn add(&mut self, id: u32) {
        let mask = (1_usize << (32 - self.shift)) - 1;
        let mut slot = (id.wrapping_mul(0x9E37_79B1) >> self.shift) as usize;
        loop {
            let held = &mut self.slots[slot];
            if held.0 == id {
                held.1 += 1;
                return;
            }
            if held.0 == FREE {
                *held = (id, 1);
                self.used.push(slot as u32);
                return;
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Returns the ids and their sums, in the order in which the ids were first seen.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.used.iter().map(|&slot| self.slots[slot as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn sums_are_those_of_a_map(lists in prop::collection::vec(prop::collection::vec(0..400_u32, 0..200), 1..6)) {
            let mut ratings = Ratings::default();
            for ids in lists {
                ratings.reset(ids.len());
                let mut expected = BTreeMap::new();
                for &id in &ids {
                    let id = id.wrapping_mul(0x0101_0000).min(FREE - 1);
                    ratings.add(id);
                    *expected.entry(id).or_insert(0_u32) += 1;
                }
                prop_assert_eq!(ratings.iter().collect::<BTreeMap<u32, u32>>(), expected);
            }
        }
    }
}

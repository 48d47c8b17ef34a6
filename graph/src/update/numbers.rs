//! The numbers of the nodes of existing parts before and after an update.

use crate::part::PartitionBook;
use crate::{GraphError, NodeTypeId, Part};

const DAMAGED: &str = "the original ids of the parts do not belong together";

/// The nodes of a type in existing parts, some of which are removed.
///
/// A node of the update is named by an *id*: its global id in the existing parts, or for a new node the number of all nodes
/// of the existing parts and then its position among the new nodes. Its *number* is its original id after the update: nodes
/// that stay in the order of their original ids, then new nodes.
///
/// Invariant: the memory is bounded by the removed nodes. All other ids are in the mapped files of the parts.
pub(super) struct KnownNumbers<'a> {
    /// The original ids of each part, ascending.
    originals: Vec<&'a [u32]>,
    /// The first global id of each part, then the number of nodes.
    starts: Vec<u32>,
    /// The original ids of the removed nodes, ascending.
    removed: Vec<u32>,
    /// The global ids of the removed nodes, ascending.
    removed_globals: Vec<u32>,
}

impl<'a> KnownNumbers<'a> {
    /// Numbers the nodes of a type. `is_removed` has an entry per original id.
    ///
    /// # Errors
    /// Describes original ids of parts that do not belong together.
    pub(super) fn new(parts: &'a [Part], node_type: NodeTypeId, is_removed: &[bool]) -> Result<Self, String> {
        let mut originals = Vec::with_capacity(parts.len());
        let mut starts = vec![0];
        let mut removed_globals = Vec::new();
        let mut seen = vec![0_u64; is_removed.len().div_ceil(64)];
        for part in parts {
            let of_part = &part.nodes(node_type).original_ids[..];
            let owned = part.owned(node_type);
            for (global, &original) in owned.clone().zip(of_part) {
                let is_removed = *is_removed.get(original as usize).ok_or(DAMAGED)?;
                let bit = 1 << (original % 64);
                let word = &mut seen[original as usize / 64];
                if *word & bit != 0 {
                    return Err(DAMAGED.into());
                }
                *word |= bit;
                if is_removed {
                    removed_globals.push(global);
                }
            }
            originals.push(of_part);
            starts.push(owned.end);
        }
        if originals.iter().map(|of_part| of_part.len()).sum::<usize>() != is_removed.len() {
            return Err(DAMAGED.into());
        }
        let removed = (0_u32..).zip(is_removed).filter(|(_, is_removed)| **is_removed).map(|(original, _)| original);
        Ok(Self { originals, starts, removed: removed.collect(), removed_globals })
    }

    /// Returns the number of nodes before the update.
    pub(super) fn num_known(&self) -> u32 {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the number of nodes that stay.
    pub(super) fn num_kept(&self) -> u32 {
        self.num_known() - self.removed.len() as u32
    }

    /// Returns the global ids of a part.
    pub(super) fn range(&self, part: usize) -> std::ops::Range<u32> {
        self.starts[part]..self.starts[part + 1]
    }

    /// Returns the part of a known node.
    pub(super) fn part_of(&self, global: u32) -> usize {
        self.starts[1..self.starts.len() - 1].partition_point(|&start| start <= global)
    }

    /// Returns true if a node is removed. `id` may belong to a new node.
    pub(super) fn is_removed(&self, id: u32) -> bool {
        !self.removed_globals.is_empty() && self.removed_globals.binary_search(&id).is_ok()
    }

    /// Returns true if no node is removed.
    pub(super) fn keeps_all(&self) -> bool {
        self.removed.is_empty()
    }

    /// Returns the number of nodes with a smaller global id that stay.
    fn num_kept_before(&self, global: u32) -> u32 {
        global - self.removed_globals.partition_point(|&removed| removed < global) as u32
    }

    /// Returns the row of a known node among the nodes of its part that stay.
    pub(super) fn row_after(&self, part: usize, row: u32) -> u32 {
        let start = self.starts[part];
        self.num_kept_before(start + row) - self.num_kept_before(start)
    }

    /// Returns the number of nodes of a part that stay.
    pub(super) fn num_kept_in(&self, part: usize) -> u32 {
        self.num_kept_before(self.starts[part + 1]) - self.num_kept_before(self.starts[part])
    }

    /// Returns the original id of a known node.
    fn original(&self, global: u32) -> u32 {
        let part = self.part_of(global);
        self.originals[part][(global - self.starts[part]) as usize]
    }

    /// Returns the number of a node that stays or is new.
    pub(super) fn number(&self, id: u32) -> u32 {
        if id >= self.num_known() {
            return id - self.num_known() + self.num_kept();
        }
        self.number_of_original(self.original(id))
    }

    fn number_of_original(&self, original: u32) -> u32 {
        original - self.removed.partition_point(|&removed| removed < original) as u32
    }

    /// Returns the rows of the nodes of a part that stay, each with the number of its node. Both ascend.
    pub(super) fn kept_rows(&self, part: usize) -> impl Iterator<Item = (u32, u32)> {
        let start = self.starts[part];
        (0..)
            .zip(self.originals[part])
            .filter(move |&(row, _)| !self.is_removed(start + row))
            .map(|(row, &original)| (row, self.number_of_original(original)))
    }

    /// Returns the original id of the node with a number below the number of nodes that stay.
    fn original_of_number(&self, number: u32) -> u32 {
        // The removed nodes before it are those whose original ids, without the removed ones before them, are not larger.
        let mut low = 0;
        let mut high = self.removed.len();
        while low < high {
            let middle = (low + high) / 2;
            if self.removed[middle] - middle as u32 <= number {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        number + low as u32
    }

    /// Returns the ids of nodes with numbers.
    ///
    /// Each part is searched once, so this takes memory for the numbers only.
    pub(super) fn ids_of_numbers(&self, numbers: &[u32]) -> Vec<u32> {
        let num_kept = self.num_kept();
        let known = numbers.iter().filter(|number| **number < num_kept).map(|&number| self.original_of_number(number));
        let globals = self.globals_of(known.collect());
        let mut ids = Vec::with_capacity(numbers.len());
        for &number in numbers {
            ids.push(match number.checked_sub(num_kept) {
                Some(position) => self.num_known() + position,
                None => globals.get(self.original_of_number(number)),
            });
        }
        ids
    }

    /// Returns the global ids of nodes with original ids, which must be below the number of known nodes.
    pub(super) fn globals_of(&self, mut originals: Vec<u32>) -> GlobalIds {
        originals.sort_unstable();
        originals.dedup();
        let mut globals = vec![0; originals.len()];
        for (of_part, &start) in self.originals.iter().zip(&self.starts) {
            let mut row = 0;
            for (original, global) in originals.iter().zip(&mut globals) {
                row += of_part[row..].partition_point(|of_row| of_row < original);
                if of_part.get(row) == Some(original) {
                    *global = start + row as u32;
                }
            }
        }
        GlobalIds { originals, globals }
    }
}

/// The global ids of some nodes.
pub(super) struct GlobalIds {
    /// Original ids, ascending.
    originals: Vec<u32>,
    globals: Vec<u32>,
}

impl GlobalIds {
    /// Returns the global id of one of the nodes.
    pub(super) fn get(&self, original: u32) -> u32 {
        self.globals[self.originals.partition_point(|&of_node| of_node < original)]
    }
}

/// The global ids of the nodes of a type in the updated parts.
pub(super) struct UpdatedNumbers {
    /// The owners of the nodes.
    pub(super) book: PartitionBook,
    /// The global id of each new node.
    new: Vec<u32>,
    /// The positions of the new nodes of each part, ascending.
    new_in_part: Vec<Vec<u32>>,
}

impl UpdatedNumbers {
    /// Numbers the nodes that stay in their parts, and after them the new nodes of each part. `parts_of_new` has the part of each
    /// new node.
    ///
    /// # Errors
    /// [`GraphError::Book`] for too many nodes.
    pub(super) fn new(known: &KnownNumbers, parts_of_new: &[u32]) -> Result<Self, GraphError> {
        let num_parts = known.originals.len();
        let mut new_in_part = vec![Vec::new(); num_parts];
        for (position, &part) in (0..).zip(parts_of_new) {
            new_in_part[part as usize].push(position);
        }
        let mut starts = vec![0_u64];
        let mut new = vec![0; parts_of_new.len()];
        for (part, positions) in new_in_part.iter().enumerate() {
            let first = starts[part] + u64::from(known.num_kept_in(part));
            for (global, &position) in (first..).zip(positions) {
                new[position as usize] = global as u32;
            }
            starts.push(first + positions.len() as u64);
        }
        Ok(Self { book: PartitionBook::new(starts)?, new, new_in_part })
    }

    /// Returns the global id of a node that stays or is new.
    pub(super) fn global(&self, known: &KnownNumbers, id: u32) -> u32 {
        match id.checked_sub(known.num_known()) {
            Some(position) => self.new[position as usize],
            None => {
                let part = known.part_of(id);
                self.range(part).start + known.row_after(part, id - known.starts[part])
            }
        }
    }

    /// Returns the global ids of a part.
    pub(super) fn range(&self, part: usize) -> std::ops::Range<u32> {
        self.book.range(crate::PartitionId(part as u32))
    }

    /// Returns the positions of the new nodes of a part.
    pub(super) fn new_in(&self, part: usize) -> &[u32] {
        &self.new_in_part[part]
    }
}

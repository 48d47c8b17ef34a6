//! A map from the ids of users to row numbers.

use edgecut_graph::prefetch;
use hashbrown::HashTable;
use rayon::prelude::*;
use std::fmt;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The number of ids that are looked up together, so that their cache misses overlap.
const BLOCK: usize = 128;

/// The ids of the nodes of one type, numbered in order of insertion.
///
/// Numbers take 8 bytes, texts their bytes and 8 for the offset, and both about 5 to 10 more for the hash table. The ids
/// 0, 1, 2 and so on take nothing. An id is a text; the decimal form of a number is stored as a number while all ids of
/// the type are.
pub struct IdMap {
    ids: UserIds,
    /// Positions of ids, by the hash of the id. Unused for rows.
    table: HashTable<u32>,
}

/// The ids of the nodes of one type, in the order of the nodes.
pub enum UserIds {
    /// The row numbers, below this count.
    Rows(u32),
    /// Whole numbers.
    Numbers(Vec<i64>),
    /// Texts.
    Texts {
        /// The texts, end to end.
        bytes: Vec<u8>,
        /// The end of each text.
        ends: Vec<u64>,
    },
}

/// An id in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id<'a> {
    Number(i64),
    Text(&'a str),
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    New,
    /// The id has this number already.
    Duplicate(u32),
    /// There are 2^32 - 1 nodes already.
    Full,
}

impl IdMap {
    /// Creates an empty map.
    pub(crate) fn new() -> Self {
        Self::of_rows(0)
    }

    /// Creates an empty map of numbers. It is stored with its nodes even if the numbers are 0, 1, 2 and so on, since numbers
    /// that nodes have had must not be given to others.
    pub(crate) fn of_numbers() -> Self {
        Self { ids: UserIds::Numbers(Vec::new()), table: HashTable::new() }
    }

    /// Creates the map of row numbers to themselves.
    pub fn of_rows(num_rows: u32) -> Self {
        Self { ids: UserIds::Rows(num_rows), table: HashTable::new() }
    }

    /// Returns the ids.
    pub fn ids(&self) -> &UserIds {
        &self.ids
    }

    /// Returns the ids without the table by which they are found.
    pub(crate) fn into_ids(self) -> UserIds {
        self.ids
    }

    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        match &self.ids {
            UserIds::Rows(num_rows) => *num_rows as usize,
            UserIds::Numbers(numbers) => numbers.len(),
            UserIds::Texts { ends, .. } => ends.len(),
        }
    }

    /// Returns true if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the map holds.
    pub fn memory_bytes(&self) -> usize {
        let ids = match &self.ids {
            UserIds::Rows(_) => 0,
            UserIds::Numbers(numbers) => numbers.capacity() * size_of::<i64>(),
            UserIds::Texts { bytes, ends } => bytes.capacity() + ends.capacity() * size_of::<u64>(),
        };
        ids + self.table.allocation_size()
    }

    /// Adds an id.
    pub(crate) fn insert(&mut self, id: Id) -> Inserted {
        if let Some(position) = self.get(id) {
            return Inserted::Duplicate(position);
        }
        let Ok(position) = u32::try_from(self.len()) else { return Inserted::Full };
        if position == u32::MAX {
            return Inserted::Full;
        }
        self.make_room_for(id, position);
        match (&mut self.ids, id) {
            (UserIds::Rows(num_rows), _) => {
                *num_rows += 1;
                return Inserted::New;
            }
            (UserIds::Numbers(numbers), Id::Number(number)) => numbers.push(number),
            (UserIds::Texts { bytes, ends }, id) => {
                match id {
                    Id::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                    Id::Number(number) => bytes.extend_from_slice(number.to_string().as_bytes()),
                }
                ends.push(bytes.len() as u64);
            }
            (UserIds::Numbers(_), Id::Text(_)) => unreachable!("a text has converted the numbers to texts"),
        }
        let ids = &self.ids;
        self.table.insert_unique(ids.hash_at(position), position, |&at| ids.hash_at(at));
        Inserted::New
    }

    /// Returns the number of an id.
    pub(crate) fn get(&self, id: Id) -> Option<u32> {
        match (&self.ids, id) {
            (UserIds::Rows(num_rows), Id::Number(number)) => u32::try_from(number).ok().filter(|row| row < num_rows),
            (UserIds::Numbers(numbers), Id::Number(number)) => {
                self.table.find(hash_number(number), |&at| numbers[at as usize] == number).copied()
            }
            // All ids are numbers, and `id` is the text of none.
            (UserIds::Rows(_) | UserIds::Numbers(_), Id::Text(text)) => {
                super::canonical_number(text).and_then(|number| self.get(Id::Number(number)))
            }
            (UserIds::Texts { .. }, Id::Number(number)) => self.get(Id::Text(&number.to_string())),
            (UserIds::Texts { .. }, Id::Text(text)) => {
                self.table.find(xxh3_64(text.as_bytes()), |&at| self.ids.text(at) == text.as_bytes()).copied()
            }
        }
    }

    /// Returns the numbers of ids. `None` stands for an id that is missing, and for one that the map does not have.
    pub(crate) fn get_all<'a>(&self, mut ids: impl Iterator<Item = Option<Id<'a>>>) -> Vec<Option<u32>> {
        let mut found = Vec::with_capacity(ids.size_hint().0);
        let mut block = Vec::with_capacity(BLOCK);
        loop {
            block.extend(ids.by_ref().take(BLOCK));
            if block.is_empty() {
                return found;
            }
            self.get_block(&block, &mut found);
            block.clear();
        }
    }

    /// Looks up a block of ids in rounds, each of which reads memory at random for all ids: slots of the hash table, ends of
    /// texts, and texts.
    fn get_block(&self, block: &[Option<Id>], found: &mut Vec<Option<u32>>) {
        let mut hashes = [None; BLOCK];
        for (hash, id) in hashes.iter_mut().zip(block) {
            *hash = id.and_then(|id| self.ids.hash_of(id));
        }
        // Nearly always, the first slot with the same bits of the hash has the id.
        let mut candidates = [None; BLOCK];
        for (candidate, hash) in candidates.iter_mut().zip(&hashes[..block.len()]) {
            *candidate = hash.and_then(|hash| self.table.find(hash, |_| true).copied());
        }
        candidates.iter().flatten().for_each(|&at| self.ids.prefetch_end(at));
        candidates.iter().flatten().for_each(|&at| self.ids.prefetch_text(at));
        for (id, candidate) in block.iter().zip(candidates) {
            found.push(match (*id, candidate) {
                (Some(id), Some(at)) if self.ids.is_at(at, id) => Some(at),
                (Some(id), _) => self.get(id),
                (None, _) => None,
            });
        }
    }

    /// Returns the map of the same ids in ascending order: numbers by value, texts by bytes.
    pub(crate) fn sorted(self) -> Self {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        match &self.ids {
            UserIds::Rows(_) => return self,
            UserIds::Numbers(numbers) => order.par_sort_unstable_by_key(|&at| numbers[at as usize]),
            ids @ UserIds::Texts { .. } => order.par_sort_unstable_by(|&a, &b| ids.text(a).cmp(ids.text(b))),
        }
        let mut sorted = Self::new();
        for at in order {
            self.ids.with_id(at, |id| sorted.insert(id));
        }
        sorted
    }

    /// Returns the map of the same ids in their order, without the nodes for which `is_removed` is true. Row numbers become
    /// ids.
    pub(crate) fn without(&self, is_removed: &[bool]) -> Self {
        let mut kept = match &self.ids {
            UserIds::Rows(_) | UserIds::Numbers(_) => Self::of_numbers(),
            UserIds::Texts { .. } => Self::new(),
        };
        for (position, _) in (0..self.len() as u32).zip(is_removed).filter(|(_, is_removed)| !**is_removed) {
            self.ids.with_id(position, |id| kept.insert(id));
        }
        kept
    }

    /// Adds the ids of another map in their order, but not those that there are already. Returns false if there are too many.
    pub(crate) fn extend(&mut self, more: &Self) -> bool {
        let mut has_room = true;
        for position in 0..more.len() as u32 {
            has_room &= more.ids.with_id(position, |id| self.insert(id)) != Inserted::Full;
        }
        has_room
    }

    /// Converts the ids to the form that can also hold `id` at `position`.
    fn make_room_for(&mut self, id: Id, position: u32) {
        let number = match id {
            Id::Number(number) => Some(number),
            Id::Text(text) => super::canonical_number(text),
        };
        let converted = match (&self.ids, number) {
            (UserIds::Rows(_), Some(number)) if number == i64::from(position) => return,
            (UserIds::Numbers(_), Some(_)) if matches!(id, Id::Number(_)) => return,
            (UserIds::Texts { .. }, _) => return,
            (UserIds::Rows(num_rows), Some(_)) if matches!(id, Id::Number(_)) => {
                UserIds::Numbers((0..i64::from(*num_rows)).collect())
            }
            (ids, _) => ids.to_texts(),
        };
        self.ids = converted;
        self.table.clear();
        let ids = &self.ids;
        self.table.reserve(position as usize, |&at| ids.hash_at(at));
        for at in 0..position {
            self.table.insert_unique(ids.hash_at(at), at, |&at| ids.hash_at(at));
        }
    }
}

impl UserIds {
    /// Returns the id of a node for errors and tables.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn show(&self, position: u32) -> String {
        match self {
            Self::Rows(_) => position.to_string(),
            Self::Numbers(numbers) => numbers[position as usize].to_string(),
            Self::Texts { .. } => String::from_utf8_lossy(self.text(position)).into_owned(),
        }
    }

    /// Calls `take` with the id of a node.
    fn with_id<T>(&self, position: u32, take: impl FnOnce(Id) -> T) -> T {
        match self {
            Self::Rows(_) => take(Id::Number(i64::from(position))),
            Self::Numbers(numbers) => take(Id::Number(numbers[position as usize])),
            Self::Texts { .. } => take(Id::Text(&self.show(position))),
        }
    }

    /// Returns the bytes of a text.
    ///
    /// # Panics
    /// If the ids are not texts.
    pub(crate) fn text(&self, position: u32) -> &[u8] {
        let Self::Texts { bytes, ends } = self else { unreachable!("the ids are texts") };
        let position = position as usize;
        let start = if position == 0 { 0 } else { ends[position - 1] as usize };
        &bytes[start..ends[position] as usize]
    }

    /// Returns the key by which a node draws random numbers. It is the same for a number and its text, and for row numbers
    /// that became ids.
    ///
    /// # Panics
    /// If there is no such node.
    pub(crate) fn draw_key(&self, position: u32) -> u64 {
        match self {
            Self::Rows(_) => u64::from(position),
            Self::Numbers(numbers) => numbers[position as usize] as u64,
            Self::Texts { .. } => draw_key_of_text(self.text(position)),
        }
    }

    /// Returns the digest of all ids in their order, the same for numbers and their texts; `None` for row numbers.
    pub(crate) fn digest(&self) -> Option<String> {
        let mut hash = Xxh3::new();
        let mut add = |text: &[u8]| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        match self {
            Self::Rows(_) => return None,
            Self::Numbers(numbers) => numbers.iter().for_each(|number| add(number.to_string().as_bytes())),
            Self::Texts { ends, .. } => (0..ends.len() as u32).for_each(|position| add(self.text(position))),
        }
        Some(format!("{:032x}", hash.digest128()))
    }

    fn hash_at(&self, position: u32) -> u64 {
        match self {
            Self::Rows(_) => hash_number(i64::from(position)),
            Self::Numbers(numbers) => hash_number(numbers[position as usize]),
            Self::Texts { .. } => xxh3_64(self.text(position)),
        }
    }

    /// Returns the hash of an id in the form of these ids; `None` for an id of another form, and for row numbers, which have
    /// no table.
    fn hash_of(&self, id: Id) -> Option<u64> {
        match (self, id) {
            (Self::Numbers(_), Id::Number(number)) => Some(hash_number(number)),
            (Self::Texts { .. }, Id::Text(text)) => Some(xxh3_64(text.as_bytes())),
            _ => None,
        }
    }

    /// Returns true if the id at a position is `id`, in the same form.
    fn is_at(&self, position: u32, id: Id) -> bool {
        match (self, id) {
            (Self::Numbers(numbers), Id::Number(number)) => numbers[position as usize] == number,
            (Self::Texts { .. }, Id::Text(text)) => self.text(position) == text.as_bytes(),
            _ => false,
        }
    }

    /// Prefetches the number at a position, or the end of a text.
    fn prefetch_end(&self, position: u32) {
        match self {
            Self::Rows(_) => {}
            Self::Numbers(numbers) => prefetch(numbers, position as usize),
            Self::Texts { ends, .. } => prefetch(ends, position as usize),
        }
    }

    /// Prefetches the end of the text at a position, which is near its start.
    fn prefetch_text(&self, position: u32) {
        if let Self::Texts { bytes, ends } = self {
            prefetch(bytes, ends[position as usize].saturating_sub(1) as usize);
        }
    }

    fn to_texts(&self) -> Self {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut add = |number: i64| {
            bytes.extend_from_slice(number.to_string().as_bytes());
            ends.push(bytes.len() as u64);
        };
        match self {
            Self::Rows(num_rows) => (0..i64::from(*num_rows)).for_each(&mut add),
            Self::Numbers(numbers) => numbers.iter().copied().for_each(&mut add),
            Self::Texts { .. } => {}
        }
        Self::Texts { bytes, ends }
    }
}

fn hash_number(number: i64) -> u64 {
    xxh3_64(&number.to_le_bytes())
}

impl fmt::Debug for IdMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.ids {
            UserIds::Rows(_) => "rows",
            UserIds::Numbers(_) => "numbers",
            UserIds::Texts { .. } => "texts",
        };
        write!(f, "{} {kind}", self.len())
    }
}

/// Returns the key by which a node or an edge with a text as its id draws random numbers, the same for a number and its text.
pub(crate) fn draw_key_of_text(text: &[u8]) -> u64 {
    let number = std::str::from_utf8(text).ok().and_then(super::canonical_number);
    number.map_or_else(|| xxh3_64(text), |number| number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn inserted(map: &mut IdMap, ids: &[Id]) -> Vec<Inserted> {
        ids.iter().map(|&id| map.insert(id)).collect()
    }

    #[test]
    fn rows_become_numbers_and_numbers_become_texts() {
        let mut map = IdMap::new();
        assert_eq!(inserted(&mut map, &[Id::Number(0), Id::Number(1)]), [Inserted::New; 2]);
        assert!(matches!(map.ids(), UserIds::Rows(2)));
        assert_eq!(map.memory_bytes(), 0);
        assert_eq!(inserted(&mut map, &[Id::Number(7), Id::Number(1)]), [Inserted::New, Inserted::Duplicate(1)]);
        assert!(matches!(map.ids(), UserIds::Numbers(numbers) if numbers[..] == [0, 1, 7]));
        assert_eq!(inserted(&mut map, &[Id::Text("007"), Id::Text("7")]), [Inserted::New, Inserted::Duplicate(2)]);
        assert_eq!(map.get(Id::Number(7)), Some(2));
        assert_eq!(map.get(Id::Text("007")), Some(3));
        assert_eq!(map.get(Id::Text("8")), None);
        assert_eq!((0..4).map(|at| map.ids().show(at)).collect::<Vec<_>>(), ["0", "1", "7", "007"]);
    }

    #[test]
    fn row_numbers_that_lose_a_node_are_ids_with_the_same_keys() {
        let rows = IdMap::of_rows(4);
        let mut kept = rows.without(&[false, false, false, true]);
        assert!(matches!(kept.ids(), UserIds::Numbers(numbers) if numbers[..] == [0, 1, 2]));
        assert_eq!(inserted(&mut kept, &[Id::Number(4)]), [Inserted::New]);
        let keys = |map: &IdMap| (0..4).map(|at| map.ids().draw_key(at)).collect::<Vec<_>>();
        assert_eq!(keys(&kept), [0, 1, 2, 4]);
        assert_eq!(inserted(&mut kept, &[Id::Text("ann")]), [Inserted::New]);
        assert_eq!(keys(&kept), [0, 1, 2, 4]);
    }

    #[test]
    fn agrees_with_a_map_of_strings() {
        let mut map = IdMap::new();
        let mut expected: HashMap<String, u32> = HashMap::new();
        let ids: Vec<String> = (0..20_000_u64).map(|n| format!("user-{}", n * 7919 % 15_000)).collect();
        for id in &ids {
            let position = expected.len() as u32;
            match expected.get(id) {
                Some(&at) => assert_eq!(map.insert(Id::Text(id)), Inserted::Duplicate(at)),
                None => {
                    assert_eq!(map.insert(Id::Text(id)), Inserted::New);
                    expected.insert(id.clone(), position);
                }
            }
        }
        assert_eq!(map.len(), expected.len());
        assert!(ids.iter().all(|id| map.get(Id::Text(id)) == expected.get(id).copied()));
        assert_eq!(map.get(Id::Text("user-15000")), None);
    }

    #[test]
    fn lookups_in_blocks_find_what_single_lookups_find() {
        let rows = IdMap::of_rows(1000);
        let mut numbers = IdMap::new();
        let mut texts = IdMap::new();
        for n in 0..1000 {
            assert_eq!(numbers.insert(Id::Number(n * 7919 % 1009 - 300)), Inserted::New);
            assert_eq!(texts.insert(Id::Text(&format!("user-{}", n * 7919 % 1009))), Inserted::New);
        }
        assert_eq!(texts.insert(Id::Text("17")), Inserted::New);
        let names: Vec<String> = (0..700).map(|n| format!("user-{}", n * 3)).collect();
        let mut ids: Vec<Option<Id>> = (-350..1200).map(|n| Some(Id::Number(n))).collect();
        ids.extend(names.iter().map(|name| Some(Id::Text(name))));
        ids.extend([None, Some(Id::Text("17")), Some(Id::Text("")), Some(Id::Text("007")), None]);
        for map in [&rows, &numbers, &texts, &IdMap::new()] {
            for len in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, ids.len()] {
                let expected: Vec<Option<u32>> = ids[..len].iter().map(|id| id.and_then(|id| map.get(id))).collect();
                assert_eq!(map.get_all(ids[..len].iter().copied()), expected, "{map:?}");
            }
        }
    }

    #[test]
    fn texts_take_few_bytes() {
        let mut map = IdMap::new();
        let num_ids = 1 << 17;
        (0..num_ids).for_each(|n| assert_eq!(map.insert(Id::Text(&format!("n{n:09}"))), Inserted::New));
        // 10 bytes of text, 8 of the end and at most 10 of the table, each at most twice from growing vectors.
        let per_id = map.memory_bytes() as f64 / f64::from(num_ids);
        assert!(per_id < 46.0, "{per_id} bytes per id");
    }
}

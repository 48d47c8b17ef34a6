//! The share of one part in a request about many items.

/// The words that describe a part's share of the items, and the positions of these items in the whole list.
#[derive(Clone, Default)]
pub(crate) struct PartRequest {
    pub(crate) positions: Vec<u32>,
    pub(crate) words: Vec<u32>,
}

impl PartRequest {
    /// Adds the item at a position of the whole list.
    pub(crate) fn push(&mut self, position: usize, words: impl IntoIterator<Item = u32>) {
        self.positions.push(position as u32);
        self.words.extend(words);
    }

    /// Cuts the share into pieces of at most `max_items`, as positions and words.
    pub(crate) fn pieces(&self, max_items: usize, words_per_item: usize) -> impl Iterator<Item = (&[u32], &[u32])> {
        self.positions.chunks(max_items).zip(self.words.chunks(max_items * words_per_item))
    }
}

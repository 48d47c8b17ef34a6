//! The ids of edges: ids in their table, or positions in the dataset.

use super::Dataset;
use crate::GraphError;
use crate::memory::{Buffer, Workspace};
use serde::{Deserialize, Serialize};

/// The name of a step in progress reports.
const STEP: &str = "reordering the ids of edges";
/// The name of the step that numbers edges, in progress reports.
const NUMBERING: &str = "numbering edges";
/// The number of texts that are gathered at once.
const TEXTS_AT_ONCE: usize = 1 << 16;

/// The ids that edges have in their table, or their positions in the dataset, one per edge. An edge and its reverse have the
/// same id.
#[derive(Clone, Debug)]
pub enum EdgeIds {
    /// Whole numbers.
    Numbers(Buffer<i64>),
    /// Texts.
    Texts(TextArray),
}

/// The kind of the ids of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EdgeIdKind {
    /// Whole numbers.
    Numbers,
    /// Texts.
    Texts,
}

/// The id of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeId<'a> {
    /// A whole number.
    Number(i64),
    /// The bytes of a text.
    Text(&'a [u8]),
}

/// Texts, end to end.
///
/// Invariant: `ends` does not decrease, and its last entry is the number of bytes.
#[derive(Clone, Debug, Default)]
pub struct TextArray {
    bytes: Buffer<u8>,
    ends: Buffer<u64>,
}

impl Dataset {
    /// Gives each edge an id, its position among the edges of its type, with the ids in `space`.
    ///
    /// # Errors
    /// [`GraphError::Dataset`] for edges that have ids of their table, and [`GraphError::Scratch`].
    pub fn number_edges_in(&mut self, space: &Workspace) -> Result<(), GraphError> {
        if let Some(edges) = self.edge_types.iter().find(|edges| edges.attributes.ids.is_some()) {
            let name = self.edge_type_name(edges);
            let why = format!("edges of type {name} have ids of their table: leave out `edge_ids`, or `edge_id_col`");
            return Err(GraphError::Dataset { dataset: self.name.clone(), why });
        }
        for edges in &mut self.edge_types {
            let numbers = space.build(edges.src.len(), NUMBERING, |range| Ok(range.map(|at| at as i64).collect()))?;
            edges.attributes.ids = Some(EdgeIds::Numbers(numbers));
        }
        Ok(())
    }
}

impl EdgeIds {
    /// Returns the number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Returns true if there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the kind of the ids.
    pub fn kind(&self) -> EdgeIdKind {
        match self {
            Self::Numbers(_) => EdgeIdKind::Numbers,
            Self::Texts(_) => EdgeIdKind::Texts,
        }
    }

    /// Returns the id of an edge.
    ///
    /// # Panics
    /// If there is no such edge.
    pub fn get(&self, edge: usize) -> EdgeId<'_> {
        match self {
            Self::Numbers(numbers) => EdgeId::Number(numbers[edge]),
            Self::Texts(texts) => EdgeId::Text(texts.get(edge)),
        }
    }

    /// Returns ids of a kind without any edge.
    pub(crate) fn none(kind: EdgeIdKind) -> Self {
        match kind {
            EdgeIdKind::Numbers => Self::Numbers(Buffer::default()),
            EdgeIdKind::Texts => Self::Texts(TextArray::default()),
        }
    }

    /// Returns the ids as texts. A number becomes its decimal form.
    pub(crate) fn to_texts(&self) -> TextArray {
        match self {
            Self::Texts(texts) => texts.clone(),
            Self::Numbers(numbers) => TextArray::of(numbers.iter().map(i64::to_string)),
        }
    }

    /// Returns the ids at `positions`, in that order, in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    ///
    /// # Panics
    /// If a position is out of range.
    pub fn select_in(&self, space: &Workspace, positions: &[u64]) -> Result<Self, GraphError> {
        let texts = match self {
            Self::Texts(texts) => texts,
            Self::Numbers(numbers) => return Ok(Self::Numbers(space.select_rows(numbers, 1, positions, STEP)?)),
        };
        let mut bytes = space.growing()?;
        let mut ends = space.growing()?;
        let mut end = 0;
        for positions in positions.chunks(TEXTS_AT_ONCE) {
            let mut of_chunk = Vec::new();
            let mut ends_of_chunk = Vec::with_capacity(positions.len());
            for &at in positions {
                of_chunk.extend_from_slice(texts.get(at as usize));
                ends_of_chunk.push(end + of_chunk.len() as u64);
            }
            end += of_chunk.len() as u64;
            bytes.append(of_chunk)?;
            ends.append(ends_of_chunk)?;
        }
        Ok(Self::Texts(TextArray { bytes: bytes.finish()?, ends: ends.finish()? }))
    }

    /// Joins ids of one kind, of at least one list.
    pub(crate) fn joined(all: &[&Self]) -> Option<Self> {
        Some(match all.first()?.kind() {
            EdgeIdKind::Texts => Self::Texts(TextArray::of(all.iter().flat_map(|ids| ids.texts()))),
            EdgeIdKind::Numbers => {
                let numbers: Vec<i64> = all.iter().flat_map(|ids| ids.numbers()).copied().collect();
                Self::Numbers(numbers.into())
            }
        })
    }

    /// Returns the numbers; none for texts.
    pub(crate) fn numbers(&self) -> &[i64] {
        match self {
            Self::Numbers(numbers) => numbers,
            Self::Texts(_) => &[],
        }
    }

    /// Returns the texts; none for numbers.
    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        let (count, texts) = match self {
            Self::Numbers(_) => (0, None),
            Self::Texts(texts) => (texts.len(), Some(texts)),
        };
        (0..count).filter_map(move |at| texts.map(|texts| texts.get(at)))
    }

    /// Returns the number of bytes in files, without their headers.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match self {
            Self::Numbers(numbers) => 8 * numbers.len() as u64,
            Self::Texts(texts) => 8 * texts.len() as u64 + texts.bytes.len() as u64,
        }
    }

    /// Gives the memory of mapped arrays back to the system until they are read again.
    pub(crate) fn release_pages(&self) {
        match self {
            Self::Numbers(numbers) => numbers.release_pages(),
            Self::Texts(texts) => {
                texts.bytes.release_pages();
                texts.ends.release_pages();
            }
        }
    }
}

impl EdgeIdKind {
    /// Returns the names of the arrays of such ids in the folder of an edge type, without the extension.
    pub(crate) fn arrays(self) -> &'static [&'static str] {
        match self {
            Self::Numbers => &["ids"],
            Self::Texts => &["id_ends", "id_bytes"],
        }
    }
}

impl EdgeId<'_> {
    /// Returns a number by which ids of one kind are compared. Different texts have the same one with a probability of
    /// 2^-128.
    pub fn key(self) -> u128 {
        match self {
            Self::Number(number) => number as u128,
            Self::Text(text) => xxhash_rust::xxh3::xxh3_128(text),
        }
    }
}

/// Shows the id as it is in the table.
impl std::fmt::Display for EdgeId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl TextArray {
    /// Makes an array of texts in memory.
    pub fn of<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for text in texts {
            bytes.extend_from_slice(text.as_ref());
            ends.push(bytes.len() as u64);
        }
        Self { bytes: bytes.into(), ends: ends.into() }
    }

    /// Makes an array of texts from their bytes, end to end, and the end of each.
    ///
    /// # Errors
    /// Ends that decrease, or whose last one is not the number of bytes.
    pub fn new(bytes: Buffer<u8>, ends: Buffer<u64>) -> Result<Self, String> {
        if let Some(at) = ends.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(format!("the end of text {} is before its start", at + 1));
        }
        let end = ends.last().copied().unwrap_or(0);
        if end != bytes.len() as u64 {
            return Err(format!("the last text ends at byte {end}, but there are {} bytes", bytes.len()));
        }
        Ok(Self { bytes, ends })
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of a text.
    ///
    /// # Panics
    /// If there is no such text.
    pub fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_selected_and_joined() {
        let dir = tempfile::tempdir().unwrap();
        let texts = TextArray::of(["a", "", "ccc", "dd"]);
        let numbers = EdgeIds::Numbers(vec![7, -1, 5, 9].into());
        for space in [Workspace::default(), Workspace::scratch(dir.path(), 1 << 20, ()).unwrap()] {
            for ids in [EdgeIds::Texts(texts.clone()), numbers.clone()] {
                let positions = [3, 0, 2, 1, 1];
                let selected = ids.select_in(&space, &positions).unwrap();
                assert_eq!((selected.len(), selected.kind()), (5, ids.kind()));
                let joined = EdgeIds::joined(&[&ids, &selected]).unwrap();
                for (at, &position) in positions.iter().enumerate() {
                    let expected = ids.get(position as usize);
                    assert_eq!([selected.get(at), joined.get(4 + at)], [expected; 2]);
                }
            }
        }
        assert_eq!(numbers.to_texts().get(1), b"-1");
    }

    #[test]
    fn ends_must_ascend_to_the_number_of_bytes() {
        let bytes: Buffer<u8> = b"abc".to_vec().into();
        for (ends, why) in [
            (vec![2, 1, 3], "the end of text 1 is before its start"),
            (vec![1, 4], "the last text ends at byte 4, but there are 3 bytes"),
            (vec![], "the last text ends at byte 0, but there are 3 bytes"),
        ] {
            assert_eq!(TextArray::new(bytes.clone(), ends.into()).unwrap_err(), why);
        }
        assert!(TextArray::new(bytes, vec![0, 3].into()).is_ok());
    }
}

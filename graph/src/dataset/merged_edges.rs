//! The choice of the one edge that an undirected graph keeps among edges with the same ends.

use super::{EdgeData, HoldOutChoice};

/// The edge that stays of several with the same source and destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeptDuplicate {
    /// The first one.
    #[default]
    First,
    /// The one with the latest time, and of these the first one. Without times, the first one.
    Latest,
}

impl KeptDuplicate {
    /// Returns the word for the edge in texts.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Latest => "latest",
        }
    }

    /// Returns the word for the edges that do not stay.
    pub(super) fn word_of_others(self) -> &'static str {
        match self {
            Self::First => "later",
            Self::Latest => "other",
        }
    }

    /// Returns the edge to keep before edges are held out by `choice`, `None` if none are. The latest edges are held out by
    /// the last time of two nodes, regardless of the order in which their edges are stored.
    pub fn before(choice: Option<HoldOutChoice>) -> Self {
        match choice {
            Some(HoldOutChoice::Latest) => Self::Latest,
            Some(HoldOutChoice::Random) | None => Self::First,
        }
    }
}

/// The order in which edges of a type replace others with the same ends.
pub(super) struct Precedence<'a> {
    num_edges: u64,
    /// The times of edges, if the latest one stays.
    times: Option<&'a [i64]>,
}

impl<'a> Precedence<'a> {
    pub(super) fn new(edges: &'a EdgeData, kept: KeptDuplicate) -> Self {
        let times = edges.attributes.times.as_deref().filter(|_| kept == KeptDuplicate::Latest);
        Self { num_edges: edges.src.len() as u64, times }
    }

    /// Returns true if the edge at the position `other` stays in place of an earlier one at `kept`. Positions from the number
    /// of edges on belong to reverses, which never replace an edge.
    pub(super) fn replaces(&self, kept: u64, other: u64) -> bool {
        let Some(times) = self.times else { return false };
        let is_reverse = [kept, other].map(|position| position >= self.num_edges);
        let [kept, other] = [kept, other].map(|position| times[(position % self.num_edges) as usize]);
        is_reverse[0] == is_reverse[1] && other > kept
    }
}

//! The edges of one type and their attributes.

use super::given_negatives::{GivenNegatives, NegativesMeta};
use super::{EdgeIds, EdgeLabels};
use crate::GraphError;
use crate::NodeTypeId;
use crate::memory::{Buffer, Features, Workspace, select_rows};

/// The edges of one type, directed from source to destination.
#[derive(Clone, Debug)]
pub struct EdgeData {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The name of the relation.
    pub relation: String,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The source of every edge, as an original id.
    pub src: Buffer<u32>,
    /// The destination of every edge, as an original id.
    pub dst: Buffer<u32>,
    /// The attributes of the edges, in the order of the edges.
    pub attributes: EdgeAttributes,
    /// The held-out edges, which are not among the edges above.
    pub held_out: HeldOutEdges,
}

/// The attributes of edges, with one row per edge.
#[derive(Clone, Debug, Default)]
pub struct EdgeAttributes {
    /// The features, `[num_edges, dim]`.
    pub features: Option<Features>,
    /// The sampling weight of each edge relative to the other edges into its destination. Finite and not negative.
    pub weights: Option<Buffer<f32>>,
    /// The creation time of each edge, in any unit.
    pub times: Option<Buffer<i64>>,
    /// The labels of the edges, and the split of each edge.
    pub labels: Option<EdgeLabels>,
    /// The ids of the edges.
    pub ids: Option<EdgeIds>,
}

/// Edges for the evaluation of link prediction. No messages flow over them. Their ids are in the same id space as the
/// training edges that they belong to.
///
/// Invariant: partitioning, sampling and the measures of a partitioning do not see held-out edges.
#[derive(Clone, Debug, Default)]
pub struct HeldOutEdges {
    /// Edges that select the best epoch.
    pub valid: EdgeList,
    /// Edges for the final evaluation.
    pub test: EdgeList,
}

/// A list of edges with optional times and negatives.
#[derive(Clone, Debug, Default)]
pub struct EdgeList {
    /// The source of each edge.
    pub src: Buffer<u32>,
    /// The destination of each edge, as many as sources.
    pub dst: Buffer<u32>,
    /// The time of each edge, if known, in the unit of the training edges' times.
    pub times: Option<Buffer<i64>>,
    /// The pairs against which the edges are ranked, if the dataset gives them.
    pub negatives: Option<GivenNegatives>,
}

impl EdgeData {
    /// Creates edges that have neither attributes nor held-out edges.
    pub fn new(
        src_type: NodeTypeId,
        relation: impl Into<String>,
        dst_type: NodeTypeId,
        src: Buffer<u32>,
        dst: Buffer<u32>,
    ) -> Self {
        Self {
            src_type,
            relation: relation.into(),
            dst_type,
            src,
            dst,
            attributes: EdgeAttributes::default(),
            held_out: HeldOutEdges::default(),
        }
    }
}

impl EdgeAttributes {
    /// Returns true if there are no attributes.
    pub fn is_empty(&self) -> bool {
        let Self { features, weights, times, labels, ids } = self;
        features.is_none() && weights.is_none() && times.is_none() && labels.is_none() && ids.is_none()
    }

    /// Returns true if a digest of the edges has attributes. Ids only name edges.
    pub(crate) fn is_in_digests(&self) -> bool {
        let Self { features, weights, times, labels, ids: _ } = self;
        features.is_some() || weights.is_some() || times.is_some() || labels.is_some()
    }

    /// Returns the rows at `positions`, in that order, in `space`.
    ///
    /// # Errors
    /// [`GraphError::Scratch`].
    ///
    /// # Panics
    /// If a position is out of range.
    pub(crate) fn select_in(&self, space: &Workspace, positions: &[u64]) -> Result<Self, GraphError> {
        const STEP: &str = "reordering attributes";
        let Self { features, weights, times, labels, ids } = self;
        Ok(Self {
            features: features.as_ref().map(|features| features.select_in(space, positions)).transpose()?,
            weights: weights.as_ref().map(|weights| space.select_rows(weights, 1, positions, STEP)).transpose()?,
            times: times.as_ref().map(|times| space.select_rows(times, 1, positions, STEP)).transpose()?,
            labels: labels.as_ref().map(|labels| labels.select_in(space, positions)).transpose()?,
            ids: ids.as_ref().map(|ids| ids.select_in(space, positions)).transpose()?,
        })
    }
}

impl EdgeList {
    /// Creates a list without times and negatives.
    pub fn new(src: Buffer<u32>, dst: Buffer<u32>) -> Self {
        Self { src, dst, times: None, negatives: None }
    }

    /// Returns the number of edges.
    pub fn len(&self) -> usize {
        self.src.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.src.is_empty()
    }

    /// Returns the edges at `positions`, in that order.
    ///
    /// # Panics
    /// If a position is out of range.
    pub(crate) fn select(&self, positions: &[u64]) -> Self {
        Self {
            src: select_rows(&self.src, 1, positions).into(),
            dst: select_rows(&self.dst, 1, positions).into(),
            times: self.times.as_ref().map(|times| select_rows(times, 1, positions).into()),
            negatives: self.negatives.as_ref().map(|negatives| negatives.select(positions)),
        }
    }

    /// Returns the list with sources and destinations swapped.
    pub(crate) fn reversed(&self) -> Self {
        let negatives = self.negatives.as_ref().and_then(GivenNegatives::reversed);
        Self { src: self.dst.clone(), dst: self.src.clone(), times: self.times.clone(), negatives }
    }
}

impl HeldOutEdges {
    /// Returns true if there are no held-out edges.
    pub fn is_empty(&self) -> bool {
        self.valid.is_empty() && self.test.is_empty()
    }

    /// Returns both lists with sources and destinations swapped.
    pub(crate) fn reversed(&self) -> Self {
        Self { valid: self.valid.reversed(), test: self.test.reversed() }
    }

    /// Returns true if there are held-out edges and all of them have times.
    pub fn has_times(&self) -> bool {
        !self.is_empty() && self.lists().iter().all(|(_, list)| list.is_empty() || list.times.is_some())
    }

    /// Returns the kind and number of the given negatives of both lists.
    pub(crate) fn negatives(&self) -> [Option<NegativesMeta>; 2] {
        self.lists().map(|(_, list)| list.negatives.as_ref().map(GivenNegatives::meta))
    }

    /// Checks that both non-empty lists have times or neither has.
    ///
    /// # Errors
    /// Names the list without times.
    pub(crate) fn check_times(&self) -> Result<(), String> {
        for (name, list) in self.lists() {
            let other_has_times = self.lists().iter().any(|(_, list)| !list.is_empty() && list.times.is_some());
            if !list.is_empty() && list.times.is_none() && other_has_times {
                return Err(format!(
                    "the held-out {name} edges have no times, but the other held-out edges do: add times to both \
                     lists or to neither"
                ));
            }
        }
        Ok(())
    }

    /// Returns both lists with their names in files and errors.
    pub fn lists(&self) -> [(&'static str, &EdgeList); 2] {
        [("valid", &self.valid), ("test", &self.test)]
    }
}

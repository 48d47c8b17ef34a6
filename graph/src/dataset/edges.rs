//! The edges of one type, with what they carry.

use crate::{Buffer, Features, NodeTypeId};
use bytemuck::Pod;
use rayon::prelude::*;

/// The edges of one type, each from a source to a destination.
#[derive(Clone, Debug)]
pub struct EdgeData {
    /// The type of the sources.
    pub src_type: NodeTypeId,
    /// The relation's name.
    pub relation: String,
    /// The type of the destinations.
    pub dst_type: NodeTypeId,
    /// The source of every edge, an original id.
    pub src: Buffer<u32>,
    /// The destination of every edge, an original id.
    pub dst: Buffer<u32>,
    /// What edges carry besides their ends, in their order.
    pub attributes: EdgeAttributes,
    /// Edges that are not among those above.
    pub held_out: HeldOutEdges,
}

/// What edges carry besides their ends, a row an edge.
#[derive(Clone, Debug, Default)]
pub struct EdgeAttributes {
    /// Features `[num_edges, dim]`.
    pub features: Option<Features>,
    /// How likely an edge is to be drawn against the others into its destination; finite, not negative.
    pub weights: Option<Buffer<f32>>,
    /// When each edge came to be, in any unit.
    pub times: Option<Buffer<i64>>,
}

/// Edges that link prediction is judged by: no message flows over them. The ids are of the id space that the edges
/// beside them have.
#[derive(Clone, Debug, Default)]
pub struct HeldOutEdges {
    /// Edges that choose the epoch.
    pub valid: EdgeList,
    /// Edges that are looked at once, at the end.
    pub test: EdgeList,
}

/// Edges as their two ends, and when they came to be.
#[derive(Clone, Debug, Default)]
pub struct EdgeList {
    /// Sources.
    pub src: Buffer<u32>,
    /// Destinations, as many.
    pub dst: Buffer<u32>,
    /// The time of each edge, if times are known, in the unit of the times of the edges beside them.
    pub times: Option<Buffer<i64>>,
}

impl EdgeData {
    /// Edges without attributes.
    pub fn new(
        src_type: NodeTypeId,
        relation: impl Into<String>,
        dst_type: NodeTypeId,
        src: Buffer<u32>,
        dst: Buffer<u32>,
    ) -> Self {
        let (attributes, held_out) = Default::default();
        Self { src_type, relation: relation.into(), dst_type, src, dst, attributes, held_out }
    }
}

impl EdgeAttributes {
    /// Whether edges carry nothing.
    pub fn is_empty(&self) -> bool {
        self.features.is_none() && self.weights.is_none() && self.times.is_none()
    }

    /// The rows at `positions`, in that order.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn select(&self, positions: &[u64]) -> Self {
        let features = self.features.as_ref().map(|features| match features {
            Features::F32 { values, dim } => Features::F32 { values: select_rows(values, *dim, positions), dim: *dim },
            Features::F16 { values, dim } => Features::F16 { values: select_rows(values, *dim, positions), dim: *dim },
        });
        Self {
            features,
            weights: self.weights.as_ref().map(|weights| select_rows(weights, 1, positions)),
            times: self.times.as_ref().map(|times| select_rows(times, 1, positions)),
        }
    }
}

impl EdgeList {
    /// Edges without times.
    pub fn new(src: Buffer<u32>, dst: Buffer<u32>) -> Self {
        Self { src, dst, times: None }
    }

    /// The number of edges.
    pub fn len(&self) -> usize {
        self.src.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.src.is_empty()
    }

    /// The same edges from destination to source.
    pub fn reversed(&self) -> Self {
        Self { src: self.dst.clone(), dst: self.src.clone(), times: self.times.clone() }
    }
}

impl HeldOutEdges {
    /// Whether there is none of either kind.
    pub fn is_empty(&self) -> bool {
        self.valid.is_empty() && self.test.is_empty()
    }

    /// The same edges from destination to source.
    pub fn reversed(&self) -> Self {
        Self { valid: self.valid.reversed(), test: self.test.reversed() }
    }

    /// Returns whether there are held-out edges and all of them have times.
    pub fn has_times(&self) -> bool {
        !self.is_empty() && self.lists().iter().all(|(_, list)| list.is_empty() || list.times.is_some())
    }

    /// Checks that both lists have times, or neither has.
    ///
    /// # Errors
    /// The list that has no times.
    pub(crate) fn check_times(&self) -> Result<(), String> {
        for (name, list) in self.lists() {
            let other_has_times = self.lists().iter().any(|(_, list)| !list.is_empty() && list.times.is_some());
            if !list.is_empty() && list.times.is_none() && other_has_times {
                return Err(format!(
                    "the held-out {name} edges have no times, but the other held-out edges have: give both times, or \
                     neither"
                ));
            }
        }
        Ok(())
    }

    /// Both lists with the names that files and errors have for them.
    pub fn lists(&self) -> [(&'static str, &EdgeList); 2] {
        [("valid", &self.valid), ("test", &self.test)]
    }
}

/// Rows of a row-major matrix.
fn select_rows<T: Pod + Send + Sync>(values: &[T], dim: usize, positions: &[u64]) -> Buffer<T> {
    let mut out = vec![T::zeroed(); positions.len() * dim];
    let copy = |(out, &row): (&mut [T], &u64)| out.copy_from_slice(&values[row as usize * dim..][..dim]);
    out.par_chunks_exact_mut(dim).zip(positions).for_each(copy);
    out.into()
}

//! The order of training and held-out edges in time.

use edgecut_graph::{EdgeList, EdgeTypeId, Part};

/// The times of the edges of a type, by part.
struct Times<'a> {
    train: Vec<&'a [i64]>,
    valid: Vec<&'a [i64]>,
    test: Vec<&'a [i64]>,
}

/// Returns the number of training and validation edges of a type in parts that are later than an edge of a later split, or
/// `None` if no held-out edge has a time.
pub(super) fn num_misordered(parts: &[Part], edge_type: EdgeTypeId) -> Option<u64> {
    let edges: Vec<_> = parts.iter().map(|part| part.edges(edge_type)).collect();
    Times {
        train: edges.iter().filter_map(|edges| edges.attributes.times.as_deref()).collect(),
        valid: edges.iter().filter_map(|edges| times(&edges.held_out.valid)).collect(),
        test: edges.iter().filter_map(|edges| times(&edges.held_out.test)).collect(),
    }
    .num_misordered()
}

fn times(list: &EdgeList) -> Option<&[i64]> {
    list.times.as_deref()
}

impl Times<'_> {
    fn num_misordered(&self) -> Option<u64> {
        let first_test = earliest(&self.test);
        let first_held_out = earliest(&self.valid).into_iter().chain(first_test).min()?;
        let num_valid = first_test.map_or(0, |first| num_later(&self.valid, first));
        Some(num_later(&self.train, first_held_out) + num_valid)
    }
}

fn earliest(pieces: &[&[i64]]) -> Option<i64> {
    pieces.iter().copied().flatten().min().copied()
}

fn num_later(pieces: &[&[i64]], limit: i64) -> u64 {
    pieces.iter().copied().flatten().filter(|&&time| time > limit).count() as u64
}

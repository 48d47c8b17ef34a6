//! The greatest contributions to a score.

use super::{Contribution, ExplainedInput};
use std::cmp::Ordering;

/// The number of kinds of contributions: nodes, their columns, edges and their columns.
const KINDS: usize = 4;

/// The greatest contributions of each kind to a score.
pub(super) struct Ranked {
    top: usize,
    sum: f64,
    kinds: [Vec<Contribution>; KINDS],
}

impl Ranked {
    pub(super) fn new(top: usize) -> Self {
        Self { top, sum: 0.0, kinds: Default::default() }
    }

    /// Adds a node or an edge. The columns from `feature_dim` on count together.
    pub(super) fn add(&mut self, input: ExplainedInput, feature_dim: usize, values: &[f32], contributions: &[f32]) {
        let mut sum = 0.0;
        let mut of_embedding = 0.0;
        for (column, (&value, &contribution)) in values.iter().zip(contributions).enumerate() {
            sum += f64::from(contribution);
            if column < feature_dim {
                self.push(input, Some(column as u32), value, contribution);
            } else {
                of_embedding += f64::from(contribution);
            }
        }
        if values.len() > feature_dim {
            self.push(input, Some(feature_dim as u32), f32::NAN, of_embedding as f32);
        }
        self.push(input, None, f32::NAN, sum as f32);
        self.sum += sum;
    }

    fn push(&mut self, input: ExplainedInput, column: Option<u32>, value: f32, contribution: f32) {
        if contribution == 0.0 {
            return;
        }
        let of_edges = matches!(input, ExplainedInput::Edge(..));
        let kind = &mut self.kinds[2 * usize::from(of_edges) + usize::from(column.is_some())];
        kind.push(Contribution { input, column, rank: 0, value, contribution });
        // Bounds the memory for neighborhoods of many nodes.
        if kind.len() >= 2 * self.top + 1024 {
            keep(kind, self.top);
        }
    }

    /// Returns the sum of all contributions and the greatest ones of each kind.
    pub(super) fn finish(mut self) -> (f64, Vec<Contribution>) {
        let mut all = Vec::new();
        for kind in &mut self.kinds {
            keep(kind, self.top);
            for (contribution, rank) in kind.iter_mut().zip(1..) {
                contribution.rank = rank;
            }
            all.append(kind);
        }
        (self.sum, all)
    }
}

/// Sorts contributions and removes all but the greatest.
fn keep(contributions: &mut Vec<Contribution>, top: usize) {
    contributions.sort_by(by_size);
    contributions.truncate(top);
}

/// Orders contributions by their absolute values, descending, then by their inputs.
fn by_size(a: &Contribution, b: &Contribution) -> Ordering {
    let by_value = b.contribution.abs().total_cmp(&a.contribution.abs());
    by_value.then_with(|| a.input.cmp(&b.input)).then_with(|| a.column.cmp(&b.column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_graph::{EdgeTypeId, NodeTypeId};

    fn node(id: u32) -> ExplainedInput {
        ExplainedInput::Node(NodeTypeId(0), id)
    }

    #[test]
    fn the_greatest_contributions_of_each_kind_are_kept() {
        let mut ranked = Ranked::new(2);
        for id in 0..3000 {
            ranked.add(node(id), 1, &[1.0, 5.0, 5.0], &[id as f32, -0.25, -0.25]);
        }
        ranked.add(ExplainedInput::Edge(EdgeTypeId(1), 7, 8), 2, &[0.0, 3.0], &[0.0, -2.0]);
        let (sum, kept) = ranked.finish();
        assert_eq!(sum, f64::from(2999 * 1500 - 1500) - 2.0);
        let found: Vec<_> = kept.iter().map(|c| (c.input, c.column, c.rank, c.contribution)).collect();
        let edge = ExplainedInput::Edge(EdgeTypeId(1), 7, 8);
        let expected = [
            (node(2999), None, 1, 2998.5),
            (node(2998), None, 2, 2997.5),
            (node(2999), Some(0), 1, 2999.0),
            (node(2998), Some(0), 2, 2998.0),
            (edge, None, 1, -2.0),
            (edge, Some(1), 1, -2.0),
        ];
        assert_eq!(found, expected);
    }
}

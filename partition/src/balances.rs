//! The balance factors of parts.

use edgecut_graph::part_writer::fraction;
use edgecut_graph::{PartMeta, Report};
use serde::Serialize;

/// Balance factors: the largest part's share over the mean. 1 is perfectly even; 0 means that the graph has none of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Balances {
    /// The factor of nodes.
    pub nodes: f64,
    /// The factor of edges.
    pub edges: f64,
    /// The factor of training nodes.
    pub train_nodes: f64,
    /// The factor of halo nodes.
    pub halo_nodes: f64,
}

impl Balances {
    /// Computes the balance factors of a report.
    pub fn new(report: &Report) -> Self {
        let factor = |count: fn(&PartMeta) -> u64| {
            let total: u64 = report.parts.iter().map(count).sum();
            let most = report.parts.iter().map(count).max().unwrap_or(0);
            fraction(most as f64 * report.parts.len() as f64, total)
        };
        Self {
            nodes: factor(|p| p.nodes),
            edges: factor(|p| p.edges),
            train_nodes: factor(|p| p.train_nodes),
            halo_nodes: factor(|p| p.halo_nodes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(nodes: u64, edges: u64, train_nodes: u64) -> PartMeta {
        PartMeta { nodes, edges, train_nodes, halo_nodes: 0 }
    }

    #[test]
    fn the_largest_part_is_compared_with_the_mean() {
        let parts = vec![part(2, 4, 1), part(4, 0, 0)];
        let report = Report { parts, cut_edges: 2, cut_fraction: 0.5, remote_neighbor_fraction: 0.5 };
        let balances = Balances::new(&report);
        assert_eq!((balances.nodes, balances.edges, balances.train_nodes), (1.333_333_333, 2.0, 2.0));
        assert_eq!(balances.halo_nodes, 0.0, "of nothing");
    }
}

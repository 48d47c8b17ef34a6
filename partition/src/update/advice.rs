//! The advice to partition again.

use crate::Balances;
use edgecut_graph::{Meta, Report};
use serde::Serialize;

/// The growth of the cut since the partitioning from which on to partition again.
const CUT_GROWTH: f64 = 1.25;
/// The share of edges by which the cut must also have grown, since the growth of a small cut does not matter.
const CUT_SHARE: f64 = 0.02;
/// The balance of nodes or edges from which on to partition again.
const BALANCE: f64 = 1.1;
/// The growth of a balance that is required as well, since some graphs cannot be balanced.
const BALANCE_GROWTH: f64 = 0.05;

/// The quality of a partitioning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// The fraction of edges whose ends are in different parts.
    pub cut_fraction: f64,
    /// The nodes of the largest part over the mean.
    pub node_balance: f64,
    /// The edges of the largest part over the mean.
    pub edge_balance: f64,
}

impl Quality {
    /// Returns the quality in a report.
    pub fn new(report: &Report) -> Self {
        let balances = Balances::new(report);
        Self { cut_fraction: report.cut_fraction, node_balance: balances.nodes, edge_balance: balances.edges }
    }
}

/// The quality of a partitioning over its updates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The number of updates.
    pub updates: u32,
    /// The quality when the graph was partitioned.
    pub partitioned: Quality,
    /// The quality before this update.
    pub before: Quality,
    /// The quality after this update.
    pub after: Quality,
    /// The reasons to partition again; none if the parts are still good.
    pub reasons: Vec<String>,
}

impl Advice {
    /// Compares the report before an update with the updated parts.
    pub(super) fn new(before: &Report, updated: &Meta) -> Self {
        let before = Quality::new(before);
        let after = Quality::new(&updated.report);
        let (updates, partitioned) = match &updated.provenance.updates {
            None => (0, before),
            Some(updates) => {
                let quality = Quality {
                    cut_fraction: updates.cut_fraction,
                    node_balance: updates.node_balance,
                    edge_balance: updates.edge_balance,
                };
                (updates.number, quality)
            }
        };
        Self { updates, partitioned, before, after, reasons: reasons(&partitioned, &after) }
    }
}

/// Returns the limits from which on to partition again, as a sentence.
pub fn update_limits() -> String {
    format!(
        "Partition again if the cut is more than {CUT_GROWTH} times and {} percentage points above the cut of the partitioning, or \
         a balance is above {BALANCE} and {BALANCE_GROWTH} above the balance of the partitioning",
        CUT_SHARE * 100.0
    )
}

/// Returns the reasons to partition again.
fn reasons(partitioned: &Quality, now: &Quality) -> Vec<String> {
    let mut reasons = Vec::new();
    let cut = now.cut_fraction;
    let first_cut = partitioned.cut_fraction;
    if cut > first_cut * CUT_GROWTH && cut > first_cut + CUT_SHARE {
        reasons.push(format!(
            "the cut is {:.2} % of the edges, and was {:.2} % when the graph was partitioned (limits: {CUT_GROWTH} times as \
             many, and {} percentage points more)",
            cut * 100.0,
            first_cut * 100.0,
            CUT_SHARE * 100.0
        ));
    }
    for (what, now, first) in
        [("nodes", now.node_balance, partitioned.node_balance), ("edges", now.edge_balance, partitioned.edge_balance)]
    {
        if now > BALANCE && now > first + BALANCE_GROWTH {
            reasons.push(format!(
                "the largest part has {now:.3} times the mean number of {what}, and had {first:.3} times when the graph was \
                 partitioned (limits: {BALANCE}, and {BALANCE_GROWTH} more)"
            ));
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(cut_fraction: f64, node_balance: f64, edge_balance: f64) -> Quality {
        Quality { cut_fraction, node_balance, edge_balance }
    }

    #[test]
    fn only_a_cut_and_a_balance_that_have_grown_are_reasons() {
        let first = quality(0.1, 1.03, 1.3);
        assert!(reasons(&first, &quality(0.125, 1.1, 1.35)).is_empty());
        let found = reasons(&first, &quality(0.13, 1.2, 1.3));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("the cut is 13.00 % of the edges, and was 10.00 %"), "{found:?}");
        assert!(found[1].contains("1.200 times the mean number of nodes"), "{found:?}");
        assert!(reasons(&quality(0.001, 1.0, 1.0), &quality(0.02, 1.0, 1.0)).is_empty(), "a small cut");
    }
}

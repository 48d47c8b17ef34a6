//! The arguments of generated graphs.

use clap::Args;
use edgecut_graph::readers::FakeOptions;

/// The options of the graph that `--dataset fake` and `fake-hetero` generate.
#[derive(Debug, Args)]
#[command(next_help_heading = "Generated graph (--dataset fake, fake-hetero)")]
pub(super) struct FakeArgs {
    /// Number of nodes; for fake-hetero, of each node type [default: 1000].
    #[arg(long, alias = "avg_num_nodes")]
    avg_num_nodes: Option<usize>,
    /// Mean in-degree; for fake-hetero, of each edge type [default: 10].
    #[arg(long, alias = "avg_degree")]
    avg_degree: Option<f64>,
    /// Number of features per node [default: 64].
    #[arg(long, alias = "num_channels")]
    num_channels: Option<usize>,
    /// Number of classes [default: 10].
    #[arg(long, alias = "num_classes")]
    num_classes: Option<usize>,
    /// The seed of the generated graph [default: 0].
    #[arg(long, alias = "fake_seed")]
    fake_seed: Option<u64>,
    /// Generate weights, times and features of edges, and times of nodes; edges within a class weigh more.
    #[arg(long, alias = "edge_attributes")]
    edge_attributes: bool,
}

impl FakeArgs {
    /// Returns the first flag that is given.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--avg-num-nodes", self.avg_num_nodes.is_some()),
            ("--avg-degree", self.avg_degree.is_some()),
            ("--num-channels", self.num_channels.is_some()),
            ("--num-classes", self.num_classes.is_some()),
            ("--fake-seed", self.fake_seed.is_some()),
            ("--edge-attributes", self.edge_attributes),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    pub(super) fn options(&self) -> FakeOptions {
        let default = FakeOptions::default();
        FakeOptions {
            avg_num_nodes: self.avg_num_nodes.unwrap_or(default.avg_num_nodes),
            avg_degree: self.avg_degree.unwrap_or(default.avg_degree),
            num_channels: self.num_channels.unwrap_or(default.num_channels),
            num_classes: self.num_classes.unwrap_or(default.num_classes),
            seed: self.fake_seed.unwrap_or(default.seed),
            edge_attributes: self.edge_attributes,
            ..default
        }
    }
}

//! The flags of a plan of a cluster.

use crate::args::{not_negative, positive};
use clap::Args;
use edgecut_cli::parse_bytes;
use edgecut_cluster::share_of_cores;
use edgecut_graph::{GraphError, META_FILE, Meta};
use edgecut_trainer::cluster_plan::ClusterShape;
use serde::Serialize;
use std::path::Path;

/// The predicted numbers of nodes and bandwidths by default.
const NODES: [u32; 4] = [2, 8, 32, 128];
const GBIT_PER_SECOND: [f64; 4] = [1.0, 10.0, 25.0, 100.0];
/// The microseconds from one node to another by default, as in a data center.
const DELAY_US: f64 = 50.0;
/// The number of measured steps by default.
const STEPS: u32 = 20;

/// Flags of the prediction of a training on a cluster.
#[derive(Clone, Debug, Default, Args, Serialize)]
#[command(next_help_heading = "Plan")]
pub(crate) struct PlanArgs {
    /// Instead of training, measure a few steps of this training, and predict the time of an epoch, the received bytes and the
    /// memory of each process on clusters of other sizes. Needs at least two processes with a part each, which may run on this
    /// machine, and CPUs
    #[arg(long, conflicts_with_all = [
        "checkpoint_dir", "load_model", "metrics", "metrics_port", "report", "save_model", "stats", "tensorboard",
    ])]
    pub(crate) plan_cluster: bool,
    /// Numbers of nodes to predict for. Each node has a process and a part [default: 2,8,32,128]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "plan_cluster", value_parser = clap::value_parser!(u32).range(1..=65536))]
    plan_nodes: Vec<u32>,
    /// Cores of a node to predict for, or a share of one [default: the cores of this machine]
    #[arg(long, value_name = "C", requires = "plan_cluster", value_parser = positive)]
    plan_cores: Option<f64>,
    /// Bandwidths of each node's link to predict for, in Gbit/s in each direction [default: 1,10,25,100]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "plan_cluster", value_parser = positive)]
    plan_gbit: Vec<f64>,
    /// Microseconds from one node to another [default: 50]
    #[arg(long, value_name = "US", requires = "plan_cluster", value_parser = not_negative)]
    plan_delay_us: Option<f64>,
    /// Memory of a node, which is compared with the memory of its process, for example 64GiB
    #[arg(long, value_name = "BYTES", requires = "plan_cluster", value_parser = parse_bytes)]
    plan_memory: Option<u64>,
    /// Steps to measure [default: 20]
    #[arg(long, value_name = "N", requires = "plan_cluster", value_parser = clap::value_parser!(u32).range(1..))]
    plan_steps: Option<u32>,
}

/// The clusters to predict for, and the number of steps to measure.
pub(crate) struct Plan {
    pub(crate) num_steps: usize,
    pub(crate) clusters: Vec<ClusterShape>,
}

impl Plan {
    /// Takes the cuts of the same graph in other numbers of parts, which are in folders beside the `dir` of its parts.
    ///
    /// # Errors
    /// A folder of parts whose metadata cannot be read.
    pub(crate) fn find_cuts(&mut self, dir: &Path) -> Result<(), GraphError> {
        let meta = Meta::read(dir)?;
        for cluster in &mut self.clusters {
            let other = dir.with_file_name(format!("{}-parts", cluster.nodes));
            if !other.join(META_FILE).exists() {
                continue;
            }
            let other = Meta::read(&other)?;
            if other.dataset == meta.dataset && sizes(&other) == sizes(&meta) {
                cluster.remote_neighbors = Some(other.report.remote_neighbor_fraction);
            }
        }
        Ok(())
    }
}

/// Returns the numbers of nodes and edges of all types.
fn sizes(meta: &Meta) -> Vec<u64> {
    let nodes = meta.node_types.iter().map(|nodes| nodes.book.num_nodes() as u64);
    nodes.chain(meta.edge_types.iter().map(|edges| edges.num_edges)).collect()
}

impl PlanArgs {
    /// Returns the cores of a node.
    pub(crate) fn cores(&self) -> f64 {
        self.plan_cores.unwrap_or_else(|| share_of_cores(1) as f64)
    }

    /// Returns the plan if there is to be one. Each rank makes `batches_ahead` batches at the same time.
    pub(crate) fn plan(&self, batches_ahead: usize) -> Option<Plan> {
        if !self.plan_cluster {
            return None;
        }
        let nodes = if self.plan_nodes.is_empty() { &NODES[..] } else { &self.plan_nodes };
        let bandwidths = if self.plan_gbit.is_empty() { &GBIT_PER_SECOND[..] } else { &self.plan_gbit };
        let mut clusters = Vec::new();
        for &nodes in nodes {
            for &gbit_per_second in bandwidths {
                clusters.push(ClusterShape {
                    nodes: nodes as usize,
                    cores: self.cores(),
                    gbit_per_second,
                    delay_us: self.plan_delay_us.unwrap_or(DELAY_US),
                    batches_ahead,
                    remote_neighbors: None,
                    memory_bytes: self.plan_memory,
                });
            }
        }
        Some(Plan { num_steps: self.plan_steps.unwrap_or(STEPS) as usize, clusters })
    }
}

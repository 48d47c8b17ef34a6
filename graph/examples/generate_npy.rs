//! Generates a graph and writes it as a folder of `.npy` files, for programs in any language.

use clap::Parser;
use edgecut_graph::Workspace;
use edgecut_graph::readers::{FakeOptions, export_npy, fake_in};
use std::error::Error;
use std::path::PathBuf;

/// Generates a graph and writes it as a folder of .npy files.
#[derive(Debug, Parser)]
#[command(
    after_help = "Example:\n  generate_npy data/mygraph --avg-num-nodes 600000 --avg-degree 50 --num-channels 100"
)]
struct Args {
    /// The output folder; it is created if it does not exist
    dir: PathBuf,
    /// The number of nodes
    #[arg(long, value_name = "N", default_value_t = 5000)]
    avg_num_nodes: usize,
    /// The mean in-degree, counting both directions of each edge
    #[arg(long, value_name = "X", default_value_t = 20.0)]
    avg_degree: f64,
    /// The number of features per node
    #[arg(long, value_name = "N", default_value_t = 64)]
    num_channels: usize,
    /// The number of classes, each of which is a community
    #[arg(long, value_name = "N", default_value_t = 10)]
    num_classes: usize,
    /// The probability that an edge stays in its class
    #[arg(long, value_name = "P", default_value_t = 0.8)]
    homophily: f64,
    /// The distance of a class's mean features from the origin; the noise of each feature has variance 1
    #[arg(long, value_name = "X", default_value_t = 1.5)]
    feature_signal: f64,
    /// The share of training nodes
    #[arg(long, value_name = "P", default_value_t = 0.6)]
    train_fraction: f64,
    /// The share of validation nodes; the remaining nodes are test nodes
    #[arg(long, value_name = "P", default_value_t = 0.2)]
    valid_fraction: f64,
    /// The seed of all random choices
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Give edges weights, times and features, and give nodes times
    #[arg(long)]
    edge_attributes: bool,
    /// Make edges and features in scratch files in this folder, for graphs that do not fit into memory. About 48 bytes per
    /// node stay in memory
    #[arg(long, value_name = "DIR", conflicts_with = "edge_attributes")]
    scratch_dir: Option<PathBuf>,
}

/// The bytes that a step may take with `--scratch-dir`.
const WORK_BYTES: usize = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.dir).map_err(|e| format!("create {}: {e}", args.dir.display()))?;
    let options = FakeOptions {
        avg_num_nodes: args.avg_num_nodes,
        avg_degree: args.avg_degree,
        num_channels: args.num_channels,
        num_classes: args.num_classes,
        homophily: args.homophily,
        feature_signal: args.feature_signal,
        train_fraction: args.train_fraction,
        valid_fraction: args.valid_fraction,
        seed: args.seed,
        edge_attributes: args.edge_attributes,
        ..FakeOptions::default()
    };
    let space = match &args.scratch_dir {
        None => Workspace::default(),
        Some(dir) => Workspace::scratch(dir, WORK_BYTES, ())?,
    };
    export_npy(&fake_in(&space, &options)?, &args.dir)?;
    println!("{} nodes in {}", options.avg_num_nodes, args.dir.display());
    Ok(())
}

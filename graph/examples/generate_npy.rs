//! Writes a generated graph as a folder of `.npy` files, for programs in any language.

use clap::Parser;
use edgecut_graph::datasets::{FakeOptions, export_npy, fake};
use std::error::Error;
use std::path::PathBuf;

/// Writes a generated graph as a folder of .npy files.
#[derive(Debug, Parser)]
#[command(
    after_help = "Example:\n  generate_npy data/mygraph --avg-num-nodes 600000 --avg-degree 50 --num-channels 100"
)]
struct Args {
    /// The folder; it is made if it is not there
    dir: PathBuf,
    /// Nodes
    #[arg(long, value_name = "N", default_value_t = 5000)]
    avg_num_nodes: usize,
    /// The mean in-degree, counting both directions of each edge
    #[arg(long, value_name = "X", default_value_t = 20.0)]
    avg_degree: f64,
    /// Features per node
    #[arg(long, value_name = "N", default_value_t = 64)]
    num_channels: usize,
    /// Classes, each of which is a community
    #[arg(long, value_name = "N", default_value_t = 10)]
    num_classes: usize,
    /// The share of training nodes
    #[arg(long, value_name = "P", default_value_t = 0.6)]
    train_fraction: f64,
    /// The share of validation nodes; the others are test nodes
    #[arg(long, value_name = "P", default_value_t = 0.2)]
    valid_fraction: f64,
    /// The seed of every random choice
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Give edges weights, times and features, and nodes times
    #[arg(long)]
    edge_attributes: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    std::fs::create_dir_all(&args.dir).map_err(|e| format!("create {}: {e}", args.dir.display()))?;
    let options = FakeOptions {
        avg_num_nodes: args.avg_num_nodes,
        avg_degree: args.avg_degree,
        num_channels: args.num_channels,
        num_classes: args.num_classes,
        train_fraction: args.train_fraction,
        valid_fraction: args.valid_fraction,
        seed: args.seed,
        edge_attributes: args.edge_attributes,
        ..FakeOptions::default()
    };
    export_npy(&fake(&options)?, &args.dir)?;
    println!("{} nodes in {}", options.avg_num_nodes, args.dir.display());
    Ok(())
}

//! Supervised training of GraphSAGE on a partitioned graph, with a process per part, like GraphLearn-for-PyTorch's
//! distributed tutorial.

use anyhow::Context;
use clap::Parser;
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cluster::{Cluster, ClusterConfig};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, Fanout, SamplerConfig};
use edgecut_gnn::nn::Aggregation;
use edgecut_trainer::models::{ConvKind, SageSettings};
use edgecut_trainer::{
    Compiles, Cpu, EpochReport, FitConfig, NodePrediction, NodeTrainingConfig, Observer, SeedScores, TrainingConfig,
};
use std::path::PathBuf;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Trains GraphSAGE on a partitioned graph. Start one process per part, with the variables of a launcher.
#[derive(Parser)]
struct Args {
    /// The N-parts folder that partition-graph wrote
    #[arg(long)]
    dataset_root_dir: PathBuf,
    /// Number of epochs
    #[arg(long, default_value_t = 10)]
    epochs: u64,
    /// Seeds per batch and process
    #[arg(long, default_value_t = 512)]
    batch_size: usize,
}

fn main() -> anyhow::Result<()> {
    keep_memory();
    let args = Args::parse();
    let cluster = Cluster::join(ClusterConfig::from_env()?)?;
    train(&args, &cluster).with_context(|| format!("rank {}", cluster.rank()))?;
    Ok(cluster.shutdown()?)
}

fn train(args: &Args, cluster: &Cluster) -> anyhow::Result<()> {
    let part = DistGraph::open_part(&args.dataset_root_dir, cluster.rank(), cluster.world_size(), false)?;
    let part = Arc::new(part.with_edges_in_memory());
    let graph = DistGraph::start(part, cluster.clone(), DistGraphConfig::default())?;
    let mut world = cluster.world()?;
    world.barrier()?;
    let sampler = SamplerConfig::new([15, 10, 5].map(Fanout::Count).to_vec());
    let training = TrainingConfig {
        hidden_channels: 256,
        batch_size: args.batch_size,
        fit: FitConfig { num_epochs: args.epochs, lr: 0.01, ..FitConfig::default() },
        ..TrainingConfig::new(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), sampler)
    };
    let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
    let mut report = Report { rank: cluster.rank() };
    let fitted =
        <Cpu as Compiles<NodePrediction>>::train(&graph, &config, &mut world, &Default::default(), &mut report)?;
    if cluster.rank() == 0 {
        println!("test accuracy {:.4}", fitted.result.test_acc.unwrap_or_default());
    }
    // The other ranks may still read from this part.
    world.barrier()?;
    Ok(())
}

/// The reports of epochs, which rank 0 prints.
struct Report {
    rank: usize,
}

impl Observer<SeedScores> for Report {
    fn epoch(&mut self, report: &EpochReport<SeedScores>) -> std::io::Result<()> {
        if self.rank == 0 {
            let EpochReport { epoch, loss, valid_metric, .. } = report;
            let loss = loss.unwrap_or_default();
            let accuracy = valid_metric.unwrap_or_default();
            println!(
                "epoch {epoch:2}: loss {loss:.4}, validation accuracy {accuracy:.4}, {:.2} s",
                report.cost.seconds
            );
        }
        Ok(())
    }
}

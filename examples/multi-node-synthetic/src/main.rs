//! Data-parallel training of a GCN on several nodes, like PyG's multi-node tutorial. Unlike there, the graph is
//! partitioned over the nodes too.

mod data;
mod model;

use anyhow::Context;
use burn::backend::Autodiff;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn_ndarray::NdArray;
use clap::Parser;
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cluster::{Cluster, ClusterConfig};
use edgecut_gnn::ops::DropoutKey;
use edgecut_graph::Split;
use edgecut_trainer::models::{GraphSchema, Mode};
use edgecut_trainer::{BatchOptions, adam, evaluate, step_gradients, tensor_batches};
use model::Gcn;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Cpu = NdArray<f32>;

/// The number of first iterations that are not timed.
const WARM_UP: usize = 10;

/// Trains a GCN on a synthetic graph. Start it with launch, srun, mpirun or torchrun's variables; without them it is a
/// job with one process.
#[derive(Parser)]
struct Args {
    /// Folder for the generated graph, on each node
    #[arg(long, default_value = "data")]
    root_dir: PathBuf,
    /// Number of nodes in the graph
    #[arg(long, default_value_t = 100_000)]
    avg_num_nodes: usize,
    /// Seeds per batch and process
    #[arg(long, alias = "batch_size", default_value_t = 128)]
    batch_size: usize,
    /// Number of epochs
    #[arg(long, aliases = ["epochs", "num_epochs"], default_value_t = 3)]
    num_epochs: u64,
    /// Hidden channels of the GCN
    #[arg(long, alias = "hidden_channels", default_value_t = 64)]
    hidden_channels: usize,
    /// Learning rate of Adam
    #[arg(long, default_value_t = 0.01)]
    lr: f64,
    /// Neighbors to sample per node in each of the two hops
    #[arg(long, alias = "fan_out", default_value_t = 50)]
    fan_out: u32,
    /// Accepted for the tutorial's command line: the launcher decides the number of processes, which train on CPUs
    #[arg(long, alias = "ngpu_per_node", value_name = "N", hide = true)]
    ngpu_per_node: Option<usize>,
}

fn main() -> anyhow::Result<()> {
    keep_memory();
    let args = Args::parse();
    let cluster = Cluster::join(ClusterConfig::from_env()?)?;
    let result = run(&args, &cluster);
    // Tells the other ranks about an error before the connections to them close, so that they report its cause.
    if let Err(error) = &result {
        cluster.abort(&format!("{error:#}"));
    }
    result.and_then(|()| Ok(cluster.shutdown()?)).with_context(|| "this process of the job has failed")
}

fn run(args: &Args, cluster: &Cluster) -> anyhow::Result<()> {
    let rank = cluster.rank();
    if rank == 0 && args.ngpu_per_node.is_some() {
        eprintln!("note: --ngpu-per-node has no effect: the launcher starts the processes, and they train on CPUs");
    }
    let device = Default::default();
    let mut world = cluster.world()?;
    let graph = data::open(&args.root_dir, args.avg_num_nodes, cluster)?;
    world.barrier()?;

    let training = BatchOptions { gcn_norm: true, for_training: true, ..BatchOptions::default() };
    let evaluation = BatchOptions { for_training: false, ..training };
    let size = data::BatchShape { batch_size: args.batch_size, fan_out: args.fan_out };
    let train = data::loader(&graph, Split::Train, size, training, &mut world)?;
    let valid = data::loader(&graph, Split::Valid, size, evaluation, &mut world)?;
    let test = data::loader(&graph, Split::Test, size, evaluation, &mut world)?;

    let nodes = &graph.part().meta().node_types[0];
    let schema = Arc::new(GraphSchema::new(graph.part().meta())?);
    let mut model: Gcn<Autodiff<Cpu>> = Gcn::new(nodes.feature_dim, args.hidden_channels, nodes.num_classes, &device);
    let mut optimizer = adam(5e-4);

    let mut timed = Duration::ZERO;
    let mut iterations = 0;
    let mut best_valid = 0.0_f64;
    let begin = Instant::now();
    for epoch in 0..args.num_epochs {
        let start_of_epoch = Instant::now();
        let mut batches = tensor_batches(&train, epoch, &schema, training, &device);
        for step in 0..train.num_steps() {
            let start = Instant::now();
            let Some(batch) = batches.next() else { break };
            let key = DropoutKey::new(0, epoch, step as u64).for_rank(rank as u64);
            let gradients = step_gradients(&model, batch??, Mode::Train(key), &mut world)?;
            let of_model = gradients.of_model(&model)?;
            model = optimizer.step(args.lr, model, of_model);
            if epoch > 0 || step >= WARM_UP {
                timed += start.elapsed();
                iterations += 1;
            }
            if rank == 0 && step % 10 == 0 {
                println!(
                    "epoch {epoch}, iteration {step}, loss {:.4}",
                    gradients.totals.mean_loss().unwrap_or_default()
                );
            }
        }
        let totals = evaluate(&model.valid(), tensor_batches(&valid, 0, &schema, evaluation, &device), &mut world)?;
        let accuracy = totals.accuracy().unwrap_or_default();
        best_valid = best_valid.max(accuracy);
        if rank == 0 {
            let seconds = start_of_epoch.elapsed().as_secs_f64();
            println!("epoch {epoch}: validation accuracy {accuracy:.4}, {seconds:.2} s");
        }
    }
    let totals = evaluate(&model.valid(), tensor_batches(&test, 0, &schema, evaluation, &device), &mut world)?;
    if rank == 0 {
        println!("test accuracy {:.4}", totals.accuracy().unwrap_or_default());
        println!("best validation accuracy {best_valid:.4}");
        println!("total time {:.2} s", begin.elapsed().as_secs_f64());
        println!("mean iteration time {:.4} s", timed.as_secs_f64() / f64::from(iterations.max(1)));
    }
    Ok(())
}

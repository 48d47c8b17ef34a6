//! Data-parallel training of a graph classifier by several processes of one machine, like DGL's multi-GPU tutorial.

mod data;
mod model;

use burn::backend::Autodiff;
use burn::module::AutodiffModule;
use burn::optim::Optimizer;
use burn_ndarray::NdArray;
use clap::Parser;
use edgecut_cli::allocator::{MiMalloc, keep_memory};
use edgecut_cluster::{Cluster, spawn};
use edgecut_gnn::ops::DropoutKey;
use edgecut_trainer::graph::{GraphBatchOptions, graph_batches};
use edgecut_trainer::models::Mode;
use edgecut_trainer::{SeedTotals, adam, evaluate, step_gradients};
use model::Gin;
use std::path::PathBuf;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Cpu = NdArray<f32>;

/// Trains a GIN on IMDB-BINARY or another graph dataset.
#[derive(Parser)]
struct Args {
    /// Folder with IMDB-BINARY/IMDB-BINARY_A.txt and so on
    #[arg(long, default_value = "data")]
    root_dir: PathBuf,
    /// Name of a graph dataset in TUDataset format [default: IMDB-BINARY, or generated graphs if it is missing]
    #[arg(long)]
    dataset: Option<String>,
    /// Number of processes
    #[arg(long, default_value_t = 2)]
    nproc_per_node: usize,
    /// Graphs per batch and process
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    /// Number of epochs
    #[arg(long, default_value_t = 5)]
    num_epochs: u64,
}

fn main() -> anyhow::Result<()> {
    keep_memory();
    let args = Args::parse();
    Ok(spawn(args.nproc_per_node, |cluster| run(&args, &cluster))?)
}

fn run(args: &Args, cluster: &Cluster) -> anyhow::Result<()> {
    let device = Default::default();
    let mut world = cluster.world()?;
    let graphs = data::load(&args.root_dir, args.dataset.as_deref(), cluster)?;
    let [train, valid, test] = data::loaders(&graphs, args.batch_size, 0, cluster)?;
    let training = GraphBatchOptions { for_training: true, ..GraphBatchOptions::default() };

    let mut model: Gin<Autodiff<Cpu>> = Gin::new(graphs.feature_dim(), graphs.classes().len(), &device);
    let mut optimizer = adam(0.0);
    for epoch in 0..args.num_epochs {
        let start = Instant::now();
        let mut totals = SeedTotals::default();
        for (step, batch) in graph_batches(&train, epoch, training, &device).enumerate() {
            let mode = Mode::Train(DropoutKey::new(0, epoch, step as u64));
            let gradients = step_gradients(&model, batch??, mode, &mut world)?;
            totals.add(&gradients.totals);
            let of_model = gradients.of_model(&model)?;
            model = optimizer.step(0.01, model, of_model);
        }
        let seconds = start.elapsed().as_secs_f64();
        let batches = graph_batches(&valid, 0, GraphBatchOptions::default(), &device);
        let accuracy = evaluate(&model.valid(), batches, &mut world)?.accuracy().unwrap_or_default();
        if cluster.rank() == 0 {
            let loss = totals.mean_loss().unwrap_or_default();
            println!("epoch {epoch}: loss {loss:.4}, validation accuracy {accuracy:.4}, {seconds:.3} s");
        }
    }
    let batches = graph_batches(&test, 0, GraphBatchOptions::default(), &device);
    let totals = evaluate(&model.valid(), batches, &mut world)?;
    if cluster.rank() == 0 {
        println!("test accuracy {:.4} of {} graphs", totals.accuracy().unwrap_or_default(), totals.seeds);
    }
    Ok(())
}

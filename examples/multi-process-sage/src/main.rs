//! Data-parallel training of GraphSAGE by several processes of one machine, which share one copy of the dataset, like
//! PyG's multi-GPU tutorial.

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
use edgecut_graph::Split;
use edgecut_graph::readers::{DatasetSource, FakeOptions};
use edgecut_trainer::models::{GraphSchema, Mode};
use edgecut_trainer::{BatchOptions, SeedTotals, adam, evaluate, step_gradients, tensor_batches};
use model::Sage;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Cpu = NdArray<f32>;

/// Trains GraphSAGE with several processes that share one copy of the dataset.
#[derive(Parser)]
struct Args {
    /// Folder of the dataset: .npy arrays, OGB's raw CSV files, or triples [default: a generated graph]
    #[arg(long)]
    dataset_dir: Option<PathBuf>,
    /// Split scheme to use if the dataset has several
    #[arg(long, requires = "dataset_dir")]
    split: Option<String>,
    /// Number of nodes in the generated graph
    #[arg(long, default_value_t = 100_000, conflicts_with = "dataset_dir")]
    avg_num_nodes: usize,
    /// Number of processes
    #[arg(long, default_value_t = 2)]
    nproc_per_node: usize,
    /// Number of epochs
    #[arg(long, default_value_t = 10)]
    num_epochs: u64,
}

fn main() -> anyhow::Result<()> {
    keep_memory();
    let args = Args::parse();
    Ok(spawn(args.nproc_per_node, |cluster| run(&args, &cluster))?)
}

fn run(args: &Args, cluster: &Cluster) -> anyhow::Result<()> {
    let rank = cluster.rank();
    let device = Default::default();
    let mut world = cluster.world()?;
    let graph = data::open(&source(args), cluster)?;

    let training = BatchOptions { for_training: true, ..BatchOptions::default() };
    let evaluation = BatchOptions { for_training: false, ..training };
    let train = data::loader(&graph, Split::Train, training, &mut world)?;
    let valid = data::loader(&graph, Split::Valid, evaluation, &mut world)?;
    let test = data::loader(&graph, Split::Test, evaluation, &mut world)?;

    let nodes = &graph.part().meta().node_types[0];
    let schema = Arc::new(GraphSchema::new(graph.part().meta())?);
    let mut model: Sage<Autodiff<Cpu>> = Sage::new(nodes.feature_dim, 256, nodes.num_classes, &device);
    let mut optimizer = adam(0.0);

    for epoch in 0..args.num_epochs {
        let start = Instant::now();
        let mut totals = SeedTotals::default();
        for (step, batch) in tensor_batches(&train, epoch, &schema, training, &device).enumerate() {
            let key = DropoutKey::new(0, epoch, step as u64).for_rank(rank as u64);
            let gradients = step_gradients(&model, batch??, Mode::Train(key), &mut world)?;
            let of_model = gradients.of_model(&model)?;
            model = optimizer.step(0.001, model, of_model);
            totals.add(&gradients.totals);
        }
        let seconds = start.elapsed().as_secs_f64();
        let validated = evaluate(&model.valid(), tensor_batches(&valid, 0, &schema, evaluation, &device), &mut world)?;
        if rank == 0 {
            println!(
                "epoch {:2}: loss {:.4}, {seconds:.2} s, validation accuracy {:.4}",
                epoch + 1,
                totals.mean_loss().unwrap_or_default(),
                validated.accuracy().unwrap_or_default()
            );
        }
    }
    let tested = evaluate(&model.valid(), tensor_batches(&test, 0, &schema, evaluation, &device), &mut world)?;
    if rank == 0 {
        println!("test accuracy {:.4}", tested.accuracy().unwrap_or_default());
    }
    Ok(())
}

fn source(args: &Args) -> DatasetSource {
    let mut source = match &args.dataset_dir {
        Some(folder) => DatasetSource::of_folder(folder),
        None => DatasetSource::new("fake", ""),
    };
    source.split = args.split.clone();
    source.fake = FakeOptions { avg_num_nodes: args.avg_num_nodes, ..FakeOptions::default() };
    source
}

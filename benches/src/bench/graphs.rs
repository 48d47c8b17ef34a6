//! Batches of small graphs, and training on them, compared with a straightforward loop that builds each batch.

use crate::args::{Common, GraphsArgs};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use crate::work::plain_graphs::{PlainGraph, plain_batch};
use burn::backend::{Autodiff, NdArray};
use burn::optim::Optimizer;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_dist_loader::{GraphBatch, GraphDataLoader, GraphLoaderConfig};
use edgecut_gnn::ops::{DropoutKey, EdgeBlocks, Precision};
use edgecut_graph::GraphDataset;
use edgecut_graph::small_graphs::{FakeGraphsOptions, fake_graphs};
use edgecut_trainer::graph::{GraphBatchOptions, GraphTensorBatch, graph_batches};
use edgecut_trainer::models::{ConvKind, GinSettings, Mode, Network, NetworkConfig};
use edgecut_trainer::{adam, step_gradients};
use std::sync::Arc;

type Cpu = Autodiff<NdArray<f32>>;
const OPTIONS: GraphBatchOptions = GraphBatchOptions {
    gcn_norm: false,
    edge_features: false,
    edge_blocks: EdgeBlocks::None,
    for_training: true,
    precision: Precision::F32,
    drop_edges: None,
};

pub(crate) fn run(args: &GraphsArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let options = FakeGraphsOptions { num_graphs: args.num_graphs as usize, ..FakeGraphsOptions::default() };
    let graphs = Arc::new(fake_graphs(&options)?.with_degrees_as_labels());
    let record = |name: &str, timing: Timing| {
        let graphs = args.num_graphs;
        let size = args.batch_size;
        let work = format!("{graphs} graphs in batches of {size}");
        Record::new("graphs", name, work, timing, f64::from(graphs), "graphs/s")
            .param("num_graphs", graphs)
            .param("batch_size", size)
            .param("threads", common.threads())
    };
    let rate = |timing: &Timing| f64::from(args.num_graphs) / timing.median_s;
    let plain = plain_batches(args, common, &graphs)?;
    report.add(&record("batches by a plain loop", plain))?;
    let built = built_batches(args, common, &graphs)?;
    report.add(&record("batches", built).against(rate(&plain), "the plain loop"))?;

    let cluster = Cluster::join_local(1, |_| {})?.remove(0);
    let mut world = cluster.world()?;
    let in_turn = epoch(args, common, &graphs, 0, &mut world)?;
    report.add(&record("training, each batch built when it is needed", in_turn).param("hidden", args.hidden))?;
    let ahead = epoch(args, common, &graphs, 2, &mut world)?;
    let record = record("training, batches built ahead", ahead).param("hidden", args.hidden);
    report.add(&record.against(rate(&in_turn), "batches when they are needed"))?;
    Ok(cluster.shutdown()?)
}

/// Times batching graph by graph and edge by edge, with edge lists and dense rows.
fn plain_batches(args: &GraphsArgs, common: &Common, graphs: &GraphDataset) -> anyhow::Result<Timing> {
    let list: Vec<PlainGraph> = (0..graphs.num_graphs()).map(|graph| PlainGraph::of(graphs, graph)).collect();
    Timing::measure(common.reps(), |stopwatch| {
        for chunk in list.chunks(args.batch_size as usize) {
            let batch = stopwatch.time(|| plain_batch(chunk));
            std::hint::black_box(batch);
        }
        Ok(())
    })
}

fn built_batches(args: &GraphsArgs, common: &Common, graphs: &GraphDataset) -> anyhow::Result<Timing> {
    let all: Vec<u32> = (0..args.num_graphs).collect();
    Timing::measure(common.reps(), |stopwatch| {
        for chunk in all.chunks(args.batch_size as usize) {
            let batch = stopwatch.time(|| GraphBatch::new(graphs, chunk.to_vec()));
            std::hint::black_box(batch);
        }
        Ok(())
    })
}

/// Times epochs of a GIN with two layers, as in `train graph`.
fn epoch(
    args: &GraphsArgs,
    common: &Common,
    graphs: &Arc<GraphDataset>,
    concurrency: usize,
    world: &mut ProcessGroup,
) -> anyhow::Result<Timing> {
    let conv = ConvKind::Gin(GinSettings { mlp_layers: 2, learn_epsilon: false });
    let dim = graphs.feature_dim();
    let classes = graphs.classes().len();
    let config = NetworkConfig::whole_graphs(conv, dim, args.hidden as usize, classes, 2);
    let device = Default::default();
    let mut model: Network<Cpu> = config.init(0, &device)?;
    let mut optimizer = adam(0.0);
    let loading = GraphLoaderConfig { concurrency, ..GraphLoaderConfig::new(args.batch_size as usize) };
    let all = (0..args.num_graphs).collect();
    let loader = GraphDataLoader::new(graphs.clone(), all, loading, 0, 1)?;
    Timing::measure(common.reps(), |stopwatch| {
        stopwatch.time(|| {
            for (step, batch) in graph_batches(&loader, 0, OPTIONS, &device).enumerate() {
                let batch: GraphTensorBatch<Cpu> = batch??;
                let mode = Mode::Train(DropoutKey::new(0, 0, step as u64));
                let gradients = step_gradients(&model, batch, mode, world)?;
                let of_model = gradients.of_model(&model)?;
                model = optimizer.step(0.01, model.clone(), of_model);
            }
            Ok(())
        })
    })
}

//! Sampling with features over several ranks. Each rank is started separately, as on several nodes.

use crate::args::{BatchArgs, Common};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Timing, cpu_time};
use crate::peer::serving_node;
use crate::work::local_job::NODES;
use anyhow::{Context, ensure};
use edgecut_cluster::{Cluster, ClusterConfig, EnvRanks, ProcessGroup, Token};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistNeighborSampler, NodeFields};
use edgecut_graph::{Meta, Split};
use std::sync::Arc;
use std::time::Instant;

/// The number of batches in flight per rank: the rank works on one while another waits for its peers.
const BATCHES_IN_FLIGHT: usize = 2;

/// Runs as the rank that torchrun's variables name.
pub(crate) fn run(place: &EnvRanks, args: &BatchArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let start = (Instant::now(), cpu_time());
    let meta = Meta::read(&args.data)?;
    let cluster = Cluster::join(cluster_config(place, &meta)?)?;
    let (graph, mut world) = serving_node(&args.data, &cluster, common.threads())?;
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), args.draw.sampler()?)?);
    let config = LoaderConfig {
        shuffle: true,
        concurrency: BATCHES_IN_FLIGHT,
        ..LoaderConfig::new(
            args.draw.batch_size as usize,
            NodeFields { labels: true, features: true, ..NodeFields::default() },
        )
    };
    let loader = DistNeighborLoader::new(sampler, NODES, Seeds::Split(Split::Train), config, &mut world)?;
    let batches = (args.draw.batches as usize).min(loader.num_steps());
    ensure!(batches > 0, "dataset {} has no training nodes to make batches of", meta.dataset);
    let mut first_batch_s = 0.0;
    let mut traffic = graph.traffic().count();
    let mut rows = 0;
    let timing = Timing::measure(common.reps(), |stopwatch| {
        let mut made = loader.epoch(0);
        let before = graph.traffic().count();
        rows = stopwatch.time(|| take(&mut made, batches, &mut world, &mut first_batch_s, start.0))?;
        traffic = graph.traffic().count() - before;
        Ok(())
    })?;
    let per_batch = |count: u64| count as f64 / batches as f64;
    let dim = graph.part().meta().node_types[0].feature_dim;
    let work = format!("batch of {} seeds, {}", args.draw.batch_size, args.draw.num_neighbors.text());
    let bytes = per_batch(rows) * dim as f64 * 4.0;
    let record = Record::new("gather", "sampling + features over ranks", work, timing.per(batches), bytes, "B/s")
        .param("ranks", cluster.world_size())
        .param("batches", batches)
        .param("threads", common.threads())
        .detail("rows_per_batch", per_batch(rows))
        .detail("remote_nodes_per_batch", per_batch(traffic.remote_nodes))
        .detail("received_bytes_per_batch", per_batch(traffic.remote_bytes))
        .detail("first_batch_s", first_batch_s);
    report.add(&record)?;
    drop((loader, world));
    let outcome = cluster.shutdown();
    drop(graph);
    Ok(outcome?)
}

/// Takes the first batches of an epoch, and waits until all ranks have theirs. Returns the number of their rows.
fn take(
    made: &mut impl Iterator<Item = Result<edgecut_dist_loader::MiniBatch, edgecut_dist_loader::LoaderError>>,
    batches: usize,
    world: &mut ProcessGroup,
    first_batch_s: &mut f64,
    start: Instant,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    for _ in 0..batches {
        let batch = made.next().context("the epoch has too few batches")??;
        if *first_batch_s == 0.0 {
            *first_batch_s = start.elapsed().as_secs_f64();
        }
        rows += batch.nodes.first().map_or(0, |nodes| nodes.input_nodes.len() as u64);
    }
    world.barrier()?;
    Ok(rows)
}

fn cluster_config(place: &EnvRanks, meta: &Meta) -> anyhow::Result<ClusterConfig> {
    let missing = |name: &str| format!("WORLD_SIZE is set, but {name} is not");
    let rank = place.rank.with_context(|| missing("RANK"))?;
    let world_size = place.world_size.context("RANK is set, but WORLD_SIZE is not")?;
    let host = place.master_addr.clone().with_context(|| missing("MASTER_ADDR"))?;
    let port = place.master_port.with_context(|| missing("MASTER_PORT"))?;
    let mut config = ClusterConfig::new(rank, world_size, host, port);
    config.token = Token::from_env()?;
    config.fingerprint = meta.fingerprint();
    Ok(config)
}

//! Times the loader alone: `loader PARTS_DIR [NUM_BATCHES]`. `python/benches/loader.py` times the same batches in Python.

use edgecut_cluster::Cluster;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SamplerConfig};
use edgecut_graph::{NodeTypeId, Split};
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let parts = arguments.next().ok_or("give the folder of the parts")?;
    let num_batches = arguments.next().map_or(Ok(40), |number| number.to_string_lossy().parse())?;
    let cluster = Cluster::join_local(1, |_| {})?.remove(0);
    let mut world = cluster.world()?;
    let part = Arc::new(DistGraph::open_part(parts.as_ref(), 0, 1, false)?);
    let graph = DistGraph::start(part, cluster, DistGraphConfig::default())?;
    let sampler = DistNeighborSampler::new(graph, SamplerConfig::new([15, 10, 5].map(Fanout::Count).to_vec()))?;
    let config = LoaderConfig {
        shuffle: true,
        ..LoaderConfig::new(
            1024,
            NodeFields { features: true, labels: true, original_ids: true, ..NodeFields::default() },
        )
    };
    let seeds = Seeds::Split(Split::Train);
    let loader = DistNeighborLoader::new(Arc::new(sampler), NodeTypeId(0), seeds, config, &mut world)?;
    let mut batches = loader.epoch(0);
    batches.next().ok_or("the graph has no training nodes")??;
    let start = Instant::now();
    let mut made = 0_u32;
    for batch in batches.take(num_batches) {
        batch?;
        made += 1;
    }
    println!("loader alone: {:.1} ms per batch", 1e3 * start.elapsed().as_secs_f64() / f64::from(made.max(1)));
    Ok(())
}

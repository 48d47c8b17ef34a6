//! Tests that an error of a batch made ahead ends the job at once, although its consumer waits for other ranks.

use crate::support;

use edgecut_cluster::{Cluster, Failure};
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, MiniBatch, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SamplerConfig};
use edgecut_graph::{NodeTypeId, Split};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Far more than the test needs, and far less than the timeout of a collective.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fails on rank 1 with its second batch while its main thread waits for rank 0. Returns the failure that the rank
/// receives.
fn run(cluster: &Cluster, dir: &Path) -> Failure {
    let (sender, heard) = mpsc::channel();
    cluster.on_failure(move |failure| sender.send(failure).expect("the test listens"));
    let part = DistGraph::open_part(dir, cluster.rank(), 2, true).expect("open the part");
    let config = DistGraphConfig::default();
    let graph = DistGraph::start(Arc::new(part), cluster.clone(), config).expect("start the service");
    let mut world = cluster.world().expect("the world group");
    let sampler = DistNeighborSampler::new(graph, SamplerConfig::new(vec![Fanout::Count(3)])).expect("a sampler");
    let wanted = NodeFields::default();
    let config = LoaderConfig { seed: 1, ..LoaderConfig::new(8, wanted) };
    let seeds = Seeds::Split(Split::Train);
    let loader =
        DistNeighborLoader::new(Arc::new(sampler), NodeTypeId(0), seeds, config, &mut world).expect("a loader");
    if cluster.rank() == 0 {
        return heard.recv_timeout(PATIENCE).expect("rank 0 hears of the error");
    }
    let first = loader.epoch_map(0, |batch: MiniBatch| batch.key.batch).next().expect("a batch").expect("no error");
    let mut batches = loader.epoch_map(0, move |batch: MiniBatch| assert!(batch.key.batch == first, "a bad row"));
    assert!(batches.next().expect("a batch").is_ok());
    // Rank 0 never enters the barrier.
    world.barrier().expect_err("the job has failed");
    cluster.failure().expect("the failure is known here as well")
}

#[test]
fn an_error_of_a_batch_made_ahead_ends_the_job_at_once() {
    let dir = support::parts_of(&support::graph(200, 900, 3), 2);
    let ranks = Cluster::join_local(2, |_| {}).expect("join");
    let failures: Vec<Failure> = std::thread::scope(|scope| {
        let parts = dir.path();
        let threads: Vec<_> = ranks.into_iter().map(|cluster| scope.spawn(move || run(&cluster, parts))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    });
    for failure in failures {
        assert_eq!(failure.rank, 1, "{failure}");
        assert!(failure.reason.contains("of epoch 1") && failure.reason.contains("a bad row"), "{failure}");
    }
}

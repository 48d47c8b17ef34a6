//! Tests of sampling and fetching over two parts, each held by a rank of this process.

use crate::support;

use edgecut_cluster::Cluster;
use edgecut_dist_sampler::{
    BatchKey, DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SampleError, SampleSeeds,
    SampledSubgraph, SamplerConfig,
};
use std::sync::Arc;
use support::{DIM, NODES, dataset, join, nodes_of, parts_of, shut_down, start};

const NUM_NODES: u32 = 900;
const KEY: BatchKey = BatchKey { seed: 5, epoch: 1, batch: 2 };

/// A job of as many ranks as there are parts.
struct Job {
    _dir: tempfile::TempDir,
    ranks: Vec<Cluster>,
    nodes: Vec<Arc<DistGraph>>,
}

impl Job {
    fn start(num_parts: u32, config: &DistGraphConfig) -> Self {
        let dir = parts_of(&dataset(NUM_NODES, Some(3)), num_parts);
        let ranks = join(dir.path(), |_| ());
        let nodes = ranks.iter().map(|cluster| start(dir.path(), cluster, config)).collect();
        Self { _dir: dir, ranks, nodes }
    }

    fn end(self) {
        drop(self.nodes);
        shut_down(self.ranks);
    }
}

fn sampler(graph: &Arc<DistGraph>) -> Arc<DistNeighborSampler> {
    // The first hop expands the hub, so that the second one has rows on all parts.
    let config = SamplerConfig::new(vec![Fanout::All, Fanout::Count(2)]);
    Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"))
}

/// Samples around seeds, which are original ids. Returns the neighborhood, with original ids instead of global ids,
/// which depend on the partitioning.
fn sample(graph: &Arc<DistGraph>, originals: &[u32]) -> SampledSubgraph {
    graph.handle().clone().block_on(async {
        let seeds = graph.find_originals(NODES, originals).await.expect("the seeds exist");
        let seeds = SampleSeeds::of_type(NODES, seeds, 1);
        let mut sampled = sampler(graph).sample(seeds, KEY).await.expect("a neighborhood");
        let ids = sampled.nodes[0].ids.clone();
        let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
        sampled.nodes[0].ids = graph.fetch(NODES, ids, wanted).await.expect("ids").original_ids;
        sampled
    })
}

const SEEDS: [u32; 6] = [3, 0, 899, 450, 17, 600];

#[test]
fn a_neighborhood_is_the_same_over_one_part_and_two() {
    let alone = Job::start(1, &DistGraphConfig::default());
    let expected = sample(&alone.nodes[0], &SEEDS);
    alone.end();
    assert_eq!(expected.nodes[0].ids[..SEEDS.len()], SEEDS);
    assert!(expected.nodes[0].ids.len() > 100, "the hub has many neighbors");
    let job = Job::start(2, &DistGraphConfig::default());
    for graph in &job.nodes {
        assert_eq!(sample(graph, &SEEDS), expected, "on rank {}", graph.cluster().rank());
        let count = graph.traffic().count();
        // One request per hop to the other part, and one each for finding the seeds and for the original ids.
        assert_eq!(count.requests, 4);
        assert!(count.remote_bytes > 0);
        assert_eq!(count.remote_nodes, 0, "no features were fetched");
    }
    job.end();
}

#[test]
fn a_hop_above_the_message_limit_is_requested_in_halves() {
    let default = Job::start(2, &DistGraphConfig::default());
    let expected = sample(&default.nodes[0], &SEEDS);
    default.end();
    // The neighbors of the hub fit, but not those of all nodes in the second hop.
    let config = DistGraphConfig { max_message_bytes: 4096, fetch_chunk_bytes: 2048, ..Default::default() };
    let job = Job::start(2, &config);
    for graph in &job.nodes {
        assert_eq!(sample(graph, &SEEDS), expected);
        assert!(graph.traffic().count().requests > 4, "some hops were split");
    }
    job.end();
    // The in-neighbors of the hub alone exceed this limit.
    let config = DistGraphConfig { max_message_bytes: 2048, fetch_chunk_bytes: 1024, ..Default::default() };
    let job = Job::start(2, &config);
    let errors: Vec<String> = job.nodes.iter().filter_map(hub_error).collect();
    assert!(
        matches!(&errors[..], [error] if error.contains("the neighbors of one node exceed 2048 bytes")),
        "{errors:?}"
    );
    job.end();
}

/// Samples around the hub. Returns the error if another part owns the hub.
fn hub_error(graph: &Arc<DistGraph>) -> Option<String> {
    graph.handle().clone().block_on(async {
        let hub = graph.find_originals(NODES, &[3]).await.expect("the hub exists");
        let config = SamplerConfig::new(vec![Fanout::All]);
        let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"));
        sampler.sample(SampleSeeds::of_type(NODES, hub, 1), KEY).await.err().map(|error| error.to_string())
    })
}

#[test]
fn attributes_of_both_parts_arrive_in_the_order_of_the_request() {
    let config = DistGraphConfig { fetch_chunk_bytes: 300, ..Default::default() };
    let job = Job::start(2, &config);
    let graph = &job.nodes[1];
    let mut wanted_nodes: Vec<u32> = nodes_of(graph, 0).into_iter().rev().collect();
    wanted_nodes.extend(nodes_of(graph, 1));
    wanted_nodes.swap(5, 700);
    let wanted =
        NodeFields { labels: true, times: false, original_ids: true, degrees: true, in_weights: true, features: true };
    let fetched = graph.handle().block_on(graph.fetch(NODES, wanted_nodes, wanted)).expect("attributes");
    assert_eq!(fetched.feature_dim, DIM);
    for (i, &id) in fetched.original_ids.iter().enumerate() {
        let expected: Vec<f32> = (0..DIM).map(|column| (id as usize * DIM + column) as f32).collect();
        assert_eq!(fetched.features[i * DIM..][..DIM], expected);
        let into_hub = if id == 3 { NUM_NODES - 1 } else { 0 };
        assert_eq!((fetched.labels[i], fetched.degrees[i]), (0, 3 + into_hub));
        // Edges without weights count 1.
        assert_eq!(fetched.in_weights[i], fetched.degrees[i] as f32);
    }
    let count = graph.traffic().count();
    let remote = nodes_of(graph, 0).len();
    let row_bytes = 8 + 4 + 4 + 4 + 4 * DIM;
    assert_eq!(count.remote_nodes, remote as u64);
    assert_eq!(count.remote_bytes, (remote * row_bytes) as u64);
    assert_eq!(count.requests, remote.div_ceil(300 / row_bytes) as u64);
    job.end();
}

#[test]
fn invalid_seeds_and_missing_attributes_are_errors() {
    let job = Job::start(2, &DistGraphConfig::default());
    let graph = &job.nodes[0];
    let sample = |seeds: Vec<u32>| {
        let seeds = SampleSeeds::of_type(NODES, seeds, 1);
        graph.handle().block_on(sampler(graph).sample(seeds, KEY)).expect_err("invalid seeds").to_string()
    };
    assert_eq!(sample(vec![4, 9, 4]), "seed 2 occurs twice in its batch");
    assert_eq!(sample(vec![4, NUM_NODES]), "seed 1 is node 900, but the graph has 900 nodes");
    let times = NodeFields { times: true, ..NodeFields::default() };
    let error = graph.handle().block_on(graph.fetch(NODES, vec![1], times)).expect_err("there are no times");
    assert!(matches!(&error, SampleError::NoSuchNode { what } if what.contains("have no times")), "{error}");
    let error = graph.handle().block_on(graph.find_originals(NODES, &[2, NUM_NODES])).expect_err("no such node");
    assert!(error.to_string().contains("node 900 (entry 1)"), "{error}");
    job.end();
}

//! Tests of batches of clusters: they are induced subgraphs, and do not depend on parts and ranks.

use crate::support;

use edgecut_cluster::ProcessGroup;
use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, LoaderError, MiniBatch, NodeClusters, Seeds};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, SamplerConfig};
use edgecut_graph::{Dataset, EdgeTypeId, Meta, NodeTypeId, PartitionId};
use edgecut_partition::Method;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use support::{EVERYTHING, assert_partition_independent, graph, merged, on_ranks, write_parts};

const NODES: NodeTypeId = NodeTypeId(0);
const NUM_NODES: u32 = 120;
const NUM_CLUSTERS: u32 = 7;

fn loader(
    graph: &Arc<DistGraph>,
    config: SamplerConfig,
    clusters: NodeClusters,
    world: &mut ProcessGroup,
) -> Result<DistNeighborLoader, LoaderError> {
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"));
    let config = LoaderConfig { shuffle: true, seed: 5, ..LoaderConfig::new(2, EVERYTHING) };
    DistNeighborLoader::new(sampler, NODES, Seeds::Clusters(clusters), config, world)
}

fn all_neighbors() -> SamplerConfig {
    SamplerConfig::new(vec![Fanout::All]).with_positions(true)
}

/// Returns the batches of two epochs.
fn epochs(graph: &Arc<DistGraph>, clusters: &NodeClusters, world: &mut ProcessGroup) -> Vec<Vec<MiniBatch>> {
    let loader = loader(graph, all_neighbors(), clusters.clone(), world).expect("a valid loader");
    assert_eq!(loader.total_seeds(), NUM_NODES as usize);
    (0..2).map(|epoch| loader.epoch(epoch).map(|batch| batch.expect("a batch")).collect()).collect()
}

/// Returns clusters of nodes with the same remainder, whose nodes are in all parts.
fn given(graph: &Arc<DistGraph>, world: &mut ProcessGroup) -> NodeClusters {
    let mut originals = Vec::new();
    let mut starts = vec![0];
    for cluster in 0..NUM_CLUSTERS {
        originals.extend((cluster..NUM_NODES).step_by(NUM_CLUSTERS as usize));
        starts.push(originals.len() as u32);
    }
    graph.make_directory(NODES, false, world).expect("the directory");
    let nodes = graph.handle().block_on(graph.find_originals(NODES, &originals)).expect("all nodes exist");
    NodeClusters::new(Some(nodes), starts).expect("valid clusters")
}

/// Checks that the batches of an epoch have each node once, and all edges between their nodes.
fn check(batches: &[MiniBatch], dataset: &Dataset) {
    let mut seen: Vec<u32> = Vec::new();
    for batch in batches {
        let nodes = &batch.nodes[0];
        let edges = &batch.edges[0];
        seen.extend(&nodes.original_ids);
        assert_eq!(nodes.original_ids.len(), batch.num_seeds);
        assert_eq!(nodes.hop_offsets, [batch.num_seeds as u32; 2]);
        assert_eq!((batch.labels.len(), nodes.features.len()), (batch.num_seeds, 3 * batch.num_seeds));
        let mut found = Vec::new();
        for (row, ends) in edges.indptr.windows(2).enumerate() {
            for &source in &edges.indices[ends[0] as usize..ends[1] as usize] {
                found.push((nodes.original_ids[source as usize], nodes.original_ids[row]));
            }
        }
        assert_eq!(edges.positions.len(), found.len());
        let inside: BTreeSet<u32> = nodes.original_ids.iter().copied().collect();
        let of_type = dataset.edges(EdgeTypeId(0));
        let all = of_type.src.iter().zip(of_type.dst.iter()).map(|(&src, &dst)| (src, dst));
        let mut expected: Vec<_> = all.filter(|(src, dst)| inside.contains(src) && inside.contains(dst)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..NUM_NODES).collect::<Vec<_>>());
}

#[test]
fn listed_clusters_make_the_same_batches_for_any_parts_and_ranks() {
    let dataset = graph(NUM_NODES as usize, 900, 3);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let batches = |dir: &Path, world_size: usize, config: &DistGraphConfig| {
        merged(on_ranks(dir, world_size, config, |graph, world| {
            let clusters = given(&graph, world);
            epochs(&graph, &clusters, world)
        }))
    };
    let expected = assert_partition_independent(&dataset, dir.path(), 2000, batches);
    for of_epoch in &expected {
        assert_eq!(of_epoch.len(), NUM_CLUSTERS.div_ceil(2) as usize);
        check(of_epoch, &dataset);
    }
    let orders: Vec<Vec<u32>> = expected
        .iter()
        .map(|batches| batches.iter().flat_map(|batch| batch.seed_positions.clone()).collect())
        .collect();
    assert_ne!(orders[0], orders[1], "epochs have the clusters in another order");
}

#[test]
fn parts_are_clusters_for_any_number_of_ranks() {
    let dataset = graph(NUM_NODES as usize, 900, 4);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let meta: Meta = write_parts(&dataset, 5, Method::Metis { recursive: false }, dir.path());
    let book = &meta.node_types[0].book;
    let mut starts: Vec<u32> = (0..5).map(|part| book.range(PartitionId(part)).start).collect();
    starts.push(NUM_NODES);
    let clusters = NodeClusters::new(None, starts).expect("valid clusters");
    let config = DistGraphConfig::default();
    let batches =
        |world_size| merged(on_ranks(dir.path(), world_size, &config, |graph, world| epochs(&graph, &clusters, world)));
    let expected = batches(1);
    for of_epoch in &expected {
        assert_eq!(of_epoch.len(), 3);
        check(of_epoch, &dataset);
    }
    for world_size in [2, 5, 7] {
        assert!(batches(world_size) == expected, "{world_size} ranks");
    }
}

#[test]
fn samplers_that_leave_edges_out_are_refused() {
    let dataset = graph(NUM_NODES as usize, 300, 5);
    let dir = support::parts_of(&dataset, 1);
    let refused = on_ranks(dir.path(), 1, &DistGraphConfig::default(), |graph, world| {
        let clusters = NodeClusters::new(None, vec![0, 60, NUM_NODES]).expect("valid clusters");
        let few = NodeClusters::new(None, vec![0, 60]).expect("valid clusters");
        let mut errors = Vec::new();
        for (config, clusters) in [
            (SamplerConfig::new(vec![Fanout::Count(9)]), clusters.clone()),
            (SamplerConfig::new(vec![Fanout::All, Fanout::All]), clusters.clone()),
            (all_neighbors().with_disjoint(true), clusters),
            (all_neighbors(), few),
        ] {
            errors.extend(loader(&graph, config, clusters, world).err().map(|error| error.to_string()));
        }
        errors
    });
    let [errors] = &refused[..] else { panic!("one rank") };
    assert_eq!(errors.len(), 4);
    assert!(
        errors[..3].iter().all(|error| error.contains("one hop with all neighbors of all edge types")),
        "{errors:?}"
    );
    assert_eq!(errors[3], "the clusters have 60 nodes, but the graph has 120");
}

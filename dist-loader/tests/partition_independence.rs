//! Tests that a batch does not depend on the number of parts, ranks and threads, in its ids and its features.

use crate::support;

use edgecut_dist_loader::{DistNeighborLoader, LoaderConfig, MiniBatch, Seeds};
use edgecut_dist_sampler::{DistGraphConfig, DistNeighborSampler, Fanout, Labor, SamplerConfig};
use edgecut_graph::{Dataset, NodeTypeId};
use edgecut_partition::Method;
use std::collections::HashSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use support::{EVERYTHING, assert_partition_independent, merged, on_ranks};

const NODES: NodeTypeId = NodeTypeId(0);

/// The settings of one sampler and loader.
#[derive(Clone, Debug)]
struct Case {
    num_neighbors: Vec<Fanout>,
    replace: bool,
    labor: Option<Labor>,
    batch_size: usize,
}

fn cases() -> Vec<Case> {
    use Fanout::{All, Count};
    let fanouts = [
        (vec![Count(3), Count(2)], false),
        (vec![All, Count(4)], false),
        (vec![Count(5), Count(3)], true),
        (vec![All, All], true),
    ];
    let mut cases = Vec::new();
    for (num_neighbors, replace) in fanouts {
        for batch_size in [1, 10, 1024] {
            cases.push(Case { num_neighbors: num_neighbors.clone(), replace, labor: None, batch_size });
        }
    }
    let three_hops = vec![Count(4), Count(3), Count(2)];
    cases.push(Case { num_neighbors: three_hops.clone(), replace: false, labor: None, batch_size: 64 });
    for (batch_dependency, batch_size) in [(1, 64), (1, 10), (3, 10)] {
        let labor = NonZeroU32::new(batch_dependency).map(|batch_dependency| Labor { batch_dependency });
        cases.push(Case { num_neighbors: three_hops.clone(), replace: false, labor, batch_size });
    }
    cases
}

/// Returns seeds in a fixed mixed order that includes hubs, isolated nodes and nodes of every part.
fn seeds(num_nodes: usize) -> Vec<u32> {
    (0..num_nodes.min(60)).map(|i| ((i * 37 + 11) % num_nodes) as u32).collect()
}

/// Returns limits so small that features are requested in pieces and hops in halves. The neighbors of the largest hub
/// still fit.
fn small_limits(num_workers: usize) -> DistGraphConfig {
    DistGraphConfig { num_workers, fetch_chunk_bytes: 200, max_message_bytes: 800, ..DistGraphConfig::default() }
}

/// Returns all batches of all cases, in original ids, and the number of requests that they took.
fn batches(dir: &Path, world_size: usize, config: &DistGraphConfig, num_nodes: usize) -> (Vec<Vec<MiniBatch>>, u64) {
    let per_rank = on_ranks(dir, world_size, config, |graph, world| {
        let ids = graph.handle().block_on(graph.find_originals(NODES, &seeds(num_nodes))).expect("all seeds exist");
        let mut all = Vec::new();
        for case in cases() {
            let sampler_config =
                SamplerConfig::new(case.num_neighbors).with_replacement(case.replace).with_labor(case.labor);
            let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), sampler_config).expect("a valid sampler"));
            let config = LoaderConfig {
                seed: 7,
                // A batch is the same whether it is made ahead or on request.
                concurrency: world_size % 4,
                ..LoaderConfig::new(case.batch_size, EVERYTHING)
            };
            let loader = DistNeighborLoader::new(sampler, NODES, Seeds::Listed(ids.clone()), config, world)
                .expect("a valid loader");
            all.push(loader.epoch(4).map(|batch| batch.expect("a batch")).collect());
        }
        (all, graph.traffic().count().requests)
    });
    let requests = per_rank.iter().map(|(_, requests)| requests).sum();
    (merged(per_rank.into_iter().map(|(batches, _)| batches).collect()), requests)
}

fn compare(dataset: &Dataset, num_nodes: usize, has_long_replies: bool) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let one = dir.path().join("one");
    let expected = assert_partition_independent(dataset, dir.path(), 800, |parts, ranks, config| {
        batches(parts, ranks, config, num_nodes).0
    });
    check_against_dataset(dataset, &expected);
    // Several ranks per part, and one part on several ranks.
    let two = dir.path().join(format!("2-{:?}", Method::Random));
    assert_eq!(batches(&two, 4, &small_limits(1), num_nodes).0, expected, "2 parts on 4 ranks");
    assert_eq!(batches(&one, 3, &small_limits(1), num_nodes).0, expected, "1 part on 3 ranks");
    // The limit of a message changes the number of requests, not the result. The additional requests are hops in
    // halves.
    let wide = DistGraphConfig { num_workers: 2, fetch_chunk_bytes: 790, ..DistGraphConfig::default() };
    let halved = DistGraphConfig { max_message_bytes: 800, ..wide.clone() };
    let (found, few) = batches(&two, 2, &wide, num_nodes);
    assert_eq!(found, expected, "with wide limits");
    let (found, many) = batches(&two, 2, &halved, num_nodes);
    assert_eq!(found, expected, "with hops in halves");
    assert_eq!(many > few, has_long_replies, "{many} requests instead of {few}");
}

/// Checks batches against the dataset: every sampled edge is an edge, counts match the fan-outs, hops over all
/// neighbors have all edges in order, and rows have their node's features, label and degree.
fn check_against_dataset(dataset: &Dataset, batches: &[Vec<MiniBatch>]) {
    let nodes = &dataset.node_types[0];
    let edges = &dataset.edge_types[0];
    let in_neighbors = |node: u32| -> Vec<u32> {
        edges.src.iter().zip(&edges.dst[..]).filter(|(_, dst)| **dst == node).map(|(src, _)| *src).collect()
    };
    let features = nodes.features.as_ref().expect("the graph has features");
    let mut num_preferred = 0;
    for (case, batches) in cases().iter().zip(batches) {
        for batch in batches {
            let n = &batch.nodes[0];
            let e = &batch.edges[0];
            assert_eq!(n.hop_offsets.len(), case.num_neighbors.len() + 1);
            assert_eq!(n.hop_offsets[0] as usize, batch.num_seeds);
            let mut distinct = n.original_ids.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), n.original_ids.len(), "a node has one number");
            let mut preferred = HashSet::new();
            for row in 0..e.indptr.len() - 1 {
                let node = n.original_ids[row];
                let hop = n.hop_offsets.iter().position(|&end| (row as u32) < end).expect("a row is a node");
                let all = in_neighbors(node);
                let found: Vec<u32> = e.indices[e.indptr[row] as usize..e.indptr[row + 1] as usize]
                    .iter()
                    .map(|&number| n.original_ids[number as usize])
                    .collect();
                match case.num_neighbors[hop] {
                    Fanout::All => assert_eq!(found, all, "node {node}"),
                    Fanout::Count(count) if case.replace => {
                        assert_eq!(found.len(), if all.is_empty() { 0 } else { count as usize });
                    }
                    Fanout::Count(count) => {
                        assert_eq!(found.len(), all.len().min(count as usize));
                        assert!(is_subsequence(&found, &all), "{found:?} of {all:?}");
                    }
                }
                assert!(found.iter().all(|id| all.contains(id)));
                // Parallel edges have numbers of their own.
                if all.iter().collect::<HashSet<_>>().len() == all.len() {
                    let others = all.iter().filter(|id| !found.contains(id));
                    preferred.extend(others.flat_map(|&other| found.iter().map(move |&id| (id, other))));
                }
            }
            // One order of all nodes decides what every node draws in every hop.
            num_preferred += preferred.len();
            if case.labor.is_some() {
                assert!(preferred.iter().all(|&(id, other)| !preferred.contains(&(other, id))), "{case:?}");
            }
            for (row, &node) in n.original_ids.iter().enumerate() {
                let mut expected = vec![0.0; n.feature_dim];
                features.copy_row(node as usize, &mut expected);
                assert_eq!(n.features[row * n.feature_dim..][..n.feature_dim], expected);
                assert_eq!(n.degrees[row] as usize, in_neighbors(node).len());
            }
            for (seed, &label) in batch.labels.iter().enumerate() {
                assert_eq!(label, support::label(n.original_ids[seed]));
            }
            assert_eq!(batch.labels.len(), batch.num_seeds);
        }
    }
    assert!(num_preferred > 0);
}

fn is_subsequence(part: &[u32], whole: &[u32]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|wanted| rest.any(|found| found == wanted))
}

#[test]
fn batches_do_not_depend_on_the_partitioning() {
    compare(&support::graph(300, 2000, 1), 300, true);
}

#[test]
fn sparse_graphs_with_many_isolated_nodes_as_well() {
    compare(&support::graph(60, 40, 2), 60, false);
}

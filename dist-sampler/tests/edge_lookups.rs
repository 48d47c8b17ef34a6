//! Tests that lookups of edges into a hub give the same result with and without an index of its in-neighbors.

use crate::support;

use edgecut_dist_sampler::DistGraphConfig;
use edgecut_graph::{EdgeTypeId, PartitionId};
use std::collections::HashSet;
use support::{dataset, join, parts_of, shut_down, start};

#[test]
fn edges_into_hubs_are_found_with_and_without_an_index() {
    let num_nodes = 3000;
    let dir = parts_of(&dataset(num_nodes, Some(5)), 2);
    for max_hub_index_bytes in [0, 1 << 20] {
        let ranks = join(dir.path(), |_| ());
        let config = DistGraphConfig { num_workers: 2, max_hub_index_bytes, ..DistGraphConfig::default() };
        let nodes: Vec<_> = ranks.iter().map(|cluster| start(dir.path(), cluster, &config)).collect();
        let mut edges = HashSet::new();
        let mut hub = 0;
        for (part, node) in (0..).zip(&nodes) {
            let csc = &node.part().edges(EdgeTypeId(0)).csc;
            let start = node.part().meta().node_types[0].book.range(PartitionId(part)).start;
            for row in 0..csc.num_rows() {
                let dst = start + row as u32;
                edges.extend(csc.neighbors(row).iter().map(|&src| (src, dst)));
                if csc.degree(row) > 1000 {
                    hub = dst;
                }
            }
        }
        let pairs: Vec<(u32, u32)> =
            (0..num_nodes).flat_map(|node| [(node, hub), (hub, node), (node, (node + 1) % num_nodes)]).collect();
        for graph in &nodes {
            // The second pass uses the index, if it fits the budget.
            for _ in 0..2 {
                let found = graph.handle().block_on(graph.has_edges(EdgeTypeId(0), &pairs, false)).expect("an answer");
                for (pair, found) in pairs.iter().zip(found) {
                    assert_eq!(found, edges.contains(pair), "{pair:?}");
                }
            }
        }
        drop(nodes);
        shut_down(ranks);
    }
}

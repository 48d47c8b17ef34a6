//! Tests that shared and in-batch negatives exclude an edge's source and the positive pairs of the batch.

use edgecut_dist_loader::{EdgeRelations, LinkBatch, MiniBatch, Negatives, NodeBatch, SharedNegatives};
use edgecut_dist_sampler::BatchKey;
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use std::sync::Arc;

/// Makes the relations of a graph from the ends and the reverses of each edge type.
fn relations(ends: &[(u16, u16)], reverses: &[&[u16]]) -> Arc<EdgeRelations> {
    Arc::new(EdgeRelations {
        ends: ends.iter().map(|&(src, dst)| (NodeTypeId(src), NodeTypeId(dst))).collect(),
        reverses: reverses.iter().map(|types| types.iter().map(|&e| EdgeTypeId(e)).collect()).collect(),
    })
}

/// Returns a batch of random edges over a few nodes. With `duplicates` each node occurs twice, as in disjoint
/// neighborhoods.
fn random_batch(relations: Arc<EdgeRelations>, num_edges: usize, duplicates: bool, key: u64) -> LinkBatch {
    let num_types = relations.ends.iter().map(|(src, dst)| src.0.max(dst.0)).max().map_or(0, |most| most as usize + 1);
    let mut rng = CounterRng::new(key);
    let copies = if duplicates { 2 } else { 1 };
    let nodes = |t: usize| {
        // Ids differ from positions, and the types have different orders of ids.
        let ids: Vec<u32> = (0..12 * copies).map(|number| 100 + 7 * ((number + t as u32) % 12)).collect();
        NodeBatch { hop_offsets: vec![ids.len() as u32], input_nodes: ids, ..NodeBatch::default() }
    };
    let nodes: Vec<NodeBatch> = (0..num_types).map(nodes).collect();
    let mut number = |t: NodeTypeId| rng.below(nodes[t.index()].input_nodes.len() as u64) as u32;
    let mut edge_types = Vec::new();
    let mut src = Vec::new();
    let mut dst = Vec::new();
    for edge in 0..num_edges {
        let edge_type = EdgeTypeId((edge % relations.ends.len()) as u16);
        let (src_type, dst_type) = relations.ends[edge_type.index()];
        edge_types.push(edge_type);
        src.push(number(src_type));
        dst.push(number(dst_type));
    }
    let negatives =
        Negatives::Shared((0..num_types).map(|t| (0..9).map(|_| number(NodeTypeId(t as u16))).collect()).collect());
    let key = BatchKey { seed: key, epoch: 0, batch: 0 };
    let graph = MiniBatch { num_seeds: num_edges, nodes, ..MiniBatch::empty(key) };
    LinkBatch { graph, edge_types, src, dst, weights: Vec::new(), negatives, num_left_out: 0, relations }
}

/// Searches all edges of the batch to tell whether an edge's source and a candidate form a positive pair.
fn is_positive(batch: &LinkBatch, edge: usize, candidate: u32, self_pairs: bool) -> bool {
    let id = |t: NodeTypeId, number: u32| batch.graph.nodes[t.index()].input_nodes[number as usize];
    let ends = |edge: usize| {
        let (src_type, dst_type) = batch.relations.ends[batch.edge_types[edge].index()];
        (id(src_type, batch.src[edge]), id(dst_type, batch.dst[edge]))
    };
    let edge_type = batch.edge_types[edge];
    let (src_type, dst_type) = batch.relations.ends[edge_type.index()];
    let pair = (ends(edge).0, id(dst_type, candidate));
    if !self_pairs && src_type == dst_type && pair.0 == pair.1 {
        return true;
    }
    (0..batch.edge_types.len()).any(|other| {
        let (src, dst) = ends(other);
        let is_reverse = batch.relations.reverses[batch.edge_types[other].index()].contains(&edge_type);
        (batch.edge_types[other] == edge_type && pair == (src, dst)) || (is_reverse && pair == (dst, src))
    })
}

fn check(batch: &LinkBatch, pairs: SharedNegatives) -> usize {
    let groups = batch.shared_candidates(pairs);
    let mut grouped = 0;
    let mut masked = 0;
    for group in &groups {
        let mut expected = Vec::new();
        for (position, &edge) in group.edges.iter().enumerate() {
            assert_eq!(batch.relations.ends[batch.edge_types[edge as usize].index()].1, group.dst_type);
            for (at, &candidate) in group.candidates.iter().enumerate() {
                if is_positive(batch, edge as usize, candidate, pairs.self_pairs) {
                    expected.push((position as u32, at as u32));
                }
            }
        }
        assert_eq!(group.masked, expected);
        if pairs.in_batch {
            let seeds = batch.graph.nodes[group.dst_type.index()].hop_offsets[0];
            assert_eq!(group.candidates, (0..seeds).collect::<Vec<_>>());
        }
        grouped += group.edges.len();
        masked += group.masked.len();
    }
    assert_eq!(grouped, batch.edge_types.len(), "each edge is in one group");
    masked
}

#[test]
fn positives_and_sources_are_masked_as_a_slow_search_finds_them() {
    let graphs = [
        // One node type and one edge type that may contain both directions.
        relations(&[(0, 0)], &[&[0]]),
        // The same without reverses.
        relations(&[(0, 0)], &[&[]]),
        // Two edge types between the same node types, the reverse of the first one, and one within a node type.
        relations(&[(0, 1), (0, 1), (1, 0), (1, 1)], &[&[2], &[], &[0], &[3]]),
    ];
    let mut masked = 0;
    for (graph, relations) in graphs.iter().enumerate() {
        for duplicates in [false, true] {
            for (case, num_edges) in [1, 2, 7, 40, 150].into_iter().enumerate() {
                let key = combine(combine(graph as u64, u64::from(duplicates)), case as u64);
                let batch = random_batch(relations.clone(), num_edges, duplicates, key);
                for in_batch in [false, true] {
                    let without = check(&batch, SharedNegatives { in_batch, self_pairs: true });
                    let with = check(&batch, SharedNegatives { in_batch, self_pairs: false });
                    assert!(without <= with);
                    masked += without + with;
                }
            }
        }
    }
    assert!(masked > 1000, "{masked}");
}

#[test]
fn an_edge_of_two_nodes_has_no_in_batch_negative() {
    let mut batch = random_batch(relations(&[(0, 0)], &[&[0]]), 1, false, 0);
    (batch.src[0], batch.dst[0]) = (3, 5);
    batch.graph.nodes[0].hop_offsets[0] = 6;
    let pairs = SharedNegatives { in_batch: true, self_pairs: false };
    assert_eq!(batch.shared_candidates(pairs)[0].masked, [(0, 3), (0, 5)]);
    let pairs = SharedNegatives { self_pairs: true, ..pairs };
    assert_eq!(batch.shared_candidates(pairs)[0].masked, [(0, 5)]);
}

#[test]
fn negatives_of_each_edge_are_not_shared() {
    let mut batch = random_batch(relations(&[(0, 0)], &[&[]]), 4, false, 0);
    batch.negatives = Negatives::OfEach { num: 1, dst: vec![0; 4] };
    let pairs = SharedNegatives { in_batch: true, ..SharedNegatives::default() };
    assert!(batch.shared_candidates(pairs).is_empty());
    assert!(LinkBatch::empty(MiniBatch::empty(batch.graph.key)).shared_candidates(pairs).is_empty());
}

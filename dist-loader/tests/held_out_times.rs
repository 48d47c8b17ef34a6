//! Tests that seed edges are judged at their own times.

use crate::support;

use edgecut_dist_loader::{DistLinkNeighborLoader, EdgeSeeds, Exclude, LoaderConfig, LoaderError, Negatives};
use edgecut_dist_sampler::{
    DistGraph, DistGraphConfig, DistNeighborSampler, Fanout, NodeFields, SamplerConfig, Temporal, TemporalStrategy,
    TimeAttr,
};
use edgecut_graph::{Dataset, EdgeList, EdgeTypeId, Split};
use edgecut_partition::Method;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use support::{graph, on_ranks, uniform_negatives, write_parts};

const NODES: u32 = 60;
const EDGES: EdgeTypeId = EdgeTypeId(0);

/// Returns a graph in which every seventh pair of nodes is connected in both directions at the same time. Of some pairs
/// one direction is held out and the other one is in the graph.
fn dataset() -> Dataset {
    let mut dataset = graph(NODES as usize, 10, 3);
    let mut train = (Vec::new(), Vec::new(), Vec::new());
    let mut lists = [(Vec::new(), Vec::new(), Vec::new()), (Vec::new(), Vec::new(), Vec::new())];
    let pairs = (0..NODES).flat_map(|a| (a + 1..NODES).map(move |b| (a, b))).filter(|(a, b)| (a * 13 + b * 5) % 7 == 0);
    for (at, (a, b)) in pairs.enumerate() {
        let time = (at * 37 % 100) as i64;
        for (src, dst, is_forward) in [(a, b, true), (b, a, false)] {
            let list = match at % 5 {
                split @ 0..2 if is_forward => &mut lists[split],
                _ => &mut train,
            };
            list.0.push(src);
            list.1.push(dst);
            list.2.push(time);
        }
    }
    let edges = &mut dataset.edge_types[0];
    edges.src = train.0.into();
    edges.dst = train.1.into();
    edges.attributes.times = Some(train.2.into());
    let [valid, test] =
        lists.map(|(src, dst, times)| EdgeList { times: Some(times.into()), ..EdgeList::new(src.into(), dst.into()) });
    edges.held_out.valid = valid;
    edges.held_out.test = test;
    dataset.validate().expect("a valid graph");
    dataset
}

/// Makes the loader that evaluation uses.
fn loader(
    graph: &Arc<DistGraph>,
    world: &mut edgecut_cluster::ProcessGroup,
    attr: TimeAttr,
    split: Split,
) -> Result<DistLinkNeighborLoader, LoaderError> {
    let temporal = Temporal { attr, strategy: TemporalStrategy::Uniform };
    let config = SamplerConfig::new(vec![Fanout::All, Fanout::Count(5)]).with_times(Some(temporal));
    let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config).expect("a valid sampler"));
    let config =
        LoaderConfig { seed: 8, ..LoaderConfig::new(8, NodeFields { original_ids: true, ..NodeFields::default() }) };
    let link = uniform_negatives(3, Exclude::EdgesAndHeldOut);
    DistLinkNeighborLoader::new(sampler, EdgeSeeds::Split(split, vec![EDGES]), config, link, world)
}

/// Evaluates all held-out edges on `ranks` ranks and checks every message. Returns the number of messages.
fn check(dataset: &Dataset, dir: &Path, ranks: usize, split: Split) -> usize {
    let edges = dataset.edges(EDGES);
    let held_out = if split == Split::Valid { &edges.held_out.valid } else { &edges.held_out.test };
    let time_of = |list: &EdgeList| -> HashMap<(u32, u32), i64> {
        let times = list.times.as_ref().expect("times");
        list.src.iter().zip(&list.dst[..]).zip(&times[..]).map(|((&src, &dst), &time)| ((src, dst), time)).collect()
    };
    let train =
        EdgeList { times: edges.attributes.times.clone(), ..EdgeList::new(edges.src.clone(), edges.dst.clone()) };
    let messages = time_of(&train);
    let judged = time_of(held_out);
    let seen = on_ranks(dir, ranks, &DistGraphConfig::default(), |graph, world| {
        let mut seen = (0, 0);
        for batch in loader(&graph, world, TimeAttr::EdgeTime, split).expect("a valid loader").epoch(0) {
            let batch = batch.expect("a batch");
            // A rank that runs out of edges before others gets empty batches.
            if batch.graph.num_seeds == 0 {
                continue;
            }
            let nodes = &batch.graph.nodes[0];
            let id = |number: u32| nodes.original_ids[number as usize];
            let seeds: Vec<(u32, u32)> =
                batch.src.iter().zip(&batch.dst).map(|(&src, &dst)| (id(src), id(dst))).collect();
            let drawn = &batch.graph.edges[0];
            for row in 0..drawn.indptr.len().saturating_sub(1) {
                let seed = seeds[nodes.batch[row] as usize];
                for &number in &drawn.indices[drawn.indptr[row] as usize..drawn.indptr[row + 1] as usize] {
                    let message = (id(number), id(row as u32));
                    let time = messages[&message];
                    let now = judged[&seed];
                    assert!(time <= now, "{message:?} of time {time} reaches {seed:?} of time {now}");
                    assert_ne!(message, (seed.1, seed.0), "the reverse of {seed:?} reveals it");
                    seen.1 += 1;
                }
            }
            seen.0 += seeds.len();
        }
        seen
    });
    assert_eq!(seen.iter().map(|(seeds, _)| seeds).sum::<usize>(), held_out.len());
    seen.iter().map(|(_, messages)| messages).sum()
}

#[test]
fn no_message_is_later_than_a_held_out_edge_and_its_reverse_is_none() {
    let dataset = dataset();
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (parts, ranks) in [(1, 1), (3, 3), (2, 4)] {
        let path = dir.path().join(parts.to_string());
        write_parts(&dataset, parts, Method::Random, &path);
        for split in [Split::Valid, Split::Test] {
            assert!(check(&dataset, &path, ranks, split) > 100, "{parts} parts, {split:?}");
        }
    }
}

#[test]
fn held_out_edges_without_times_are_an_error_on_every_rank() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut dataset = dataset();
    dataset.node_types[0].times = Some((0..i64::from(NODES)).collect::<Vec<_>>().into());
    dataset.edge_types[0].held_out.valid.times = None;
    dataset.edge_types[0].held_out.test.times = None;
    let path = dir.path().join("2");
    write_parts(&dataset, 2, Method::Random, &path);
    for attr in [TimeAttr::EdgeTime, TimeAttr::NodeTime] {
        let errors = on_ranks(&path, 2, &DistGraphConfig::default(), |graph, world| {
            assert!(loader(&graph, world, attr, Split::Train).is_ok());
            loader(&graph, world, attr, Split::Test).err().expect("an error").to_string()
        });
        for error in errors {
            let expected = "the held-out test edges of type node__to__node have none: save test_edge_time.npy";
            assert!(error.contains(expected), "{error}");
        }
    }
}

#[test]
fn no_negative_is_later_than_its_edge() {
    let mut dataset = dataset();
    // Every edge has nodes that are not later.
    let time_of_node = |node: u32| if node < 20 { 0 } else { i64::from(node) };
    dataset.node_types[0].times = Some((0..NODES).map(time_of_node).collect::<Vec<_>>().into());
    let edges = dataset.edges(EDGES);
    let lists = [(&edges.src, &edges.dst, &edges.attributes.times)];
    let held_out = [&edges.held_out.valid, &edges.held_out.test].map(|list| (&list.src, &list.dst, &list.times));
    let mut time_of_edge = HashMap::new();
    for (src, dst, times) in lists.into_iter().chain(held_out) {
        let times = times.as_ref().expect("times");
        time_of_edge.extend((0..src.len()).map(|at| ((src[at], dst[at]), times[at])));
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    for num_parts in [1, 3] {
        let path = dir.path().join(num_parts.to_string());
        write_parts(&dataset, num_parts, Method::Random, &path);
        let checked = on_ranks(&path, num_parts as usize, &DistGraphConfig::default(), |graph, world| {
            let mut checked = 0;
            for split in [Split::Train, Split::Valid, Split::Test] {
                for batch in loader(&graph, world, TimeAttr::NodeTime, split).expect("a valid loader").epoch(0) {
                    let batch = batch.expect("a batch");
                    let Negatives::OfEach { num, dst } = &batch.negatives else { panic!("negatives of each edge") };
                    // An empty batch has no edges and no negatives.
                    for (at, negative) in dst.iter().enumerate() {
                        let edge = at / num;
                        let id = |number: u32| batch.graph.nodes[0].original_ids[number as usize];
                        let now = time_of_edge[&(id(batch.src[edge]), id(batch.dst[edge]))];
                        assert!(time_of_node(id(*negative)) <= now, "node {} at time {now}", id(*negative));
                        checked += usize::from(now < i64::from(NODES));
                    }
                }
            }
            checked
        });
        assert!(checked.iter().sum::<usize>() > 200, "{checked:?}");
    }
}

//! Synthetic heterogeneous graphs whose node and edge types all contribute to the labels.

use super::attributes::{DrawnEdges, EndNodes, edge_attributes, node_times};
use super::nodes::{classes, features, splits, weights};
use super::options::FakeOptions;
use super::weighted_nodes::WeightedNodes;
use crate::dataset::{Dataset, EdgeData, NodeData, Splits};
use crate::memory::Workspace;
use crate::rng::{CounterRng, combine};
use crate::{GraphError, NodeTypeId, parallel};

/// The name for which [`load`](crate::readers::load) generates a heterogeneous graph.
pub(in crate::readers) const FAKE_HETERO_NAME: &str = "fake-hetero";

/// The node types, as (name, number of features relative to `num_channels`).
const NODE_TYPES: [(&str, f64); 3] = [("v0", 1.0), ("v1", 0.5), ("v2", 0.0)];
/// The edge types, as (source, destination): a ring in each direction.
const EDGE_TYPES: [(usize, usize); 6] = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 0), (0, 2)];
/// A constant that is mixed into the seed of edges, so that they are independent of other random numbers.
const EDGES: u64 = 0x6865_7465_726f;

/// Generates a heterogeneous graph with three node types and six edge types, like PyG's `FakeHeteroDataset` by default.
///
/// Each node type has `avg_num_nodes` nodes, and each edge type has `avg_degree` edges per destination on average.
/// Every node has a class, but only nodes of type `v0` have it as their label. An edge joins nodes of the same class
/// with probability `homophily`, each drawn by a weight from a power law.
///
/// `v0` has `num_channels` features with half the signal, so that neighbors reveal more about a node than the node
/// itself. `v1` has half as many features, and `v2` has none. The same options give the same graph, bit for bit, on any
/// number of threads.
///
/// # Errors
/// [`GraphError::Dataset`] if an option is out of range.
pub fn fake_hetero(options: &FakeOptions) -> Result<Dataset, GraphError> {
    options.check().map_err(|why| GraphError::Dataset { dataset: FAKE_HETERO_NAME.into(), why })?;
    let of_type: Vec<FakeOptions> = (0..NODE_TYPES.len()).map(|t| options_of_type(options, t)).collect();
    let classes: Vec<Vec<u32>> = of_type.iter().map(classes).collect();
    let times: Vec<Option<Vec<i64>>> =
        of_type.iter().map(|options| options.edge_attributes.then(|| node_times(options))).collect();
    let drawn_by_weight: Vec<WeightedNodes> = of_type
        .iter()
        .zip(&classes)
        .map(|(options, classes)| WeightedNodes::new(classes, &weights(options), options.num_classes))
        .collect();
    let node_type = |t: usize| -> Result<NodeData, GraphError> {
        let labelled = t == 0;
        Ok(NodeData {
            name: NODE_TYPES[t].0.into(),
            num_nodes: options.avg_num_nodes,
            features: features(&Workspace::default(), &of_type[t], &classes[t])?,
            labels: labelled.then(|| classes[t].iter().map(|&class| i64::from(class)).collect::<Vec<_>>().into()),
            num_classes: if labelled { options.num_classes } else { 0 },
            splits: if labelled { splits(options) } else { Splits::default() },
            times: times[t].clone().map(Into::into),
            ..NodeData::default()
        })
    };
    let edge_type = |e: usize| {
        let (src, dst) = EDGE_TYPES[e];
        let num_edges = (options.avg_num_nodes as f64 * options.avg_degree).round() as usize;
        let mut keys: Vec<u64> = parallel::map_indices(num_edges, |index| {
            let mut draws = CounterRng::new(combine(combine(combine(options.seed, EDGES), e as u64), index as u64));
            let (from, to) = edge(options, &drawn_by_weight[src], &drawn_by_weight[dst], &mut draws);
            u64::from(from) << 32 | u64::from(to)
        });
        parallel::sort(&mut keys);
        let src_ids: Vec<u32> = parallel::map(&keys, |&key| (key >> 32) as u32);
        let dst_ids: Vec<u32> = parallel::map(&keys, |&key| key as u32);
        let attributes = times[src].as_ref().zip(times[dst].as_ref()).map(|(src_times, dst_times)| {
            let sources = EndNodes { classes: &classes[src], times: src_times };
            let destinations = EndNodes { classes: &classes[dst], times: dst_times };
            let edges = DrawnEdges { src: &src_ids, dst: &dst_ids, sources, destinations, is_undirected: false };
            edge_attributes(combine(options.seed, e as u64), &edges)
        });
        let src = NodeTypeId(src as u16);
        let dst = NodeTypeId(dst as u16);
        let edges = EdgeData::new(src, format!("e{e}"), dst, src_ids.into(), dst_ids.into());
        EdgeData { attributes: attributes.unwrap_or_default(), ..edges }
    };
    Ok(Dataset {
        name: FAKE_HETERO_NAME.into(),
        node_types: (0..NODE_TYPES.len()).map(node_type).collect::<Result<_, _>>()?,
        edge_types: (0..EDGE_TYPES.len()).map(edge_type).collect(),
    })
}

/// Returns the options for generating the nodes of one type.
fn options_of_type(options: &FakeOptions, t: usize) -> FakeOptions {
    FakeOptions {
        seed: combine(options.seed, t as u64),
        num_channels: (options.num_channels as f64 * NODE_TYPES[t].1).round() as usize,
        feature_signal: if t == 0 { options.feature_signal / 2.0 } else { options.feature_signal },
        ..options.clone()
    }
}

/// Draws an edge between a node of the source type and a node of the destination type.
fn edge(options: &FakeOptions, src: &WeightedNodes, dst: &WeightedNodes, draws: &mut CounterRng) -> (u32, u32) {
    let class = dst.draw_class(draws);
    let to = dst.draw(class, draws);
    let other =
        if draws.unit() < options.homophily && src.has(class) { class } else { src.draw_other_class(class, draws) };
    (src.draw(other, draws), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> FakeOptions {
        FakeOptions { avg_num_nodes: 2000, avg_degree: 6.0, num_channels: 8, num_classes: 4, ..FakeOptions::default() }
    }

    #[test]
    fn it_has_the_types_that_it_should_and_is_always_the_same() {
        let graph = fake_hetero(&small()).unwrap();
        graph.validate().unwrap();
        let widths: Vec<Option<usize>> =
            graph.node_types.iter().map(|nodes| nodes.features.as_ref().map(|f| f.dim())).collect();
        assert_eq!(widths, [Some(8), Some(4), None]);
        assert_eq!(graph.edge_types.len(), 6);
        assert!(graph.edge_types.iter().all(|edges| edges.src.len() == 12_000));
        let again = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(|| fake_hetero(&small()));
        for (one, other) in graph.edge_types.iter().zip(&again.unwrap().edge_types) {
            assert!(one.src[..] == other.src[..] && one.dst[..] == other.dst[..]);
        }
        let other = fake_hetero(&FakeOptions { seed: 1, ..small() }).unwrap();
        assert!(other.edge_types[0].src[..] != graph.edge_types[0].src[..]);
    }

    #[test]
    fn edges_join_the_same_class_as_often_as_asked_also_over_types_without_labels() {
        // A path through v1 joins two nodes of type v0. They are of the same class at least with homophily squared.
        let graph = fake_hetero(&FakeOptions { homophily: 0.9, ..small() }).unwrap();
        let labels = graph.node_types[0].labels.as_ref().unwrap();
        let to_v1 = &graph.edge_types[0];
        let to_v0 = &graph.edge_types[1];
        let mut of_v1: Vec<Vec<u32>> = vec![Vec::new(); 2000];
        to_v1.src.iter().zip(&to_v1.dst[..]).for_each(|(&v0, &v1)| of_v1[v1 as usize].push(v0));
        let mut same = 0;
        let mut all = 0;
        for (&v1, &v0) in to_v0.src.iter().zip(&to_v0.dst[..]) {
            for &other in &of_v1[v1 as usize] {
                same += usize::from(labels[other as usize] == labels[v0 as usize]);
                all += 1;
            }
        }
        let share = same as f64 / all as f64;
        // 0.9² + 0.1² / 3 = 0.813.
        assert!((0.78..0.85).contains(&share), "{share}");
    }

    #[test]
    fn edges_of_every_type_carry_something_if_asked() {
        let graph = fake_hetero(&FakeOptions { edge_attributes: true, ..small() }).unwrap();
        graph.validate().unwrap();
        assert!(graph.node_types.iter().all(|nodes| nodes.times.is_some()));
        let weights = |e: usize| graph.edge_types[e].attributes.weights.as_ref().unwrap();
        for edges in &graph.edge_types {
            let attributes = &edges.attributes;
            assert!(attributes.times.is_some() && attributes.features.is_some() && attributes.weights.is_some());
        }
        // With homophily 0.8, about that share of the edges joins the same class and has a larger weight.
        let heavy = weights(0).iter().filter(|&&weight| weight >= 2.0).count() as f64 / weights(0).len() as f64;
        assert!((0.7..0.9).contains(&heavy), "{heavy}");
        assert!(weights(0)[..] != weights(1)[..]);
        assert!(fake_hetero(&small()).unwrap().edge_types.iter().all(|edges| edges.attributes.is_empty()));
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let error = fake_hetero(&FakeOptions { homophily: 2.0, ..small() }).unwrap_err().to_string();
        assert!(error.contains("fake-hetero") && error.contains("homophily"), "{error}");
    }
}

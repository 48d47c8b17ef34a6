//! The table of network traffic that `--stats` prints.

use crate::progress::reporter::Reporter;
use anyhow::Context;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, EdgeTraffic, FeatureTraffic, PeerTraffic};
use edgecut_graph::EdgeTypeMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The traffic of one rank since it started.
#[derive(Serialize, Deserialize)]
pub(super) struct RankTraffic {
    rank: usize,
    peers: Vec<PeerTraffic>,
    /// By node type.
    features: BTreeMap<String, FeatureTraffic>,
    /// By edge type.
    edges: BTreeMap<String, EdgeTraffic>,
    /// The mean number of finished batches that waited when the trainer took one.
    queue_depth: Option<f64>,
}

impl RankTraffic {
    /// Returns the traffic of this process so far.
    pub(super) fn new(rank: usize, graph: &DistGraph) -> Self {
        let meta = graph.part().meta();
        let names = meta.node_types.iter().map(|node_type| node_type.name.clone());
        let edge_names = meta.edge_types.iter().map(EdgeTypeMeta::full_name);
        let traffic = graph.traffic();
        Self {
            rank,
            peers: traffic.by_peer(),
            features: names.zip(traffic.by_node_type()).collect(),
            edges: edge_names.zip(traffic.by_edge_type()).collect(),
            queue_depth: traffic.count().queue_depth(),
        }
    }
}

/// The line of the metrics file.
#[derive(Serialize)]
struct TrafficLine<'a> {
    ranks: &'a [RankTraffic],
}

/// Prints the traffic of all ranks since they started, and writes it to the metrics file. Every rank must call this.
pub(crate) fn report(reporter: &mut Reporter, graph: &DistGraph, world: &mut ProcessGroup) -> anyhow::Result<()> {
    let mine = serde_json::to_vec(&RankTraffic::new(world.rank(), graph)).context("write the traffic as JSON")?;
    let all = world.all_gather(&mine)?;
    let mut ranks: Vec<RankTraffic> = Vec::new();
    for text in all {
        ranks.push(serde_json::from_slice(&text).context("read the traffic of another rank")?);
    }
    reporter.line("traffic", TrafficLine { ranks: &ranks })?;
    reporter.say(&table(&ranks));
    Ok(())
}

fn table(ranks: &[RankTraffic]) -> String {
    let mut text = String::from("rank  peer   requests    sent MB  received MB  waiting s");
    for rank in ranks {
        for peer in &rank.peers {
            let _ = write!(
                text,
                "\n{:4}  {:4}  {:9}  {:9.2}  {:11.2}  {:9.2}",
                rank.rank,
                peer.peer,
                peer.requests,
                megabytes(peer.sent_bytes),
                megabytes(peer.received_bytes),
                peer.wait_seconds
            );
        }
    }
    text += "\nrank  fetched rows  shared rows  cached rows  cached MB  node type";
    for rank in ranks {
        for (name, features) in &rank.features {
            let FeatureTraffic { fetched_nodes, shared_nodes, cached_nodes, cached_bytes } = *features;
            let megabytes = megabytes(cached_bytes);
            let rank = rank.rank;
            let _ = write!(
                text,
                "\n{rank:4}  {fetched_nodes:12}  {shared_nodes:11}  {cached_nodes:11}  {megabytes:9.2}  {name}"
            );
        }
    }
    text += "\nrank  expanded nodes  drawn edges  edge type";
    for rank in ranks {
        for (name, EdgeTraffic { expanded_nodes, drawn_edges }) in &rank.edges {
            let _ = write!(text, "\n{:4}  {expanded_nodes:14}  {drawn_edges:11}  {name}", rank.rank);
        }
    }
    text += "\nrank  waiting batches, mean";
    for rank in ranks {
        let depth = rank.queue_depth.map_or_else(|| "-".into(), |depth| format!("{depth:.2}"));
        let _ = write!(text, "\n{:4}  {depth:>21}", rank.rank);
    }
    text
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_and_peer_has_a_line() {
        let peer =
            PeerTraffic { peer: 1, requests: 12, sent_bytes: 1_500_000, received_bytes: 25_000_000, wait_seconds: 0.5 };
        let features = FeatureTraffic { fetched_nodes: 40, shared_nodes: 5, cached_nodes: 60, cached_bytes: 2_000_000 };
        let edges = EdgeTraffic { expanded_nodes: 30, drawn_edges: 200 };
        let ranks = [
            RankTraffic {
                rank: 0,
                peers: vec![peer],
                features: BTreeMap::from([("paper".to_owned(), features)]),
                edges: BTreeMap::from([("paper__cites__paper".to_owned(), edges)]),
                queue_depth: Some(1.256),
            },
            RankTraffic {
                rank: 1,
                peers: vec![],
                features: BTreeMap::new(),
                edges: BTreeMap::new(),
                queue_depth: None,
            },
        ];
        let expected = "\
rank  peer   requests    sent MB  received MB  waiting s
   0     1         12       1.50        25.00       0.50
rank  fetched rows  shared rows  cached rows  cached MB  node type
   0            40            5           60       2.00  paper
rank  expanded nodes  drawn edges  edge type
   0              30          200  paper__cites__paper
rank  waiting batches, mean
   0                   1.26
   1                      -";
        assert_eq!(table(&ranks), expected);
    }
}

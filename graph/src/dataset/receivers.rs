//! The question whether the nodes that a model learns about receive messages.

use super::{Dataset, EdgeData, NodeData};
use crate::parallel;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most nodes of a type whose edges are searched for.
const SAMPLE: usize = 10_000;
/// The number of edges that a thread visits at a time.
const CHUNK: usize = 1 << 16;

/// A node type to which few edges lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FewReceivers {
    /// The name of the node type.
    pub node_type: String,
    /// The nodes that were looked at: all nodes of a small type.
    pub num_sampled: usize,
    /// The nodes among these with edges from them, but none to them.
    pub num_without: usize,
}

impl Dataset {
    /// Returns the node types whose nodes a model learns about, and most of whose nodes have edges from them but none to
    /// them, so that they receive no messages. These are the types with labels and the ends of labeled and held-out edges,
    /// and all types if there are none or if `links` are predicted.
    pub fn few_receivers(&self, links: bool) -> Vec<FewReceivers> {
        let mut found = Vec::new();
        for (node_type, nodes) in self.node_types.iter().enumerate() {
            if !self.learns_about(node_type, links) {
                continue;
            }
            let sample = NodeSample::of(nodes);
            let [sends, receives] = [sample.none(), sample.none()];
            for edges in &self.edge_types {
                if edges.src_type.index() == node_type {
                    sample.mark(&sends, &edges.src);
                }
                if edges.dst_type.index() == node_type {
                    sample.mark(&receives, &edges.dst);
                }
            }
            let mut num_without = 0;
            for (sends, receives) in sends.into_iter().zip(receives) {
                if sends.into_inner() && !receives.into_inner() {
                    num_without += 1;
                }
            }
            let num_sampled = sample.num_sampled;
            if 2 * num_without > num_sampled {
                found.push(FewReceivers { node_type: nodes.name.clone(), num_sampled, num_without });
            }
        }
        found
    }

    /// Returns true if a model learns about the nodes of a type.
    fn learns_about(&self, node_type: usize, links: bool) -> bool {
        let has_labels = self.node_types.iter().any(is_labeled);
        let has_edge_labels = self.edge_types.iter().any(is_learned);
        if links || !has_labels && !has_edge_labels {
            return true;
        }
        let mut learned = self.edge_types.iter().filter(|edges| is_learned(edges));
        is_labeled(&self.node_types[node_type])
            || learned.any(|edges| [edges.src_type.index(), edges.dst_type.index()].contains(&node_type))
    }
}

fn is_labeled(nodes: &NodeData) -> bool {
    nodes.labels.is_some() || nodes.targets.is_some()
}

/// Returns true for edges whose ends a model scores.
fn is_learned(edges: &EdgeData) -> bool {
    !edges.held_out.is_empty() || edges.attributes.labels.is_some()
}

/// Each `step`-th node of a type.
struct NodeSample {
    step: usize,
    num_sampled: usize,
}

impl NodeSample {
    fn of(nodes: &NodeData) -> Self {
        let step = nodes.num_nodes.div_ceil(SAMPLE).max(1);
        Self { step, num_sampled: nodes.num_nodes.div_ceil(step) }
    }

    /// Returns marks of the sampled nodes, none of which is set.
    fn none(&self) -> Vec<AtomicBool> {
        (0..self.num_sampled).map(|_| AtomicBool::new(false)).collect()
    }

    /// Marks the sampled nodes among the `ends` of edges.
    fn mark(&self, marks: &[AtomicBool], ends: &[u32]) {
        parallel::for_each_range(ends.len(), CHUNK, &|range| {
            for &node in &ends[range] {
                let node = node as usize;
                if node.is_multiple_of(self.step) {
                    // Writes of a mark that is set would move its cache line between cores.
                    let mark = &marks[node / self.step];
                    if !mark.load(Ordering::Relaxed) {
                        mark.store(true, Ordering::Relaxed);
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeTypeId;

    fn nodes(name: &str, num_nodes: usize, is_labeled: bool) -> NodeData {
        let labels = is_labeled.then(|| vec![0; num_nodes].into());
        NodeData { name: name.into(), num_nodes, labels, ..NodeData::default() }
    }

    /// Returns a graph in which each of `num_users` buys an item, and some of the users are recommended.
    fn shop(num_users: usize, num_recommended: usize, [user, item]: [bool; 2]) -> Dataset {
        let users: Vec<u32> = (0..num_users as u32).collect();
        let items = vec![0; num_users];
        let recommended: Vec<u32> = (0..num_recommended as u32).collect();
        let of_item = vec![0; num_recommended];
        let [buyer, bought] = [NodeTypeId(0), NodeTypeId(1)];
        Dataset {
            name: "shop".into(),
            node_types: vec![nodes("user", num_users, user), nodes("item", 1, item)],
            edge_types: vec![
                EdgeData::new(buyer, "buys", bought, users.into(), items.into()),
                EdgeData::new(bought, "to", buyer, of_item.into(), recommended.into()),
            ],
        }
    }

    #[test]
    fn a_share_of_the_nodes_decides() {
        for (num_users, num_recommended, num_without) in [(10, 0, Some(10)), (10, 4, Some(6)), (10, 5, None)] {
            let found = shop(num_users, num_recommended, [true, false]).few_receivers(false);
            assert_eq!(found.first().map(|found| found.num_without), num_without, "{num_recommended}");
        }
        let found = shop(100_001, 30_000, [true, false]).few_receivers(false);
        assert_eq!((found[0].num_sampled, found[0].num_without), (9_091, 6_363));
    }

    #[test]
    fn only_types_that_a_model_learns_about_count() {
        for (labels, links, expected) in
            [([false, true], false, 0), ([false, true], true, 1), ([false, false], false, 1), ([true, true], false, 1)]
        {
            assert_eq!(shop(10, 0, labels).few_receivers(links).len(), expected, "{labels:?} {links}");
        }
    }
}

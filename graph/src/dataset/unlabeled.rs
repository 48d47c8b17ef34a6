//! Nodes without a label in splits.

use super::{Dataset, Split};

impl Dataset {
    /// Leaves nodes without a label or a known target out of all splits, since no loss and no metric can count them.
    /// Returns a sentence for each split that had some.
    ///
    /// ```
    /// # use edgecut_graph::{Dataset, NodeData, Splits};
    /// # let nodes = NodeData {
    /// #     name: "node".into(),
    /// #     num_nodes: 3,
    /// #     labels: Some(vec![0, 1, -1].into()),
    /// #     num_classes: 2,
    /// #     splits: Splits { train: vec![0].into(), valid: vec![1, 2].into(), ..Splits::default() },
    /// #     ..NodeData::default()
    /// # };
    /// let mut graph = Dataset::homogeneous("path", nodes, vec![0, 1].into(), vec![1, 2].into());
    /// assert_eq!(graph.leave_out_unlabeled(), ["1 of 2 valid nodes have no label: they are not evaluated"]);
    /// assert_eq!(graph.node_types[0].splits.valid[..], [1]);
    /// ```
    pub fn leave_out_unlabeled(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for nodes in &mut self.node_types {
            for split in Split::ALL {
                let ids = nodes.splits.get(split);
                let labeled: Vec<u32> = ids.iter().copied().filter(|&id| nodes.is_labeled(id)).collect();
                let num_left_out = ids.len() - labeled.len();
                if num_left_out > 0 {
                    let total = ids.len();
                    let name = split.name();
                    let left_out = if split == Split::Train { "they do not train" } else { "they are not evaluated" };
                    said.push(format!("{num_left_out} of {total} {name} nodes have no label: {left_out}"));
                    nodes.splits.set(split, labeled.into());
                }
            }
        }
        said
    }
}

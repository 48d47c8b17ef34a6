//! Nodes and edges without a label in splits.

use super::{Dataset, NodeData, Split};

impl Dataset {
    /// Leaves nodes and edges without a label or a known target out of all splits, since no loss and no metric can count
    /// them. Returns a sentence for each split that had some.
    pub fn leave_out_unlabeled(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for nodes in &mut self.node_types {
            let label_is_named = !nodes.more_labels.is_empty();
            nodes.for_each_label(|nodes| nodes.leave_out_unlabeled(label_is_named, &mut said));
        }
        for labels in self.edge_types.iter_mut().filter_map(|edges| edges.attributes.labels.as_mut()) {
            let had = labels.sizes();
            labels.leave_out_unlabeled();
            let has = labels.sizes();
            for split in Split::ALL {
                let total = had[split.index()];
                let num_left_out = total - has[split.index()];
                if num_left_out > 0 {
                    said.push(sentence("edges", "", split, num_left_out, total));
                }
            }
        }
        said
    }
}

impl NodeData {
    /// Leaves nodes without the first label out of its splits. The sentences name the label if it is one of several.
    fn leave_out_unlabeled(&mut self, label_is_named: bool, said: &mut Vec<String>) {
        let label = if label_is_named { format!(" {}", self.shown_name()) } else { String::new() };
        for split in Split::ALL {
            let ids = self.splits.get(split);
            let labeled: Vec<u32> = ids.iter().copied().filter(|&id| self.is_labeled(id)).collect();
            let num_left_out = ids.len() - labeled.len();
            if num_left_out > 0 {
                said.push(sentence("nodes", &label, split, num_left_out as u64, ids.len() as u64));
                self.splits.set(split, labeled.into());
            }
        }
    }
}

/// Returns a sentence about the nodes or edges that are left out of a split. `label` is empty or a space and the name of a label.
fn sentence(items: &str, label: &str, split: Split, num_left_out: u64, total: u64) -> String {
    let left_out = if split == Split::Train { "they do not train" } else { "they are not evaluated" };
    format!("{num_left_out} of {total} {} {items} have no label{label}: {left_out}", split.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::{NodeLabel, Splits};

    #[test]
    fn sentences_name_one_of_several_labels() {
        let splits = Splits { train: vec![0, 1].into(), ..Splits::default() };
        let kind = NodeLabel {
            name: "kind".into(),
            labels: Some(vec![-1, -1].into()),
            num_classes: 1,
            splits: splits.clone(),
            ..NodeLabel::default()
        };
        let nodes = NodeData {
            name: "user".into(),
            num_nodes: 2,
            label_name: Some("churn".into()),
            labels: Some(vec![0, -1].into()),
            num_classes: 1,
            splits,
            more_labels: vec![kind],
            ..NodeData::default()
        };
        let mut graph = Dataset::homogeneous("users", nodes, vec![0].into(), vec![1].into());
        let sentences = graph.leave_out_unlabeled();
        assert_eq!(sentences[0], "1 of 2 train nodes have no label user:churn: they do not train");
        assert_eq!(sentences[1], "2 of 2 train nodes have no label user:kind: they do not train");
        assert_eq!(sentences.len(), 2);
    }
}

//! A label among others of its node type.

use crate::loss::{OutputKind, Target};
use edgecut_graph::{Meta, NodeLabelMeta, NodeTypeId, Split};
use std::ops::Range;

/// A label of a graph whose labels are together ([`Part::with_labels_together`](edgecut_graph::Part::with_labels_together)).
#[derive(Clone, Debug)]
pub struct TargetLabel {
    /// The full name: `TYPE:LABEL`, or the node type of its only label.
    pub name: String,
    /// The node type.
    pub node_type: NodeTypeId,
    /// The description of the label.
    pub meta: NodeLabelMeta,
    /// The columns of its values among the labels of the type. The column after them has the split.
    values: Range<usize>,
}

/// The nodes of a batch that are in a split of a label.
pub struct KnownNodes {
    /// The positions of the nodes; `None` for all nodes of the batch.
    pub rows: Option<Vec<i32>>,
    /// Their values.
    pub target: Target,
}

impl TargetLabel {
    /// Returns all labels of a graph, in the order of its node types.
    pub fn all(meta: &Meta) -> Vec<Self> {
        let mut labels = Vec::new();
        for (t, nodes) in meta.node_types.iter().enumerate() {
            let mut first = 0;
            for label in &nodes.more_labels {
                let name =
                    if label.name.is_empty() { nodes.name.clone() } else { format!("{}:{}", nodes.name, label.name) };
                let values = first..first + label.num_columns();
                first = values.end + 1;
                labels.push(Self { name, node_type: NodeTypeId(t as u16), meta: label.clone(), values });
            }
        }
        labels
    }

    /// Returns the label with a full name.
    pub fn find(meta: &Meta, name: &str) -> Option<Self> {
        Self::all(meta).into_iter().find(|label| label.name == name)
    }

    /// Returns true if a text is the full name, the name of the label or the name of its node type.
    pub fn is_named(&self, text: &str) -> bool {
        let of_type = self.name.split_once(':').map_or(self.name.as_str(), |(of_type, _)| of_type);
        !text.is_empty() && (self.name == text || self.meta.name == text || of_type == text)
    }

    /// Returns the meaning of its values; `None` without classes and numbers.
    pub fn outputs(&self) -> Option<OutputKind> {
        OutputKind::of_label(&self.meta)
    }

    /// Returns true if its value is a class.
    fn is_class(&self) -> bool {
        self.meta.targets.is_none()
    }

    /// Returns the nodes of a batch in a split of this label, with their values. `together` has a row for each node, with the
    /// columns of all labels of the node type. Returns `None` without such nodes.
    pub fn known(&self, together: &Target, split: Split) -> Option<KnownNodes> {
        let Target::Numbers { values, dim } = together else { return None };
        let code = f32::from(split.code());
        let mut rows = Vec::new();
        let mut numbers = Vec::new();
        let mut num_nodes = 0;
        for (row, of_node) in (0..).zip(values.chunks_exact(*dim)) {
            num_nodes += 1;
            // A split without a known value is not possible, because parts and readers check it.
            if of_node[self.values.end] == code {
                rows.push(row);
                numbers.extend_from_slice(&of_node[self.values.clone()]);
            }
        }
        if rows.is_empty() {
            return None;
        }
        let target = if self.is_class() {
            Target::Classes(numbers.into_iter().map(|class| class as i64).collect())
        } else {
            Target::Numbers { values: numbers, dim: self.values.len() }
        };
        Some(KnownNodes { rows: Some(rows).filter(|rows| rows.len() < num_nodes), target })
    }

    /// Adds the classes of the training nodes among `values`, which are rows with `dim` columns of all labels, to the counts of
    /// all classes.
    pub(super) fn count_classes(&self, values: &[f32], dim: usize, counts: &mut [u64]) {
        if !self.is_class() || dim == 0 {
            return;
        }
        for of_node in values.chunks_exact(dim) {
            if of_node[self.values.end] == f32::from(Split::Train.code()) {
                counts[of_node[self.values.start] as usize] += 1;
            }
        }
    }
}

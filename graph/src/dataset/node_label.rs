//! The labels of nodes beside the first label of their type.

use super::{NodeData, Split, Splits, Targets};
use crate::NodeLabelMeta;
use crate::memory::Buffer;

/// A label of nodes with a name. A node type may have several ones, each with splits of its own.
#[derive(Clone, Debug, Default)]
pub struct NodeLabel {
    /// The name, such as the column of a table.
    pub name: String,
    /// The class of each node, -1 if unlabeled, if the label has classes.
    pub labels: Option<Buffer<i64>>,
    /// The number of classes, 0 without classes.
    pub num_classes: usize,
    /// Numbers to predict for each node. A label has either classes or numbers.
    pub targets: Option<Targets>,
    /// The training, validation and test nodes.
    pub splits: Splits,
}

impl NodeLabel {
    /// Returns the description, without the digest of the names of classes.
    pub(crate) fn meta(&self) -> NodeLabelMeta {
        NodeLabelMeta {
            name: self.name.clone(),
            has_labels: self.labels.is_some(),
            num_classes: if self.labels.is_some() { self.num_classes } else { 0 },
            targets: self.targets.as_ref().map(Targets::meta),
            split_sizes: Split::ALL.map(|split| self.splits.get(split).len() as u64),
            classes: None,
        }
    }
}

impl NodeData {
    /// Runs `visit` on the type with each of its labels in the place of the first one, in their order.
    pub(crate) fn for_each_label(&mut self, mut visit: impl FnMut(&mut Self)) {
        visit(self);
        for at in 0..self.more_labels.len() {
            self.swap_label(at);
            visit(self);
            self.swap_label(at);
        }
    }

    /// Returns the type with each of its labels in the place of the first one, in their order. Arrays are shared.
    pub(crate) fn by_label(&self) -> Vec<Self> {
        let mut all = vec![self.clone()];
        for at in 0..self.more_labels.len() {
            let mut other = self.clone();
            other.swap_label(at);
            all.push(other);
        }
        all
    }

    /// Returns the name of the type, with the name of the first label if it has one, for messages.
    pub(crate) fn shown_name(&self) -> String {
        match &self.label_name {
            Some(label) => format!("{}:{label}", self.name),
            None => self.name.clone(),
        }
    }

    /// Exchanges the first label and another one.
    fn swap_label(&mut self, at: usize) {
        let mut more = std::mem::take(&mut self.more_labels);
        let other = &mut more[at];
        std::mem::swap(&mut self.labels, &mut other.labels);
        std::mem::swap(&mut self.num_classes, &mut other.num_classes);
        std::mem::swap(&mut self.targets, &mut other.targets);
        std::mem::swap(&mut self.splits, &mut other.splits);
        std::mem::swap(self.label_name.get_or_insert_default(), &mut other.name);
        self.more_labels = more;
    }
}

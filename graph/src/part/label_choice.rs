//! The choice of labels that a run reads.
//!
//! Samplers, loaders and servers know one label per node type. A run that reads another one, or several at once, puts
//! these in the place of the first label in each of its processes.

use super::arrays::PartLabel;
use super::group::PartsOnDisk;
use super::{Meta, NodeLabelMeta, NodeTypeMeta, Part};
use crate::NodeTypeId;
use crate::dataset::{Split, Splits, TargetKind, TargetMeta};
use crate::memory::Buffer;
use edgecut_settings::suggestion;
use std::sync::Arc;

/// A label of a node type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelId {
    /// The node type.
    pub node_type: NodeTypeId,
    /// The position among the labels of the type, counted from 0.
    pub label: usize,
}

impl NodeTypeMeta {
    /// Returns the label at a position, counted from 0. The only label of a type has an empty name, and a type without
    /// labels has one with neither classes nor targets.
    pub fn label(&self, at: usize) -> NodeLabelMeta {
        match at.checked_sub(1) {
            Some(at) => self.more_labels[at].clone(),
            None => NodeLabelMeta {
                name: self.label_name.clone().unwrap_or_default(),
                has_labels: self.has_labels,
                num_classes: self.num_classes,
                targets: self.targets,
                split_sizes: self.split_sizes,
                classes: self.digests.classes.clone(),
            },
        }
    }

    /// Returns all labels in their order.
    pub fn labels(&self) -> Vec<NodeLabelMeta> {
        (0..=self.more_labels.len()).map(|at| self.label(at)).collect()
    }

    fn set_first_label(&mut self, label: NodeLabelMeta) {
        let NodeLabelMeta { name, has_labels, num_classes, targets, split_sizes, classes } = label;
        self.label_name = Some(name).filter(|name| !name.is_empty());
        self.has_labels = has_labels;
        self.num_classes = num_classes;
        self.targets = targets;
        self.split_sizes = split_sizes;
        self.digests.classes = classes;
    }
}

impl Meta {
    /// Returns the label that a text names: `TYPE:LABEL`, a label that one node type alone has, or a node type with one
    /// label.
    ///
    /// # Errors
    /// Names the labels of the graph.
    pub fn find_label(&self, text: &str) -> Result<LabelId, String> {
        let mut found = Vec::new();
        let mut known = Vec::new();
        for (t, nodes) in self.node_types.iter().enumerate() {
            if nodes.more_labels.is_empty() && !nodes.is_labeled() {
                continue;
            }
            for (label, of_type) in nodes.labels().into_iter().enumerate() {
                let id = LabelId { node_type: NodeTypeId(t as u16), label };
                let full = self.label_name(id);
                if text == full {
                    return Ok(id);
                }
                // The only label of a type has no name, so an empty text would name it.
                if !text.is_empty() && (text == of_type.name || text == nodes.name) {
                    found.push((full.clone(), id));
                }
                known.push(full);
            }
        }
        match &found[..] {
            [(_, only)] => Ok(*only),
            [] if known.is_empty() => Err(format!("{text}: no node type of dataset {} has labels", self.dataset)),
            [] if text.is_empty() => {
                Err(format!("is empty: choose a label of dataset {}: {}", self.dataset, known.join(", ")))
            }
            [] => {
                let hint = suggestion(text, known.iter().map(String::as_str));
                Err(format!("{text}: dataset {} has no such label{hint}: choose {}", self.dataset, known.join(", ")))
            }
            _ => {
                let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
                Err(format!("{text}: dataset {} has several such labels: choose {}", self.dataset, names.join(" or ")))
            }
        }
    }

    /// Returns the name of a label, which [`find_label`](Self::find_label) finds.
    pub fn label_name(&self, id: LabelId) -> String {
        let nodes = &self.node_types[id.node_type.index()];
        let label = nodes.label(id.label).name;
        if label.is_empty() { nodes.name.clone() } else { format!("{}:{label}", nodes.name) }
    }

    /// Remembers the parts on disk, whose fingerprint does not depend on the choice of labels.
    fn remember_parts(&mut self) {
        if self.on_disk.is_none() {
            self.on_disk = Some(PartsOnDisk::of(self));
        }
    }
}

impl Part {
    /// Leaves out all labels but one, which becomes the first label of its node type.
    pub fn with_label(mut self, id: LabelId) -> Self {
        let meta = Arc::make_mut(&mut self.meta);
        meta.remember_parts();
        for (t, (of_type, nodes)) in meta.node_types.iter_mut().zip(&mut self.nodes).enumerate() {
            if t == id.node_type.index() {
                of_type.set_first_label(of_type.label(id.label));
                nodes.set_first_label(nodes.label(id.label));
            } else {
                of_type.set_first_label(NodeLabelMeta::default());
                nodes.set_first_label(PartLabel::default());
            }
            of_type.more_labels.clear();
            nodes.more_labels.clear();
        }
        self
    }

    /// Leaves out all labels but several, which are the first label of their node type together, as targets. The chosen
    /// labels alone are [`NodeTypeMeta::more_labels`], in the order of `ids`.
    ///
    /// The targets of a node are, for each of the labels in the order of `ids`, its class or its numbers, and the
    /// [`Split::code`] of its split. NaN stands for an unknown value and for no split. A node is in each split that it has
    /// for one of the labels.
    pub fn with_labels_together(mut self, ids: &[LabelId]) -> Self {
        let meta = Arc::make_mut(&mut self.meta);
        meta.remember_parts();
        for (t, (of_type, nodes)) in meta.node_types.iter_mut().zip(&mut self.nodes).enumerate() {
            let chosen: Vec<usize> = ids.iter().filter(|id| id.node_type.index() == t).map(|id| id.label).collect();
            of_type.more_labels = chosen.iter().map(|&at| of_type.label(at)).collect();
            nodes.more_labels = chosen.iter().map(|&at| nodes.label(at)).collect();
            if chosen.is_empty() {
                of_type.set_first_label(NodeLabelMeta::default());
                nodes.set_first_label(PartLabel::default());
                continue;
            }
            let labels: Vec<(&NodeLabelMeta, &PartLabel)> =
                of_type.more_labels.iter().zip(&nodes.more_labels).collect();
            let together = joined_label(&labels, nodes.original_ids.len());
            let mut split_sizes = [0; 3];
            for (label, _) in &labels {
                split_sizes = [0, 1, 2].map(|split| label.split_sizes[split].max(split_sizes[split]));
            }
            let dim = labels.iter().map(|(label, _)| label.num_columns() + 1).sum();
            let targets = Some(TargetMeta { dim, kind: TargetKind::Regression });
            of_type.set_first_label(NodeLabelMeta { targets, split_sizes, ..NodeLabelMeta::default() });
            nodes.set_first_label(together);
        }
        self
    }
}

impl NodeLabelMeta {
    /// Returns the number of columns of the label beside others ([`Part::with_labels_together`]), without the split.
    pub fn num_columns(&self) -> usize {
        self.targets.map_or(1, |targets| targets.dim)
    }
}

/// Returns labels side by side.
fn joined_label(labels: &[(&NodeLabelMeta, &PartLabel)], num_rows: usize) -> PartLabel {
    let dim: usize = labels.iter().map(|(meta, _)| meta.num_columns() + 1).sum();
    let mut values = vec![f32::NAN; num_rows * dim];
    let mut first = 0;
    for (meta, label) in labels {
        let width = meta.num_columns();
        for (row, of_row) in values.chunks_exact_mut(dim).enumerate() {
            let of_label = &mut of_row[first..first + width];
            match (&label.labels, &label.targets) {
                (Some(classes), _) if classes[row] >= 0 => of_label[0] = classes[row] as f32,
                (None, Some(targets)) => of_label.copy_from_slice(&targets[row * width..][..width]),
                _ => {}
            }
        }
        for split in Split::ALL {
            for &row in label.splits.get(split).iter() {
                values[row as usize * dim + first + width] = f32::from(split.code());
            }
        }
        first += width + 1;
    }
    let mut splits = Splits::default();
    for split in Split::ALL {
        let lists = labels.iter().flat_map(|(_, label)| label.splits.get(split).iter().copied());
        let mut rows: Vec<u32> = lists.collect();
        rows.sort_unstable();
        rows.dedup();
        splits.set(split, Buffer::from(rows));
    }
    PartLabel { labels: None, targets: Some(values.into()), splits }
}

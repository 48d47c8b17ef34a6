//! The updated nodes of a type.

use super::NodeUpdate;
use super::gather::{gather, gather_features};
use crate::GraphError;
use crate::dataset::{NodeData, Split, Splits, Targets};
use crate::memory::{Features, Workspace};
use crate::part::PartNodes;
use crate::{NodeTypeId, Part};

/// The number of a node that is removed, and the row of a node that has none.
pub(super) const NONE: u32 = u32::MAX;

const DAMAGED: &str = "the original ids of the parts do not belong together";

/// The numbers of the nodes of a type after an update.
pub(super) struct Numbering {
    /// The number of each global id of the parts, or [`NONE`].
    pub(super) of_global: Vec<u32>,
    /// The global id in the parts of each node that stays, by number.
    pub(super) globals: Vec<u32>,
    /// The part of each node that stays.
    pub(super) parts: Vec<u32>,
    /// The row of each node in the update, or [`NONE`].
    rows: Vec<u32>,
}

impl Numbering {
    /// Numbers the nodes of a type that stay. `is_removed` has an entry per original id.
    ///
    /// # Errors
    /// Describes original ids of parts that do not belong together.
    pub(super) fn new(parts: &[Part], node_type: NodeTypeId, is_removed: &[bool]) -> Result<Self, String> {
        let num_known = is_removed.len();
        // The part and the global id of each original id.
        let mut places = vec![(NONE, NONE); num_known];
        for part in parts {
            let start = part.owned(node_type).start;
            for (global, &original) in (start..).zip(&part.nodes(node_type).original_ids[..]) {
                *places.get_mut(original as usize).ok_or(DAMAGED)? = (part.id().0, global);
            }
        }
        let mut of_global = vec![NONE; num_known];
        let mut globals = Vec::with_capacity(num_known);
        let mut of_parts = Vec::with_capacity(num_known);
        for (&(part, global), _) in places.iter().zip(is_removed).filter(|(_, is_removed)| !**is_removed) {
            *of_global.get_mut(global as usize).ok_or(DAMAGED)? = globals.len() as u32;
            globals.push(global);
            of_parts.push(part);
        }
        let rows = vec![NONE; globals.len()];
        Ok(Self { of_global, globals, parts: of_parts, rows })
    }

    /// Adds the nodes of an update's rows, which have `numbers`.
    ///
    /// # Errors
    /// Describes numbers that do not belong together.
    pub(super) fn with_rows(mut self, numbers: &[u32]) -> Result<Self, String> {
        let num_kept = self.globals.len();
        let num_new = numbers.iter().filter(|&&number| number as usize >= num_kept).count();
        self.rows.resize(num_kept + num_new, NONE);
        for (row, &number) in (0..).zip(numbers) {
            match self.rows.get_mut(number as usize) {
                Some(of_node) if *of_node == NONE => *of_node = row,
                _ => return Err(format!("row {row} of the update has the number {number}, which is not free")),
            }
        }
        Ok(self)
    }

    /// Returns the position of each node among the nodes of the parts, followed by the rows of the update and, for new nodes
    /// without a row in an array, by the value of such nodes. `num_rows` is 0 for an array that the update does not have.
    /// Known nodes only take rows for which `has_value` is true.
    fn positions(&self, num_rows: usize, has_value: impl Fn(u32) -> bool) -> Vec<u64> {
        let num_known = self.of_global.len() as u64;
        let mut positions = Vec::with_capacity(self.rows.len());
        for (number, &row) in self.rows.iter().enumerate() {
            let has_row = (row as usize) < num_rows;
            positions.push(match self.globals.get(number) {
                Some(&global) if !has_row || !has_value(row) => u64::from(global),
                _ if has_row => num_known + u64::from(row),
                _ => num_known + num_rows as u64,
            });
        }
        positions
    }
}

/// Returns the updated nodes of a type.
pub(super) fn updated(
    parts: &[Part],
    node_type: NodeTypeId,
    update: &NodeUpdate,
    numbering: &Numbering,
    space: &Workspace,
) -> Result<NodeData, GraphError> {
    let Some(meta) = parts.first().map(|part| &part.meta().node_types[node_type.index()]) else {
        return Ok(NodeData::default());
    };
    let nodes: Vec<&PartNodes> = parts.iter().map(|part| part.nodes(node_type)).collect();
    let rows = &update.rows;
    let mut features = None;
    if meta.feature_dim > 0 {
        let pieces: Vec<&Features> =
            nodes.iter().filter_map(|nodes| nodes.features.as_ref()).chain(&rows.features).collect();
        let positions = numbering.positions(rows.num_nodes, |_| true);
        features = Some(gather_features(space, &pieces, meta.feature_dim, meta.feature_dtype, &positions)?);
    }
    // A row without a label keeps the label of its node: without it, the node would lose its split.
    let mut labels = None;
    if meta.has_labels {
        let of_rows = rows.labels.as_deref().unwrap_or_default();
        let mut pieces: Vec<&[i64]> = nodes.iter().filter_map(|nodes| nodes.labels.as_deref()).collect();
        pieces.extend([of_rows, &[-1]]);
        labels = Some(gather(space, &pieces, 1, &numbering.positions(of_rows.len(), |row| rows.is_labeled(row)))?);
    }
    let mut targets = None;
    if let Some(of_type) = meta.targets {
        let of_rows = rows.targets.as_ref().map_or(&[][..], |targets| &targets.values[..]);
        let unknown = vec![f32::NAN; of_type.dim];
        let mut pieces: Vec<&[f32]> = nodes.iter().filter_map(|nodes| nodes.targets.as_deref()).collect();
        pieces.extend([of_rows, &unknown]);
        let positions = numbering.positions(of_rows.len() / of_type.dim.max(1), |row| rows.is_labeled(row));
        let values = gather(space, &pieces, of_type.dim, &positions)?;
        targets = Some(Targets { values, dim: of_type.dim, kind: of_type.kind });
    }
    let mut times = None;
    if meta.has_times {
        let pieces: Vec<&[i64]> =
            nodes.iter().filter_map(|nodes| nodes.times.as_deref()).chain(rows.times.as_deref()).collect();
        times = Some(gather(space, &pieces, 1, &numbering.positions(rows.num_nodes, |_| true))?);
    }
    Ok(NodeData {
        name: meta.name.clone(),
        num_nodes: numbering.rows.len(),
        features,
        labels,
        num_classes: meta.num_classes,
        splits: splits(parts, node_type, update, numbering),
        times,
        targets,
        ..NodeData::default()
    })
}

/// Returns the splits of the parts with those of the update's rows.
fn splits(parts: &[Part], node_type: NodeTypeId, update: &NodeUpdate, numbering: &Numbering) -> Splits {
    let mut splits = Splits::default();
    for split in Split::ALL {
        let mut nodes = Vec::new();
        for part in parts {
            let start = part.owned(node_type).start;
            let of_part = part.nodes(node_type).splits.get(split).iter();
            nodes.extend(of_part.map(|row| numbering.of_global[(start + row) as usize]).filter(|&node| node != NONE));
        }
        nodes.extend(update.rows.splits.get(split).iter().map(|&row| update.numbers[row as usize]));
        nodes.sort_unstable();
        splits.set(split, nodes.into());
    }
    splits
}

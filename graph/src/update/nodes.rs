//! The nodes of a type in the updated parts.

use super::NodeUpdate;
use super::numbers::{KnownNumbers, UpdatedNumbers};
use crate::dataset::{NodeData, Split, Splits};
use crate::part::{NodeTypeMeta, PartLabel, PartNodes, label_dir, node_dir};
use crate::part_writer::{Content, Job, Selection};
use crate::{NodeTypeId, Part};
use std::sync::Arc;

/// The class of a new node without a label.
const UNLABELED: &[i64] = &[-1];

/// The nodes of a type in existing parts, with the rows of an update.
pub(super) struct TypeNodes<'a> {
    parts: Vec<&'a PartNodes>,
    of_type: &'a NodeTypeMeta,
    known: Arc<KnownNumbers<'a>>,
    rows: NodeData,
    /// The rows with each label in the place of the first one.
    by_label: Vec<NodeData>,
    /// The labels of the parts, by label and part.
    labels: Vec<Vec<PartLabel>>,
    /// The id of the node of each row.
    ids: Vec<u32>,
    /// The changed nodes, ascending, each with its row.
    changed: Vec<(u32, u32)>,
    /// The row of each new node.
    new: Vec<u32>,
    /// Unknown targets of a new node, as many as a label has.
    unknown: Vec<f32>,
}

/// The arrays that the files of a node type in a part are made of.
pub(super) struct PartRows {
    /// The number of each node.
    numbers: Vec<u32>,
    /// The position of each node's attributes among the nodes of the part, followed by the rows of the update.
    positions: Vec<u64>,
    labels: Vec<LabelRows>,
}

/// A label of the nodes of a part.
struct LabelRows {
    /// Like the positions of attributes; a position past the last row is of a node without a label.
    positions: Vec<u64>,
    splits: [Vec<u32>; 3],
}

impl<'a> TypeNodes<'a> {
    /// Joins the nodes of `parts` with the rows of an update.
    ///
    /// # Errors
    /// Describes numbers of rows that do not belong together.
    pub(super) fn new(
        parts: &'a [Part],
        node_type: NodeTypeId,
        known: Arc<KnownNumbers<'a>>,
        update: NodeUpdate,
    ) -> Result<Self, String> {
        let NodeUpdate { rows, numbers, .. } = update;
        let of_type = &parts[0].meta().node_types[node_type.index()];
        let ids = known.ids_of_numbers(&numbers);
        let mut changed: Vec<(u32, u32)> = Vec::new();
        let num_new = ids.iter().filter(|id| **id >= known.num_known()).count();
        let mut new = vec![None; num_new];
        for ((row, &id), &number) in (0..).zip(&ids).zip(&numbers) {
            let is_free = match id.checked_sub(known.num_known()) {
                None => {
                    changed.push((id, row));
                    true
                }
                Some(position) => new.get_mut(position as usize).is_some_and(|of_node| of_node.replace(row).is_none()),
            };
            if !is_free {
                return Err(not_free(row, number));
            }
        }
        changed.sort_unstable();
        if let Some(pair) = changed.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let row = pair[1].1;
            return Err(not_free(row, numbers[row as usize]));
        }
        let nodes: Vec<&PartNodes> = parts.iter().map(|part| part.nodes(node_type)).collect();
        let num_labels = 1 + of_type.more_labels.len();
        let labels =
            (0..num_labels).map(|at| nodes.iter().map(|of_part| of_part.label(at)).collect()).collect::<Vec<Vec<_>>>();
        let by_label = rows.by_label();
        let dims = of_type.labels().into_iter().filter_map(|label| label.targets).map(|targets| targets.dim);
        let unknown = vec![f32::NAN; dims.max().unwrap_or(0)];
        // As many rows as new nodes, none of them twice, so each new node has one.
        let new = new.into_iter().flatten().collect();
        Ok(Self { parts: nodes, of_type, known, rows, by_label, labels, ids, changed, new, unknown })
    }

    /// Returns the numbering of the known nodes.
    pub(super) fn known(&self) -> &Arc<KnownNumbers<'a>> {
        &self.known
    }

    /// Returns the number of new nodes.
    pub(super) fn num_new(&self) -> usize {
        self.new.len()
    }

    /// Returns the splits of the rows and of each part, by label.
    pub(super) fn splits(&self) -> impl Iterator<Item = (String, Vec<&Splits>)> {
        self.labels.iter().enumerate().map(|(at, of_parts)| {
            let mut splits: Vec<&Splits> = of_parts.iter().map(|label| &label.splits).collect();
            splits.extend(self.by_label.get(at).map(|rows| &rows.splits));
            let name = match &self.of_type.label(at).name[..] {
                "" => self.of_type.name.clone(),
                label => format!("{}:{label}", self.of_type.name),
            };
            (name, splits)
        })
    }

    /// Returns the number of training nodes of the parts that stay or that the update adds to known nodes, by part.
    pub(super) fn train_nodes(&self) -> Vec<u64> {
        let mut counts = Vec::with_capacity(self.parts.len());
        for (part, labels) in self.labels[0].iter().enumerate() {
            let start = self.known.range(part).start;
            let kept = labels.splits.train.iter().filter(|&&row| !self.known.is_removed(start + row)).count();
            counts.push(kept as u64);
        }
        for &row in self.rows.splits.train.iter() {
            let id = self.ids[row as usize];
            if id < self.known.num_known() {
                counts[self.known.part_of(id)] += 1;
            }
        }
        counts
    }

    /// Returns true for each new node that is a training node.
    pub(super) fn new_is_train(&self) -> Vec<bool> {
        let train = &self.rows.splits.train;
        self.new.iter().map(|row| train.binary_search(row).is_ok()).collect()
    }

    /// Returns the row of a node in the update.
    fn row_of(&self, id: u32) -> Option<u32> {
        match id.checked_sub(self.known.num_known()) {
            Some(position) => Some(self.new[position as usize]),
            None if self.changed.is_empty() => None,
            None => self.changed.binary_search_by_key(&id, |changed| changed.0).ok().map(|at| self.changed[at].1),
        }
    }

    /// Returns the time of a node that is new or changed.
    pub(super) fn updated_time(&self, id: u32) -> Option<i64> {
        let row = self.row_of(id)?;
        self.rows.times.as_ref().map(|times| times[row as usize])
    }

    /// Returns the time of a node, 0 if the type has no times.
    pub(super) fn time(&self, id: u32) -> i64 {
        if let Some(time) = self.updated_time(id) {
            return time;
        }
        let part = self.known.part_of(id);
        let row = id - self.known.range(part).start;
        self.parts[part].times.as_ref().map_or(0, |times| times[row as usize])
    }

    /// Returns the ids of the nodes of an updated part: those that stay, then new ones.
    pub(super) fn ids_in(&self, part: usize, updated: &UpdatedNumbers) -> Vec<u32> {
        let start = self.known.range(part).start;
        let mut ids: Vec<u32> = self.known.kept_rows(part).map(|(row, _)| start + row).collect();
        ids.extend(updated.new_in(part).iter().map(|position| self.known.num_known() + position));
        ids
    }

    /// Returns the arrays of a part. If `keeps_last` is true, a node in several splits stays in the last of them.
    pub(super) fn rows_in(&self, part: usize, updated: &UpdatedNumbers, keeps_last: bool) -> PartRows {
        let known = &self.known;
        let mut numbers: Vec<u32> = known.kept_rows(part).map(|(_, number)| number).collect();
        numbers.extend(updated.new_in(part).iter().map(|position| known.num_kept() + position));
        let mut labels = Vec::with_capacity(self.labels.len());
        for (at, of_parts) in self.labels.iter().enumerate() {
            let rows = self.by_label.get(at);
            let num_rows = rows.map_or(0, num_labels);
            let positions =
                self.positions(part, updated, num_rows, |row| rows.is_some_and(|rows| rows.is_labeled(row)));
            let mut splits = Splits::default();
            for split in Split::ALL {
                let of_rows = rows.map_or(&[][..], |rows| &rows.splits.get(split)[..]);
                splits.set(split, self.split_rows(part, updated, of_parts[part].splits.get(split), of_rows).into());
            }
            if keeps_last {
                splits.keep_last();
            }
            labels.push(LabelRows { positions, splits: Split::ALL.map(|split| splits.get(split).to_vec()) });
        }
        let positions = self.positions(part, updated, self.rows.num_nodes, |_| true);
        PartRows { numbers, positions, labels }
    }

    /// Returns the position of each node of a part among the nodes that the part had, followed by the rows of the update and, for
    /// new nodes without a row in an array, by the value of such nodes. `num_rows` is 0 for an array that the update does not
    /// have. Known nodes only take rows for which `has_value` is true.
    fn positions(
        &self,
        part: usize,
        updated: &UpdatedNumbers,
        num_rows: usize,
        has_value: impl Fn(u32) -> bool,
    ) -> Vec<u64> {
        let range = self.known.range(part);
        let num_known = range.len() as u64;
        let mut positions = Vec::new();
        for (row, _) in self.known.kept_rows(part) {
            let update = self.row_of(range.start + row).filter(|&of_update| (of_update as usize) < num_rows);
            positions.push(match update.filter(|&of_update| has_value(of_update)) {
                Some(of_update) => num_known + u64::from(of_update),
                None => u64::from(row),
            });
        }
        for &position in updated.new_in(part) {
            let row = (self.new[position as usize] as usize).min(num_rows);
            positions.push(num_known + row as u64);
        }
        positions
    }

    /// Returns the rows of a split in a part, of which `of_part` had been in the split before the update.
    fn split_rows(&self, part: usize, updated: &UpdatedNumbers, of_part: &[u32], of_rows: &[u32]) -> Vec<u32> {
        let start = self.known.range(part).start;
        let kept = of_part.iter().filter(|&&row| !self.known.is_removed(start + row));
        let mut rows: Vec<u32> = kept.map(|&row| self.known.row_after(part, row)).collect();
        let owned = updated.range(part);
        let globals = of_rows.iter().map(|&row| updated.global(&self.known, self.ids[row as usize]));
        rows.extend(globals.filter(|global| owned.contains(global)).map(|global| global - owned.start));
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Returns the files of a part in the folder `root`.
    pub(super) fn jobs<'s>(&'s self, part: usize, root: &str, arrays: &'s PartRows) -> Vec<Job<'s>> {
        let of_part = self.parts[part];
        let dir = format!("{root}/{}", node_dir(&self.of_type.name));
        let rows = Selection::Rows(&arrays.positions);
        let mut jobs = vec![Job::new(format!("{dir}/original_ids.npy"), Content::Ids(&arrays.numbers))];
        if let Some(features) = &of_part.features {
            let pieces = [Some(features), self.rows.features.as_ref()].into_iter().flatten().collect();
            jobs.push(Job::new(format!("{dir}/features.npy"), Content::Features(pieces, rows)));
        }
        if let Some(times) = &of_part.times {
            let pieces = [Some(&times[..]), self.rows.times.as_deref()].into_iter().flatten().collect();
            jobs.push(Job::new(format!("{dir}/times.npy"), Content::Whole(pieces, rows)));
        }
        for (at, label) in arrays.labels.iter().enumerate() {
            let of_rows = self.by_label.get(at);
            let name = &self.of_type.label(at).name;
            let dir = if at == 0 { dir.clone() } else { format!("{root}/{}", label_dir(&self.of_type.name, name)) };
            let rows = Selection::Rows(&label.positions);
            let known = &self.labels[at][part];
            if let Some(labels) = &known.labels {
                let of_rows = of_rows.and_then(|rows| rows.labels.as_deref()).unwrap_or_default();
                let content = Content::Whole(vec![&labels[..], of_rows, UNLABELED], rows);
                jobs.push(Job::new(format!("{dir}/labels.npy"), content));
            }
            if let (Some(targets), Some(of_label)) = (&known.targets, self.of_type.label(at).targets) {
                let of_rows = of_rows.and_then(|rows| rows.targets.as_ref());
                let of_rows = of_rows.map_or(&[][..], |targets| &targets.values[..]);
                let pieces = vec![&targets[..], of_rows, &self.unknown[..of_label.dim]];
                let content = Content::Floats(pieces, Some(of_label.dim), rows);
                jobs.push(Job::new(format!("{dir}/targets.npy"), content));
            }
            for (split, rows) in Split::ALL.iter().zip(&label.splits) {
                jobs.push(Job::new(format!("{dir}/{}.npy", split.name()), Content::Ids(rows)));
            }
        }
        jobs
    }
}

impl PartRows {
    /// Returns the number of each node.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Returns the numbers of the nodes of each split, by label.
    pub(super) fn split_sizes(&self) -> impl Iterator<Item = [u64; 3]> {
        self.labels.iter().map(|label| label.splits.each_ref().map(|rows| rows.len() as u64))
    }
}

/// Returns the number of rows that have an entry among the labels or targets.
fn num_labels(rows: &NodeData) -> usize {
    if rows.labels.is_some() || rows.targets.is_some() { rows.num_nodes } else { 0 }
}

fn not_free(row: u32, number: u32) -> String {
    format!("row {row} of the update has the number {number}, which is not free")
}

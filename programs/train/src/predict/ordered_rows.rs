//! Rows in the order of a request, which all ranks compute in blocks.

use super::args::{Format, PredictArgs};
use super::class_names::ClassNames;
use super::files::{Columns, NamedColumns, RowsFile, create_rows, stem_of_rank};
use super::values::Values;
use crate::id_map_file::UserColumn;
use edgecut_cluster::ProcessGroup;
use edgecut_trainer::metrics::Decision;
use std::ops::Range;

/// The bytes that all ranks together send in one step.
const BYTES_AT_ONCE: usize = 32 << 20;

/// Returns the further columns of rows, given the columns of their ids.
type MoreColumns<'a> = dyn Fn(&[Vec<u32>]) -> anyhow::Result<Vec<UserColumn>> + 'a;

/// Rows to compute and to write in their order.
pub(super) struct OrderedRows<'a> {
    pub(super) args: &'a PredictArgs,
    /// The name of the files, without rank and format.
    pub(super) stem: &'a str,
    pub(super) columns: Columns,
    /// The thresholds and the temperature of the model.
    pub(super) decision: Decision,
    pub(super) num_rows: usize,
    /// The numbers that are computed per row, before they become values.
    pub(super) width: usize,
    /// The rows to compute at once, equal on all ranks.
    pub(super) block: usize,
    /// Returns the ids of some rows, column by column.
    pub(super) ids: &'a dyn Fn(Range<usize>) -> Vec<Vec<u32>>,
    /// The further columns, empty.
    pub(super) named: NamedColumns,
    /// Returns the further columns for rows with some ids.
    pub(super) more: &'a MoreColumns<'a>,
    /// The names of the classes of a column of classes, which get a column after the further ones.
    pub(super) classes: Option<ClassNames>,
}

impl OrderedRows<'_> {
    /// Computes the rows and writes them. `compute` returns the numbers of some rows, and may not use the job. One file
    /// has the rows of all ranks, which take blocks in turn and send them to rank 0. Otherwise each rank writes a file
    /// with a contiguous stretch of the rows. Every rank must call this.
    pub(super) fn write(
        &self,
        world: &mut ProcessGroup,
        mut compute: impl FnMut(Range<usize>) -> anyhow::Result<Vec<f32>>,
    ) -> anyhow::Result<()> {
        let args = self.args;
        let rank = world.rank();
        let size = world.size();
        if args.format != Format::Npy && !args.gather {
            let stem = stem_of_rank(self.stem, rank, size);
            let mut file = create_rows(&stem, args, &self.columns, self.further_columns(), self.num_rows)?;
            for rows in stretches(self.num_rows, self.block, rank, size) {
                let values = compute(rows.clone())?;
                self.push(file.as_mut(), rows, values)?;
                // Meeting at every block bounds the wait for a slow rank to the time of one block.
                world.barrier()?;
            }
            file.commit()?;
            // All files are complete, or the job fails.
            return Ok(world.barrier()?);
        }
        let mut file = match rank {
            0 => Some(create_rows(self.stem, args, &self.columns, self.further_columns(), self.num_rows)?),
            _ => None,
        };
        let most = BYTES_AT_ONCE / (size * self.width.max(1) * size_of::<f32>());
        // All ranks get rows, also if there are fewer than fit into one block.
        let block = self.block.min(most).min(self.num_rows.div_ceil(size)).max(1);
        for step in turns(self.num_rows, block, size) {
            let mine = compute(step[rank].clone())?;
            // Rank 0 has computed its own rows.
            let sent: &[f32] = if rank == 0 { &[] } else { &mine };
            let received = world.all_gather(bytemuck::cast_slice(sent))?;
            let Some(file) = &mut file else { continue };
            for (of_rank, rows) in step.iter().enumerate() {
                let values = if of_rank == 0 { mine.clone() } else { bytemuck::pod_collect_to_vec(&received[of_rank]) };
                self.push(file.as_mut(), rows.clone(), values)?;
            }
        }
        if let Some(file) = file {
            file.commit()?;
        }
        Ok(world.barrier()?)
    }

    /// Returns all columns between the ids and the values, empty.
    fn further_columns(&self) -> NamedColumns {
        let mut columns = self.named.clone();
        ClassNames::add_to(self.classes.as_ref(), &mut columns);
        columns
    }

    /// Appends some rows to a file.
    fn push(&self, file: &mut dyn RowsFile, rows: Range<usize>, values: Vec<f32>) -> anyhow::Result<()> {
        let ids = (self.ids)(rows);
        let mut more = (self.more)(&ids)?;
        let ids: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
        let values = Values::of(values, self.width, self.columns.form, &self.decision);
        more.extend(self.classes.as_ref().map(|classes| classes.of(&values)));
        file.push(&ids, &more, &values)
    }
}

/// Returns the rows whose results a rank writes if each rank writes a stretch of them.
pub(super) fn stretch(num_rows: usize, rank: usize, size: usize) -> Range<usize> {
    share(num_rows, rank, size)..share(num_rows, rank + 1, size)
}

/// Returns the number of rows of the ranks below `rank`.
fn share(num_rows: usize, rank: usize, size: usize) -> usize {
    (num_rows as u128 * rank as u128 / size as u128) as usize
}

/// Cuts the stretch of a rank into blocks. All ranks have the same number of blocks, the last of which may be empty.
fn stretches(num_rows: usize, block: usize, rank: usize, size: usize) -> Vec<Range<usize>> {
    let own = stretch(num_rows, rank, size);
    let longest = (0..size).map(|rank| stretch(num_rows, rank, size).len()).max().unwrap_or(0);
    let mut blocks = Vec::new();
    let mut start = own.start;
    for _ in 0..longest.div_ceil(block) {
        let end = (start + block).min(own.end);
        blocks.push(start..end);
        start = end;
    }
    blocks
}

/// Cuts rows into steps, with a block of consecutive rows for each rank.
fn turns(num_rows: usize, block: usize, size: usize) -> Vec<Vec<Range<usize>>> {
    let mut steps = Vec::new();
    let mut start = 0;
    while start < num_rows {
        let mut step = Vec::new();
        for _ in 0..size {
            let end = start.saturating_add(block).min(num_rows);
            step.push(start..end);
            start = end;
        }
        steps.push(step);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_computed_once_in_order() {
        for (num_rows, block, size) in [(10, 3, 1), (10, 3, 4), (1, 8, 3), (17, 1, 2), (64, 4, 4), (5, usize::MAX, 2)] {
            let all: Vec<usize> = (0..num_rows).collect();
            let in_turns: Vec<usize> = turns(num_rows, block, size).into_iter().flatten().flatten().collect();
            assert_eq!(in_turns, all);
            let of_ranks: Vec<Vec<Range<usize>>> =
                (0..size).map(|rank| stretches(num_rows, block.min(100), rank, size)).collect();
            assert!(of_ranks.windows(2).all(|pair| pair[0].len() == pair[1].len()));
            assert_eq!(of_ranks.into_iter().flatten().flatten().collect::<Vec<usize>>(), all);
        }
    }
}

//! Files of node ids, which are ids of the tables or row numbers.

pub(crate) mod npy_numbers;

use crate::exit::UsageError;
use crate::job::reported_once;
use anyhow::{Context, bail, ensure};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{ID_MAP_FILE, Meta, NodeTypeId, node_file};
use edgecut_tables::{IdColumn, IdList, NO_NODE};
use npy_numbers::{read_array, read_numbers};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The first bytes of a `.npy` file.
const NPY: &[u8; 6] = b"\x93NUMPY";
/// The bytes that all ranks together send in one step.
const BYTES_AT_ONCE: usize = 32 << 20;
/// The number of unknown ids that an error names.
const FEW: usize = 5;

/// The form of a file of node ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdFileForm {
    /// A node per row.
    Nodes,
    /// A source and a destination per row.
    Pairs,
}

impl IdFileForm {
    /// Returns the names of the columns in a file with more columns, such as a table of predictions.
    fn names(self, are_row_numbers: bool) -> &'static [&'static str] {
        match (self, are_row_numbers) {
            (Self::Nodes, false) => &["id"],
            (Self::Nodes, true) => &["node_id"],
            (Self::Pairs, false) => &["src", "dst"],
            (Self::Pairs, true) => &["src_id", "dst_id"],
        }
    }
}

/// The ids in a file that a flag names.
pub(crate) struct NodeIdFile {
    flag: &'static str,
    path: PathBuf,
    form: IdFileForm,
    list: IdList,
    /// True if ids are row numbers also in a graph from tables with ids.
    are_row_numbers: bool,
}

impl NodeIdFile {
    /// Reads a CSV, Parquet or `.npy` file, whose first bytes tell its format.
    pub(crate) fn read(
        flag: &'static str,
        path: &Path,
        form: IdFileForm,
        are_row_numbers: bool,
    ) -> anyhow::Result<Self> {
        let mut start = Vec::new();
        let opened = File::open(path).with_context(|| format!("{flag} {}", path.display()))?;
        opened.take(NPY.len() as u64).read_to_end(&mut start).with_context(|| format!("{flag} {}", path.display()))?;
        let list = if start == NPY {
            read_array_of_ids(path, form).context(flag)?
        } else {
            IdList::read(path, form.names(are_row_numbers)).context(flag)?
        };
        let num_rows = list.columns.first().map_or(0, IdColumn::num_rows);
        ensure!(num_rows > 0, "{flag} {}: it has no ids", path.display());
        Ok(Self { flag, path: path.to_owned(), form, list, are_row_numbers })
    }

    /// Returns the checksum of the ids, which must be equal on all ranks.
    pub(crate) fn checksum(&self) -> String {
        self.list.checksum()
    }

    /// Finds the nodes with the ids of each column, of which `types` has the node types. Returns their original ids. `root`
    /// is the folder of the parts. Every rank must call this.
    ///
    /// # Errors
    /// Fails for ids that no node has, with the first of them and their number.
    pub(crate) fn find(
        &self,
        types: &[NodeTypeId],
        root: Option<&Path>,
        graph: &DistGraph,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Vec<Vec<u32>>> {
        let mut columns = Vec::with_capacity(types.len());
        for (column, &node_type) in self.list.columns.iter().zip(types) {
            let found = self.find_distinct(column, node_type, root, graph, world)?;
            columns.push(column.rows().iter().map(|&at| found[at as usize]).collect::<Vec<u32>>());
        }
        let checked = self.check_columns(&columns, types, graph.part().meta());
        reported_once(checked, graph.cluster(), world)?;
        Ok(columns)
    }

    /// Checks that all ids have nodes.
    fn check_columns(&self, columns: &[Vec<u32>], types: &[NodeTypeId], meta: &Meta) -> anyhow::Result<()> {
        for (end, (nodes, node_type)) in columns.iter().zip(types).enumerate() {
            let of_type = &meta.node_types[node_type.index()];
            let by_row = self.are_row_numbers || !of_type.has_id_map;
            let limit = by_row.then(|| of_type.book.num_nodes());
            self.check(end, nodes, &of_type.name, limit)?;
        }
        Ok(())
    }

    /// Finds the node of each different id of a column, or [`NO_NODE`].
    fn find_distinct(
        &self,
        column: &IdColumn,
        node_type: NodeTypeId,
        root: Option<&Path>,
        graph: &DistGraph,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Vec<u32>> {
        let part = graph.part();
        let meta = part.meta();
        let of_type = &meta.node_types[node_type.index()];
        if self.are_row_numbers || !of_type.has_id_map {
            return Ok(column.as_row_numbers(of_type.book.num_nodes()));
        }
        let Some(root) = root.filter(|_| !graph.is_client()) else {
            bail!(UsageError(format!(
                "{} {}: ids of tables are found in the files of the parts, which servers have: add --row-numbers, and list \
                 row numbers",
                self.flag,
                self.path.display()
            )));
        };
        let mut mine = Vec::new();
        for on_disk in part.parts_on_disk() {
            let name = node_file(on_disk, &of_type.name, ID_MAP_FILE);
            let file = meta.open_file(root, &name)?;
            let nodes = meta.book_on_disk(node_type).range(on_disk);
            let first = part.owned(node_type).start;
            let rows = (nodes.start - first) as usize..(nodes.end - first) as usize;
            let originals = &part.nodes(node_type).original_ids[rows];
            column.find_in(&root.join(&name), file, originals, |position, original| mine.push([position, original]))?;
        }
        let mut found = vec![NO_NODE; column.num_distinct()];
        // All ranks exchange what they have found, in steps of a limited size.
        let at_once = BYTES_AT_ONCE / (size_of::<[u32; 2]>() * world.size());
        let mut steps = [mine.len().div_ceil(at_once) as u64];
        world.all_reduce(&mut steps, ReduceOp::Max)?;
        let mut pieces = mine.chunks(at_once);
        for _ in 0..steps[0] {
            let piece = pieces.next().unwrap_or_default();
            for of_rank in world.all_gather(bytemuck::cast_slice(piece))? {
                add_found(&of_rank, of_type.book.num_nodes(), &mut found)?;
            }
        }
        Ok(found)
    }

    /// Checks that the ids of a column have nodes. `limit` is the number of nodes if ids are row numbers.
    fn check(&self, end: usize, nodes: &[u32], node_type: &str, limit: Option<usize>) -> anyhow::Result<()> {
        let num_unknown = nodes.iter().filter(|&&node| node == NO_NODE).count();
        if num_unknown == 0 {
            return Ok(());
        }
        let column = &self.list.columns[end];
        let unknown = nodes.iter().enumerate().filter(|(_, node)| **node == NO_NODE).take(FEW);
        let mut shown: Vec<String> =
            unknown.map(|(row, _)| format!("{} (row {})", column.text(column.rows()[row]), row + 1)).collect();
        if num_unknown > FEW {
            shown.push(format!("and {} more", num_unknown - FEW));
        }
        let what = match (self.list.columns.len(), end) {
            (1, _) => "ids",
            (_, 0) => "sources",
            _ => "destinations",
        };
        let flag = self.flag;
        let path = self.path.display();
        let of_all = format!("{num_unknown} of {} {what} do not exist", nodes.len());
        let mut shown = shown.join(", ");
        if self.list.lacks_header && nodes[0] == NO_NODE {
            let names = self.form.names(self.are_row_numbers).join(",");
            shown.push_str(&format!(". If row 1 is a header, write it as {names}"));
        }
        match limit {
            Some(num_nodes) => bail!(
                "{flag} {path}: {of_all}: {shown}. There are {num_nodes} nodes of the type {node_type}, whose ids are their \
                 row numbers, counted from 0"
            ),
            None => bail!(
                "{flag} {path}: {of_all} in the tables of the node type {node_type}: {shown}. If they are row numbers, add \
                 --row-numbers"
            ),
        }
    }
}

/// Adds the nodes that a rank has found: pairs of the position of an id and the original id of its node.
///
/// # Errors
/// Fails for a message with other positions or nodes than there are.
fn add_found(of_rank: &[u8], num_nodes: usize, found: &mut [u32]) -> anyhow::Result<()> {
    let (pairs, rest) = of_rank.as_chunks::<8>();
    ensure!(rest.is_empty(), "a rank sent a truncated list of ids");
    for pair in pairs {
        let [position, original]: [u32; 2] = bytemuck::pod_read_unaligned(pair);
        ensure!((original as usize) < num_nodes, "a rank sent a node that does not exist");
        *found.get_mut(position as usize).context("a rank sent the node of an id that is not wanted")? = original;
    }
    Ok(())
}

fn read_array_of_ids(path: &Path, form: IdFileForm) -> anyhow::Result<IdList> {
    if form == IdFileForm::Nodes {
        let numbers = read_numbers::<i64>(path, "node id")?;
        return Ok(IdList::of_numbers(path, &[&numbers])?);
    }
    let (shape, numbers) = read_array::<i64>(path, "node id")?;
    let [2, num_pairs] = shape[..] else {
        bail!(
            "{}: its shape is {shape:?}, expected [2, n]: a row of sources, then a row of destinations",
            path.display()
        );
    };
    let (sources, destinations) = numbers.split_at(num_pairs);
    Ok(IdList::of_numbers(path, &[sources, destinations])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    fn message(pairs: &[[u32; 2]]) -> Vec<u8> {
        bytemuck::cast_slice(pairs).to_vec()
    }

    #[test]
    fn damaged_messages_of_ranks_are_errors() {
        let mut found = vec![NO_NODE; 2];
        add_found(&message(&[[1, 6]]), 7, &mut found).expect("a node");
        assert_eq!(found, [NO_NODE, 6]);
        for (damaged, expected) in
            [(message(&[[2, 6]]), "not wanted"), (message(&[[0, 7]]), "does not exist"), (vec![0; 9], "truncated")]
        {
            assert_has(add_found(&damaged, 7, &mut found).expect_err("a damaged message").to_string(), &[expected]);
        }
    }
}

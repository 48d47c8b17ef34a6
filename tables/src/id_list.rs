//! Ids that a file lists: of nodes, or of both ends of pairs of nodes.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

use crate::TableError;
use crate::ids::{Id, IdMap, Inserted, canonical_number};
use crate::table::{IdCells, NoIds, ParquetRows, file_rows, id_cells};
use std::fs::File;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The number in place of a node, for an id that no node has.
pub const NO_NODE: u32 = u32::MAX;

/// The columns of a file of ids.
#[derive(Debug)]
pub struct IdList {
    /// The columns, all with the same number of rows.
    pub columns: Vec<IdColumn>,
    /// True for a CSV file whose first line is a row, because it has no names of columns.
    pub lacks_header: bool,
}

/// A column of ids, each of which is stored once.
#[derive(Debug)]
pub struct IdColumn {
    /// The different ids.
    distinct: IdMap,
    /// The position of the id of each row.
    rows: Vec<u32>,
}

impl IdList {
    /// Reads the ids in a CSV file, also compressed, or a Parquet file. A file with as many columns as `names` needs no such
    /// names, and a CSV file no header; of a file with more columns, those with these names are read.
    ///
    /// # Errors
    /// Fails for a file that cannot be read, lacks the columns, or lacks an id in a row.
    pub fn read(path: &Path, names: &[&str]) -> Result<Self, TableError> {
        let mut columns: Vec<IdColumn> = names.iter().map(|_| IdColumn::new()).collect();
        let mut file = file_rows(path, names)?;
        let first = file.first_row.take();
        let lacks_header = first.is_some();
        for (column, text) in columns.iter_mut().zip(first.iter().flatten()) {
            column.push(Id::Text(text), path)?;
        }
        let mut num_rows = usize::from(lacks_header);
        while let Some(batch) = file.next()? {
            let mut cells = Vec::with_capacity(columns.len());
            for column in batch.columns() {
                cells.push(id_cells(column).map_err(|NoIds { row, why }| {
                    let row = row.map_or_else(String::new, |row| format!("row {}: ", num_rows + row + 1));
                    TableError::file(path, format!("{row}{why}"))
                })?);
            }
            // Only in a file with one column is a row without an id a blank line.
            let may_be_blank = file.is_csv && file.num_columns == 1;
            for row in 0..batch.num_rows() {
                for (column, cells) in columns.iter_mut().zip(&cells) {
                    match cells.id(row) {
                        Some(id) => column.push(id, path)?,
                        None if may_be_blank => {}
                        None => {
                            let why = format!("row {} lacks an id", num_rows + row + 1);
                            return Err(TableError::file(path, why));
                        }
                    }
                }
            }
            num_rows += batch.num_rows();
        }
        Ok(Self { columns, lacks_header })
    }

    /// Creates a list of numbers, column by column. `path` is their file.
    ///
    /// # Errors
    /// Fails for 2^32 - 1 or more different numbers.
    pub fn of_numbers(path: &Path, numbers: &[&[i64]]) -> Result<Self, TableError> {
        let mut columns = Vec::with_capacity(numbers.len());
        for numbers in numbers {
            let mut column = IdColumn::new();
            for &number in *numbers {
                column.push(Id::Number(number), path)?;
            }
            columns.push(column);
        }
        Ok(Self { columns, lacks_header: false })
    }

    /// Returns the checksum of the ids, which does not depend on the format of the file.
    pub fn checksum(&self) -> String {
        let mut hash = Xxh3::new();
        for column in &self.columns {
            for &at in &column.rows {
                let text = column.distinct.ids().show(at);
                hash.update(&(text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        }
        format!("{:032x}", hash.digest128())
    }
}

impl IdColumn {
    fn new() -> Self {
        Self { distinct: IdMap::new(), rows: Vec::new() }
    }

    fn push(&mut self, id: Id, path: &Path) -> Result<(), TableError> {
        let position = match self.distinct.insert(id) {
            Inserted::New => self.distinct.len() as u32 - 1,
            Inserted::Duplicate(position) => position,
            Inserted::Full => return Err(TableError::file(path, "it has more than 2^32 - 1 different ids")),
        };
        self.rows.push(position);
        Ok(())
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of different ids.
    pub fn num_distinct(&self) -> usize {
        self.distinct.len()
    }

    /// Returns the position of the id of each row among the different ids.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the text of a different id.
    pub fn text(&self, position: u32) -> String {
        self.distinct.ids().show(position)
    }

    /// Returns the node of each different id if ids are row numbers below `num_nodes`; [`NO_NODE`] for another id.
    pub fn as_row_numbers(&self, num_nodes: usize) -> Vec<u32> {
        let mut nodes = Vec::with_capacity(self.distinct.len());
        for position in 0..self.distinct.len() as u32 {
            let number = canonical_number(&self.text(position)).and_then(|number| usize::try_from(number).ok());
            nodes.push(match number {
                Some(number) if number < num_nodes => number as u32,
                _ => NO_NODE,
            });
        }
        nodes
    }

    /// Finds the ids in the id map of a part, which is read in small pieces. Calls `found` with the position of each id that
    /// it has among the different ids, and with the original id of the node. `originals` are the original ids of the part.
    ///
    /// # Errors
    /// Fails for a file that is no id map, or not the id map of the part.
    pub fn find_in(
        &self,
        path: &Path,
        file: File,
        originals: &[u32],
        mut found: impl FnMut(u32, u32),
    ) -> Result<(), TableError> {
        let other_part =
            || TableError::file(path, "it is not the id map of its part: copy or partition the part again");
        let mut nodes = originals.iter();
        let mut rows = ParquetRows::of_file(path, file, &["id", "original_id"].map(String::from))?;
        while let Some(batch) = rows.next()? {
            let cells = (id_cells(batch.column(0)), id_cells(batch.column(1)));
            let (Ok(ids), Ok(IdCells::Numbers(originals))) = cells else { return Err(no_id_map(path)) };
            for (row, position) in ids.find_in(&self.distinct).into_iter().enumerate() {
                let original = nodes.next().copied().ok_or_else(other_part)?;
                if i64::from(original) != originals.value(row) {
                    return Err(other_part());
                }
                if let Some(position) = position {
                    found(position, original);
                }
            }
        }
        if nodes.next().is_some() { Err(other_part()) } else { Ok(()) }
    }
}

fn no_id_map(path: &Path) -> TableError {
    TableError::file(path, "it is not an id map of this program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IdMaps;
    use edgecut_graph::part_writer::NodeFiles;

    /// The columns of a list, and whether the file lacks a header.
    type Read = (Vec<Vec<String>>, bool);

    /// Writes a file and reads it.
    fn read(path: &Path, text: &str, names: &[&str]) -> Result<Read, TableError> {
        std::fs::write(path, text).expect("a file");
        let list = IdList::read(path, names)?;
        let mut columns = Vec::new();
        for column in &list.columns {
            columns.push(column.rows().iter().map(|&at| column.text(at)).collect());
        }
        Ok((columns, list.lacks_header))
    }

    fn owned(texts: Vec<&str>) -> Vec<String> {
        texts.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn columns_are_chosen_by_their_number_or_their_names() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("ids.csv");
        let ends = ["src", "dst"];
        for (text, names, expected, lacks_header) in [
            ("a\nb\n\na\n", &["id"][..], vec![vec!["a", "b", "a"]], true),
            ("x,id\n1,\"a,b\"\n", &["id"], vec![vec!["a,b"]], false),
            ("u,u\nv,7\n", &ends, vec![vec!["u", "v"], vec!["u", "7"]], true),
            ("dst,score,src\nu,0,u\n7,1,v\n", &ends, vec![vec!["u", "v"], vec!["u", "7"]], false),
        ] {
            let (columns, found) = read(&path, text, names).expect("ids");
            assert_eq!((columns, found), (expected.into_iter().map(owned).collect(), lacks_header));
        }
        for (text, names, words) in [
            ("a,b,c\n1,2,3\n", &ends[..], &["a, b, c", "src and dst"][..]),
            ("a,b\n1,\n", &ends, &["row 2 lacks an id"]),
            ("", &["id"], &["it is empty"]),
            ("dst,other\nu,v\n", &ends, &["its columns are dst, other", "expected the columns src and dst"]),
            ("node_id\n7\n", &["id"], &["its columns are node_id", "expected the column id"]),
            ("id,score\nann,1\n,2\n", &["id"], &["row 2 lacks an id"]),
        ] {
            let error = read(&path, text, names).expect_err("no ids").to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }

    #[test]
    fn ids_are_found_in_the_maps_of_parts() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("ids.csv");
        for ids in [["ann", "bob", "7", "007"], ["5", "-3", "7", "1"]] {
            let mut map = IdMap::new();
            ids.iter().for_each(|id| assert_eq!(map.insert(Id::Text(id)), Inserted::New));
            let maps = IdMaps(vec![map]);
            std::fs::write(&path, format!("{}\nnone\n{}\n7\n", ids[3], ids[0])).expect("a file");
            let list = IdList::read(&path, &["id"]).expect("a list");
            let column = &list.columns[0];
            let mut found = vec![NO_NODE; column.num_distinct()];
            for nodes in [[2, 0], [1, 3]] {
                let part = dir.path().join("id_map.parquet");
                maps.write_id_map(0, &nodes, 0, &part).expect("a map");
                let file = File::open(&part).expect("the map");
                column
                    .find_in(&part, file, &nodes, |position, original| found[position as usize] = original)
                    .expect("a map");
            }
            let rows: Vec<u32> = column.rows().iter().map(|&at| found[at as usize]).collect();
            assert_eq!(rows, [3, NO_NODE, 0, 2], "{ids:?}");
            for other in [&[1, 2][..], &[1], &[1, 3, 0]] {
                let part = dir.path().join("id_map.parquet");
                let error = column.find_in(&part, File::open(&part).expect("the map"), other, |_, _| {});
                let error = error.expect_err("another part").to_string();
                assert!(error.contains("it is not the id map of its part"), "{error}");
            }
        }
    }

    #[test]
    fn row_numbers_are_checked() {
        let list = IdList::of_numbers(Path::new("ids.npy"), &[&[3, -1, 4, 3]]).expect("a list");
        assert_eq!(list.columns[0].as_row_numbers(4), [3, NO_NODE, NO_NODE]);
        assert_eq!(list.columns[0].rows(), [0, 1, 2, 0]);
    }
}

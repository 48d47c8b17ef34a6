//! Assignments of nodes to parts that other programs have made.

use super::npy_folder::Integers;
use super::row_count::RowCount;
use super::text::{Lines, concat, parse_file, whole};
use crate::dataset::NodeData;
use crate::{GraphError, is_folder_name};
use std::path::{Path, PathBuf};

/// The names of an assignment's file in a folder, after the node type.
const ENDINGS: [&str; 4] = ["npy", "txt", "txt.gz", "csv"];

/// Reads the part of each node, per node type, by the node's original id.
///
/// For a graph of one node type, `path` may be a file: `.npy` with whole numbers, or text with one number per line, as
/// METIS and KaHIP write it. Otherwise it is a folder with a file `TYPE.txt` or `TYPE.npy` per node type, as DGL's
/// `dispatch_data.py` reads it. Text may be gzipped.
///
/// # Errors
/// [`GraphError::Format`] for files that are missing or do not have one part below `num_parts` per node, and for a part
/// without nodes.
pub fn read_assignment(path: &Path, node_types: &[NodeData], num_parts: u32) -> Result<Vec<Vec<u32>>, GraphError> {
    let assignment = match node_types {
        _ if path.is_dir() => node_types
            .iter()
            .map(|nodes| read_file(&find(path, &nodes.name)?, nodes, num_parts))
            .collect::<Result<Vec<_>, _>>()?,
        [nodes] => vec![read_file(path, nodes, num_parts)?],
        _ => {
            let names: Vec<&str> = node_types.iter().map(|nodes| nodes.name.as_str()).collect();
            let why = format!(
                "the graph has {} node types: give a folder with a file TYPE.txt or TYPE.npy for each of {}",
                names.len(),
                names.join(", ")
            );
            return Err(GraphError::format(path, why));
        }
    };
    let mut sizes = vec![0_u64; num_parts as usize];
    assignment.iter().flatten().for_each(|&part| sizes[part as usize] += 1);
    if let Some(empty) = sizes.iter().position(|&size| size == 0) {
        let why = format!("no node is in part {empty}, but each of the {num_parts} parts needs at least one");
        return Err(GraphError::format(path, why));
    }
    Ok(assignment)
}

/// Returns the only file of a node type in a folder.
fn find(dir: &Path, node_type: &str) -> Result<PathBuf, GraphError> {
    debug_assert!(is_folder_name(node_type));
    let files = ENDINGS.map(|ending| dir.join(format!("{node_type}.{ending}")));
    let mut found = files.into_iter().filter(|file| file.exists());
    let why = match (found.next(), found.next()) {
        (Some(file), None) => return Ok(file),
        (Some(one), Some(other)) => format!(
            "both {} and {} assign the nodes of type {node_type}: remove one of them",
            one.display(),
            other.display()
        ),
        (None, _) => format!("it holds no file {node_type}.txt or {node_type}.npy with the parts of these nodes"),
    };
    Err(GraphError::format(dir, why))
}

/// Reads the parts of the nodes of one type.
fn read_file(path: &Path, nodes: &NodeData, num_parts: u32) -> Result<Vec<u32>, GraphError> {
    let outside =
        |part: &dyn std::fmt::Display| format!("part {part} is not one of the {num_parts} parts, counted from 0");
    let rows = RowCount::nodes_of_type(nodes.num_nodes, &nodes.name);
    if path.extension().is_some_and(|extension| extension == "npy") {
        let (shape, parts) = Integers::open(path)?;
        if shape.len() != 1 {
            let why = format!("its shape is {shape:?}, expected one dimension with the part of each node");
            return Err(GraphError::format(path, why));
        }
        rows.check_rows(path, parts.len())?;
        if let Some(checked) = parts.to_checked_ids(0..parts.len(), num_parts as usize)? {
            return Ok(checked);
        }
        let at = parts.position(|part| part < 0 || part >= i64::from(num_parts))?.unwrap_or_default();
        return Err(GraphError::format(path, format!("node {at}: {}", outside(&parts.get(at)?))));
    }
    let part = |line: &[u8]| match whole(line, "the number of a part")? {
        part if part < u64::from(num_parts) => Ok(Some(part as u32)),
        part => Err(outside(&part)),
    };
    let parts = concat(parse_file(path, Lines(part))?);
    rows.check_rows(path, parts.len())?;
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::npy::write_npy;
    use crate::readers::{FakeOptions, fake_hetero};
    use edgecut_testing::assert_has;

    fn nodes(name: &str, num_nodes: usize) -> NodeData {
        let mut dataset = fake_hetero(&FakeOptions { avg_num_nodes: 4, ..FakeOptions::default() }).unwrap();
        let mut nodes = dataset.node_types.swap_remove(0);
        (nodes.name, nodes.num_nodes) = (name.into(), num_nodes);
        nodes
    }

    fn text_of(error: GraphError) -> String {
        error.to_string()
    }

    /// The parts that a text file gives to four nodes, or the error without the path.
    fn of_text(name: &str, text: &str) -> Result<Vec<Vec<u32>>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let read = read_assignment(&path, &[nodes("user", 4)], 3);
        read.map_err(|error| text_of(error).replace(&format!("{}: ", path.display()), ""))
    }

    #[test]
    fn text_has_a_part_per_line() {
        for text in ["2\n0\n1\n2", "2\n0\n1\n2\n", " 2\r\n0 \r\n1\r\n2\r\n"] {
            assert_eq!(of_text("graph.metis.part.3", text).unwrap(), [[2, 0, 1, 2]], "{text:?}");
        }
        for (text, why) in [
            ("", "it has 0 rows, but there are 4 nodes of type user"),
            ("0\n1\n2\n", "it has 3 rows, but there are 4 nodes of type user"),
            ("0\n1\n3\n2\n", "line 3: part 3 is not one of the 3 parts, counted from 0"),
            ("0\n1\n-1\n2\n", "line 3: \"-1\" is not the number of a part"),
            ("0\n1\n\n2\n", "line 3: \"\" is not the number of a part"),
            ("0\n1.0\n2\n2\n", "line 2: \"1.0\" is not the number of a part"),
            ("0\n1\n1\n0\n", "no node is in part 2, but each of the 3 parts needs at least one"),
        ] {
            assert_eq!(of_text("parts.txt", text).unwrap_err(), why, "{text:?}");
        }
    }

    #[test]
    fn a_folder_has_a_file_per_type() {
        let dir = tempfile::tempdir().unwrap();
        let types = [nodes("user", 4), nodes("item", 2)];
        let read = || read_assignment(dir.path(), &types, 2).map_err(text_of);
        write_npy(&dir.path().join("user.npy"), &[4], &[0_i64, 1, 0, 0]).unwrap();
        assert_has(read().unwrap_err(), &["it holds no file item.txt or item.npy"]);
        std::fs::write(dir.path().join("item.txt"), "1\n0\n").unwrap();
        assert_eq!(read().unwrap(), [vec![0, 1, 0, 0], vec![1, 0]]);

        write_npy(&dir.path().join("user.npy"), &[4], &[0_i64, 1, -5, 0]).unwrap();
        assert_has(read().unwrap_err(), &["user.npy: node 2: part -5 is not one of the 2 parts"]);
        write_npy(&dir.path().join("user.npy"), &[4, 1], &[0_i64, 1, 0, 0]).unwrap();
        assert!(read().unwrap_err().contains("its shape is [4, 1]"));
        write_npy(&dir.path().join("user.npy"), &[4], &[0_f32, 1.0, 0.0, 0.0]).unwrap();
        assert!(read().unwrap_err().contains("expected whole numbers"));
        std::fs::write(dir.path().join("user.txt"), "").unwrap();
        assert!(read().unwrap_err().contains("remove one of them"));

        let file = read_assignment(&dir.path().join("item.txt"), &types, 2).unwrap_err().to_string();
        assert!(file.contains("the graph has 2 node types") && file.contains("user, item"), "{file}");
    }
}

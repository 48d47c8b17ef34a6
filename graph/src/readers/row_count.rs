//! Expected row counts of files and their wording in errors.

use crate::GraphError;
use edgecut_settings::counted;
use std::fmt;
use std::path::Path;

/// An expected number of nodes or edges, known from another file.
#[derive(Clone, Copy)]
pub(super) struct RowCount<'a> {
    pub(super) number: usize,
    of: Counted<'a>,
}

/// The items that are counted.
#[derive(Clone, Copy)]
enum Counted<'a> {
    Nodes,
    NodesOfType(&'a str),
    Edges,
    HeldOutEdges(&'a Path),
}

impl<'a> RowCount<'a> {
    /// Creates the count of all nodes of a homogeneous graph.
    pub(super) fn nodes(number: usize) -> Self {
        Self { number, of: Counted::Nodes }
    }

    /// Creates the count of the nodes of one type.
    pub(super) fn nodes_of_type(number: usize, node_type: &'a str) -> Self {
        Self { number, of: Counted::NodesOfType(node_type) }
    }

    /// Creates the count of the edges in the same folder as the file.
    pub(super) fn edges(number: usize) -> Self {
        Self { number, of: Counted::Edges }
    }

    /// Creates the count of the held-out edges in another file.
    pub(super) fn held_out_edges(number: usize, file: &'a Path) -> Self {
        Self { number, of: Counted::HeldOutEdges(file) }
    }

    /// Returns the name of a counted item.
    pub(super) fn item(self) -> &'static str {
        match self.of {
            Counted::Nodes | Counted::NodesOfType(_) => "node",
            Counted::Edges | Counted::HeldOutEdges(_) => "edge",
        }
    }

    /// Checks that the file at `path` has one row per item.
    ///
    /// # Errors
    /// An error with both numbers.
    pub(super) fn check_rows(self, path: &Path, rows: usize) -> Result<(), GraphError> {
        if rows != self.number {
            return Err(GraphError::format(path, format!("it has {}, but {self}", counted(rows, "row", "rows"))));
        }
        Ok(())
    }
}

impl fmt::Display for RowCount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.number == 1 { "is" } else { "are" };
        match self.of {
            Counted::Nodes => write!(f, "the graph has {}", counted(self.number, "node", "nodes")),
            Counted::NodesOfType(name) => {
                write!(f, "there {verb} {} of type {name}", counted(self.number, "node", "nodes"))
            }
            Counted::Edges => write!(f, "there {verb} {}", counted(self.number, "edge", "edges")),
            Counted::HeldOutEdges(file) => {
                write!(f, "{} has {}", file.display(), counted(self.number, "edge", "edges"))
            }
        }
    }
}

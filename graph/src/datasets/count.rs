//! Expected row counts of files and their wording in errors.

use crate::GraphError;
use std::fmt;
use std::path::Path;

/// An expected number of nodes or edges, known from another file.
#[derive(Clone, Copy)]
pub(super) struct Count<'a> {
    pub(super) number: usize,
    of: Of<'a>,
}

#[derive(Clone, Copy)]
/// The items that are counted.
enum Of<'a> {
    Nodes,
    NodesOfType(&'a str),
    Edges,
    HeldOutEdges(&'a Path),
}

impl<'a> Count<'a> {
    /// Creates the count of all nodes of a homogeneous graph.
    pub(super) fn nodes(number: usize) -> Self {
        Self { number, of: Of::Nodes }
    }

    /// Creates the count of the nodes of one type.
    pub(super) fn nodes_of_type(number: usize, node_type: &'a str) -> Self {
        Self { number, of: Of::NodesOfType(node_type) }
    }

    /// Creates the count of the edges in the same folder as the file.
    pub(super) fn edges(number: usize) -> Self {
        Self { number, of: Of::Edges }
    }

    /// Creates the count of the held-out edges in another file.
    pub(super) fn held_out_edges(number: usize, file: &'a Path) -> Self {
        Self { number, of: Of::HeldOutEdges(file) }
    }

    /// Returns the name of a counted item.
    pub(super) fn item(self) -> &'static str {
        match self.of {
            Of::Nodes | Of::NodesOfType(_) => "node",
            Of::Edges | Of::HeldOutEdges(_) => "edge",
        }
    }

    /// Checks that the file at `path` has one row per item.
    ///
    /// # Errors
    /// An error with both numbers.
    pub(super) fn check_rows(self, path: &Path, rows: usize) -> Result<(), GraphError> {
        if rows != self.number {
            return Err(GraphError::format(path, format!("it has {rows} rows, but {self}")));
        }
        Ok(())
    }
}

impl fmt::Display for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Of::Nodes => write!(f, "the graph has {} nodes", self.number),
            Of::NodesOfType(name) => write!(f, "there are {} nodes of type {name}", self.number),
            Of::Edges => write!(f, "there are {} edges", self.number),
            Of::HeldOutEdges(file) => write!(f, "{} has {} edges", file.display(), self.number),
        }
    }
}

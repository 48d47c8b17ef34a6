//! How many rows a file should have, in the words of an error.

use crate::GraphError;
use std::fmt;
use std::path::Path;

/// A number of nodes or edges that other files have told.
#[derive(Clone, Copy)]
pub(super) struct Count<'a> {
    pub(super) number: usize,
    of: Of<'a>,
}

#[derive(Clone, Copy)]
enum Of<'a> {
    Nodes,
    NodesOfType(&'a str),
    Edges,
    HeldOutEdges(&'a Path),
}

impl<'a> Count<'a> {
    /// The nodes of a homogeneous graph.
    pub(super) fn nodes(number: usize) -> Self {
        Self { number, of: Of::Nodes }
    }

    /// The nodes of one type.
    pub(super) fn nodes_of_type(number: usize, node_type: &'a str) -> Self {
        Self { number, of: Of::NodesOfType(node_type) }
    }

    /// The edges beside the file.
    pub(super) fn edges(number: usize) -> Self {
        Self { number, of: Of::Edges }
    }

    /// The held-out edges in another file.
    pub(super) fn held_out_edges(number: usize, file: &'a Path) -> Self {
        Self { number, of: Of::HeldOutEdges(file) }
    }

    /// What is counted.
    pub(super) fn item(self) -> &'static str {
        match self.of {
            Of::Nodes | Of::NodesOfType(_) => "node",
            Of::Edges | Of::HeldOutEdges(_) => "edge",
        }
    }

    /// Checks that the file at `path` has a row for each.
    ///
    /// # Errors
    /// Both numbers.
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

//! Newtypes for the id spaces, so that original ids and renumbered ids cannot be mixed up.
//!
//! A node type has fewer than 2^32 nodes, so node ids are `u32`. Edge counts and offsets are `u64`. Bulk arrays are
//! plain `[u32]`, and their declarations name the id space.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of the only node type of a homogeneous graph.
pub const DEFAULT_NODE_TYPE: &str = "node";
/// The name of the only relation of a homogeneous graph.
pub const DEFAULT_RELATION: &str = "to";

/// A part of a graph as processes hold it, counted from 0: a part on disk, or a group of consecutive parts on disk that
/// a process has opened as one. Files belong to parts on disk, which have numbers of another type, [`DiskPartId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId(pub u32);

/// A part of a partitioned graph on disk, counted from 0. It names the folder of the part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DiskPartId(pub u32);

/// A node type, as an index into [`Meta::node_types`](crate::Meta::node_types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeTypeId(pub u16);

/// An edge type, as an index into [`Meta::edge_types`](crate::Meta::edge_types).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EdgeTypeId(pub u16);

/// A node in the numbering of the partitioned graph, in which each part owns a contiguous range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GlobalNodeId(pub u32);

impl PartitionId {
    /// Returns the id as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl DiskPartId {
    /// Returns the id as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeTypeId {
    /// Returns the id as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeTypeId {
    /// Returns the id as an array index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for DiskPartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GlobalNodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

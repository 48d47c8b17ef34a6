//! The rows of a cache.

use crate::cache::node_set::NodeSet;
use edgecut_graph::{Features, NodeTypeId};

/// The cached rows of all node types.
#[derive(Debug, Default)]
pub(crate) struct CachedFeatures {
    /// By node type; `None` if no row of the type is cached.
    pub(crate) tables: Vec<Option<CachedTable>>,
}

/// The cached rows of one node type.
#[derive(Debug)]
pub(crate) struct CachedTable {
    /// The nodes, by global id.
    pub(crate) nodes: NodeSet,
    /// A row per slot of a node.
    pub(crate) rows: Features,
}

impl CachedFeatures {
    pub(crate) fn of_type(&self, node_type: NodeTypeId) -> Option<&CachedTable> {
        self.tables.get(node_type.index())?.as_ref()
    }

    /// Returns the number of rows, and their bytes.
    pub(crate) fn size(&self) -> CacheContents {
        let mut size = CacheContents::default();
        for rows in self.tables.iter().flatten().map(|table| &table.rows) {
            size.rows += rows.num_rows() as u64;
            size.bytes += (rows.num_rows() * rows.dtype().row_bytes(rows.dim())) as u64;
        }
        size
    }
}

/// The contents of a cache of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheContents {
    /// The number of rows, over all node types.
    pub rows: u64,
    /// The bytes of these rows.
    pub bytes: u64,
}

//! The ids of nodes in their tables.

use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use edgecut_graph::{NodeTypeId, TableIdSource, TableIds};
use std::sync::Arc;

impl DistGraph {
    /// Sets the reader of the ids of nodes in their tables, by which saved embeddings find their nodes. Has no effect if
    /// there is one already.
    pub fn set_table_ids(&self, source: Arc<dyn TableIdSource>) {
        let _ = self.table_ids.set(source);
    }

    /// Reads the ids in their table of the nodes of a type that this process holds, in the order of its rows. Returns
    /// `None` if these ids are the row numbers, or without a reader ([`DistGraph::set_table_ids`]).
    ///
    /// # Errors
    /// [`SampleError::Process`] if a file is missing or damaged.
    pub fn read_table_ids(&self, node_type: NodeTypeId) -> Result<Option<TableIds>, SampleError> {
        let part = self.part();
        let of_type = &part.meta().node_types[node_type.index()];
        let Some(source) = self.table_ids.get().filter(|_| of_type.has_id_map) else { return Ok(None) };
        let what = format!("read the ids of the nodes of type {}", of_type.name);
        let ids = source.read(part, node_type).map_err(|error| SampleError::process(&what, error))?;
        let num_rows = part.nodes(node_type).original_ids.len();
        if ids.len() == num_rows {
            return Ok(Some(ids));
        }
        Err(SampleError::process(what, format!("there are {} ids for {num_rows} nodes", ids.len())))
    }
}

//! The ids of edges: ids in their table, or positions in the dataset.

use crate::id_map_file::UserColumn;
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::{EdgeIdKind, EdgeIds, EdgeTypeId};
use parquet::data_type::ByteArray;
use std::sync::Arc;

/// The ids of the edges of a type, which the owners of the edges have.
pub(super) struct EdgeNames {
    graph: Arc<DistGraph>,
    edge_type: EdgeTypeId,
    kind: EdgeIdKind,
}

impl EdgeNames {
    /// Returns the ids of the edges of a type; `None` for edges without ids.
    pub(super) fn of_type(graph: &Arc<DistGraph>, edge_type: EdgeTypeId) -> Option<Self> {
        let kind = graph.part().meta().edge_types[edge_type.index()].ids?;
        Some(Self { graph: graph.clone(), edge_type, kind })
    }

    /// Returns an empty column of the type of the ids.
    pub(super) fn empty(&self) -> UserColumn {
        match self.kind {
            EdgeIdKind::Numbers => UserColumn::Numbers(Vec::new()),
            EdgeIdKind::Texts => UserColumn::Texts(Vec::new()),
        }
    }

    /// Fetches the ids of edges into nodes with these global ids, at these positions among the in-edges of the nodes.
    pub(super) fn of(&self, destinations: &[u32], positions: &[u32]) -> anyhow::Result<UserColumn> {
        let ids = self.graph.fetch_edge_ids(self.edge_type, destinations, positions);
        Ok(match self.graph.handle().block_on(ids)? {
            EdgeIds::Numbers(numbers) => UserColumn::Numbers(numbers.to_vec()),
            EdgeIds::Texts(texts) => {
                UserColumn::Texts((0..texts.len()).map(|at| ByteArray::from(texts.get(at).to_vec())).collect())
            }
        })
    }
}

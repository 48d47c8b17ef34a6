//! The original ids of the sources of the own part's edges, fetched from their owners.

use crate::config::node_fields::NodeFields;
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::source_ids::{SourceIds, distinct_sources, spread};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

impl DistGraph {
    /// Makes the original ids of the sources of this part's edges known, which layer-neighbor sampling needs. Fetches each
    /// id once from its owner. Later calls return at once.
    pub(crate) async fn find_sources(self: &Arc<Self>) -> Result<(), SampleError> {
        if self.part.knows_sources() {
            return Ok(());
        }
        // A call that finds another one at work waits for its result.
        let _turn = self.finding_sources.lock().await;
        if self.part.knows_sources() {
            return Ok(());
        }
        let num_node_types = self.part().meta().node_types.len();
        let mut all: SourceIds = vec![Vec::new(); self.part().meta().edge_types.len()];
        for node_type in (0..num_node_types as u16).map(NodeTypeId) {
            if self.part().has_original_order(node_type) {
                continue;
            }
            let part = self.part().clone();
            let sources = self.workers.run(move || distinct_sources(&part, node_type)).await?;
            let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
            let originals = self.fetch(node_type, sources.clone(), wanted).await?.original_ids;
            let part = self.part().clone();
            all = self.workers.run(move || spread(&part, node_type, &sources, &originals, all)).await?;
        }
        let _ = self.part.source_ids.set(all);
        Ok(())
    }
}

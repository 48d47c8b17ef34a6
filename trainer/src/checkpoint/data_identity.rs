//! The identity of the data that a run trains on.

use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, SampleError};
use edgecut_graph::{GraphDataset, Meta, checksum};
use std::collections::BTreeSet;

/// The identity of the data that a run trains on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataIdentity {
    /// A fingerprint of the dataset, which does not depend on its partitioning.
    pub dataset: String,
    /// The fingerprint of the parts on disk.
    pub parts: String,
    /// The fingerprint of the features that each machine has built for its parts; empty if there are none.
    pub features: String,
    /// The number of groups of parts that processes hold; 0 for sets of small graphs.
    pub num_groups: usize,
}

impl DataIdentity {
    /// Returns the identity of a graph: the description of all types, and the digests of all arrays that the parts have.
    /// Clients of servers have no nodes, so the identity describes the parts there. Every rank must call this.
    ///
    /// # Errors
    /// Processes that have different features of a part, or a failure of the job.
    pub fn of_graph(graph: &DistGraph, world: &mut ProcessGroup) -> Result<Self, SampleError> {
        let part = graph.part();
        let parts = part.meta().fingerprint_on_disk();
        let num_groups = graph.num_seed_groups();
        let built = graph.built_features(world)?;
        let features = if built.is_empty() {
            String::new()
        } else {
            checksum(format!("{:?}", BTreeSet::from_iter(built)).as_bytes())
        };
        if graph.is_client() {
            return Ok(Self { dataset: parts.clone(), parts, features, num_groups });
        }
        // Parts of earlier versions, and features that were built after the parts, have no digest for any partitioning. Only
        // the same parts are the same data then.
        let dataset = digest_of_dataset(part.meta()).unwrap_or_else(|| parts.clone());
        Ok(Self { dataset, parts, features, num_groups })
    }

    /// Returns the identity of a set of small graphs.
    pub fn of_graphs(graphs: &GraphDataset) -> Self {
        let fingerprint = format!("{:016x}", graphs.fingerprint());
        Self { dataset: fingerprint.clone(), parts: fingerprint, ..Self::default() }
    }
}

/// Returns a fingerprint of the types of a graph and of all their arrays; `None` if the parts lack a digest.
fn digest_of_dataset(meta: &Meta) -> Option<String> {
    let mut types = Vec::new();
    for nodes in &meta.node_types {
        let content = nodes.digests.content.as_ref().filter(|_| !nodes.has_deferred_features)?;
        types.push(format!("{:?}", (&nodes.name, nodes.book.num_nodes(), nodes.num_classes, nodes.targets, content)));
    }
    for edges in &meta.edge_types {
        let ends = [&edges.src_type, &edges.relation, &edges.dst_type];
        // The content has the labels, but not the number of classes.
        let labels = edges.labels.map(|labels| format!(" {:?}", labels.values)).unwrap_or_default();
        types.push(format!("{ends:?} {}{labels}", edges.digests.content.as_ref()?));
    }
    Some(checksum(types.join("\n").as_bytes()))
}

//! The identity of the data that a run trains on.

use edgecut_cluster::{ClusterError, ProcessGroup};
use edgecut_dist_sampler::DistGraph;
use edgecut_graph::rng::combine;
use edgecut_graph::{EdgeTypeId, GraphDataset, NodeTypeId, Split};

/// The identity of the data that a run trains on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataIdentity {
    /// A fingerprint of the dataset, which does not depend on its partitioning.
    pub dataset: String,
    /// The fingerprint of the parts on disk.
    pub parts: String,
    /// The number of groups of parts that processes hold; 0 for sets of small graphs.
    pub num_groups: usize,
}

impl DataIdentity {
    /// Returns the identity of a graph. It covers the description of all types, and for each node its labels, its splits
    /// and its in-degrees. Clients of servers have no nodes, so the identity is that of the parts there. Every rank must
    /// call this.
    ///
    /// # Errors
    /// A failure of the job.
    pub fn of_graph(node: &DistGraph, world: &mut ProcessGroup) -> Result<Self, ClusterError> {
        let meta = node.part().meta();
        let parts = meta.fingerprint_on_disk();
        let num_groups = node.num_seed_groups();
        if node.is_client() {
            return Ok(Self { dataset: parts.clone(), parts, num_groups });
        }
        let mut types = Vec::new();
        for nodes in &meta.node_types {
            let numbers = (nodes.book.num_nodes(), nodes.feature_dim, nodes.num_classes, nodes.split_sizes);
            types.push(format!("{} {numbers:?}", nodes.name));
            types.extend(nodes.targets.map(|targets| format!("{targets:?}")));
        }
        for edges in &meta.edge_types {
            let ends = [&edges.src_type, &edges.relation, &edges.dst_type];
            types.push(format!("{ends:?} {:?}", (edges.num_edges, edges.feature_dim, edges.held_out)));
        }
        // Sums do not depend on the order of the nodes. Of the processes that share a part, one counts.
        let mut own = 0_u64;
        if node.holds_first_copy() {
            let num_types = meta.node_types.len() as u16;
            let of_types = (0..num_types).map(|node_type| sum_of_nodes(node, NodeTypeId(node_type)));
            own = of_types.fold(0, u64::wrapping_add);
        }
        let sums = world.all_gather(&own.to_le_bytes())?;
        let sums = sums.iter().filter_map(|sum| Some(u64::from_le_bytes(sum.as_slice().try_into().ok()?)));
        let sum = sums.fold(0, u64::wrapping_add);
        let types = xxhash_rust::xxh3::xxh3_64(types.join("\n").as_bytes());
        Ok(Self { dataset: format!("{types:016x}{sum:016x}"), parts, num_groups })
    }

    /// Returns the identity of a set of small graphs.
    pub fn of_graphs(graphs: &GraphDataset) -> Self {
        let fingerprint = format!("{:016x}", graphs.fingerprint());
        Self { dataset: fingerprint.clone(), parts: fingerprint, num_groups: 0 }
    }
}

/// Returns the sum of the hashes of the nodes of a type that this process holds.
fn sum_of_nodes(node: &DistGraph, node_type: NodeTypeId) -> u64 {
    let part = node.part();
    let nodes = part.nodes(node_type);
    let into: Vec<EdgeTypeId> = part.edge_type_ids().filter(|&e| part.edges(e).dst_type == node_type).collect();
    let mut sum = 0_u64;
    for (row, &id) in nodes.original_ids.iter().enumerate() {
        let mut hash = combine(u64::from(node_type.0), u64::from(id));
        if let Some(labels) = &nodes.labels {
            hash = combine(hash, labels[row] as u64);
        }
        if let Some((targets, of_type)) =
            nodes.targets.as_deref().zip(part.meta().node_types[node_type.index()].targets)
        {
            let row = &targets[row * of_type.dim..][..of_type.dim];
            hash = row.iter().fold(hash, |hash, value| combine(hash, u64::from(value.to_bits())));
        }
        for &edge_type in &into {
            let indptr = part.edges(edge_type).csc.indptr();
            hash = combine(hash, indptr[row + 1] - indptr[row]);
        }
        sum = sum.wrapping_add(hash);
    }
    for (split, number) in Split::ALL.into_iter().zip(1_u64..) {
        for &row in nodes.splits.get(split).iter() {
            let id = u64::from(nodes.original_ids[row as usize]);
            sum = sum.wrapping_add(combine(combine(number, u64::from(node_type.0)), id));
        }
    }
    sum
}

//! The size of a dataset's arrays.

use super::{Dataset, EdgeData, EdgeIds, NodeData, NodeLabel, Split};
use crate::Features;

impl Dataset {
    /// Returns the number of bytes that the dataset takes in files of one part, without their headers.
    pub fn stored_bytes(&self) -> u64 {
        let of_edges = |edges: &EdgeData| edge_bytes(edges, &self.node_types[edges.src_type.index()]);
        let rows = |edges: &EdgeData| (self.node_types[edges.dst_type.index()].num_nodes + 1) as u64 * 8;
        let nodes: u64 = self.node_types.iter().map(node_bytes).sum();
        let nodes = nodes
            + self
                .node_types
                .iter()
                .flat_map(|nodes| nodes.more_labels.iter().map(|label| label_bytes(nodes, label)))
                .sum::<u64>();
        nodes + self.edge_types.iter().map(|edges| of_edges(edges) + rows(edges)).sum::<u64>()
    }
}

fn node_bytes(nodes: &NodeData) -> u64 {
    let row = 4 + row_bytes(&nodes.features) + entry(&nodes.labels, 8) + entry(&nodes.times, 8) + target_bytes(nodes);
    let in_splits: usize = Split::ALL.iter().map(|&split| nodes.splits.get(split).len()).sum();
    nodes.num_nodes as u64 * row + in_splits as u64 * 4
}

/// Returns the bytes of a label after the first one.
fn label_bytes(nodes: &NodeData, label: &NodeLabel) -> u64 {
    let row = entry(&label.labels, 8) + label.targets.as_ref().map_or(0, |targets| 4 * targets.dim as u64);
    let in_splits: usize = Split::ALL.iter().map(|&split| label.splits.get(split).len()).sum();
    nodes.num_nodes as u64 * row + in_splits as u64 * 4
}

fn edge_bytes(edges: &EdgeData, src_type: &NodeData) -> u64 {
    let attributes = &edges.attributes;
    let row = 4
        + row_bytes(&attributes.features)
        + entry(&attributes.weights, 4)
        + entry(&attributes.times, 8)
        + attributes.labels.as_ref().map_or(0, |labels| labels.values.kind().bytes() as u64 + 1)
        + entry(&src_type.times, 8);
    let held_out = [&edges.held_out.valid, &edges.held_out.test];
    let held_out_bytes: u64 = held_out.iter().map(|list| list.len() as u64 * (8 + entry(&list.times, 8))).sum();
    let negatives = held_out.iter().filter_map(|list| list.negatives.as_ref());
    let negative_bytes: u64 = negatives.map(|negatives| negatives.stored_bytes() as u64).sum();
    let id_bytes = attributes.ids.as_ref().map_or(0, EdgeIds::stored_bytes);
    edges.src.len() as u64 * row + id_bytes + held_out_bytes + negative_bytes
}

fn target_bytes(nodes: &NodeData) -> u64 {
    nodes.targets.as_ref().map_or(0, |targets| 4 * targets.dim as u64)
}

fn row_bytes(features: &Option<Features>) -> u64 {
    features.as_ref().map_or(0, |features| features.dtype().row_bytes(features.dim()) as u64)
}

/// Returns the size of an entry of an array, or 0 if there is no array.
fn entry<T>(array: &Option<T>, bytes: u64) -> u64 {
    if array.is_some() { bytes } else { 0 }
}

#[cfg(test)]
mod tests {
    use crate::part_writer::write_one_part;
    use crate::readers::{FakeOptions, fake};

    #[test]
    fn files_of_one_part_have_these_bytes() {
        let options = FakeOptions { avg_num_nodes: 500, edge_attributes: true, ..FakeOptions::default() };
        let dataset = fake(&options).unwrap();
        let expected = dataset.stored_bytes();
        let dir = tempfile::tempdir().unwrap();
        let meta = write_one_part(dataset, dir.path()).unwrap();
        let headers = 128 * meta.files.len() as u64;
        let found: u64 = meta.files.values().map(|file| file.bytes).sum();
        assert_eq!(found, expected + headers);
    }
}

//! Digests of the nodes and edges of a type, from all parts of a graph.

use super::digests::{
    ContentDigests, Digest, ENDS, FEATURES, HELD_OUT, LABELS, ORDER, SPLITS, TIMES, WEIGHTS, features_name,
};
use super::{WriteError, WriteProgress};
use crate::dataset::{EdgeAttributes, EdgeList, Split, Splits};
use crate::memory::Buffer;
use crate::part::{PartEdges, PartLabel, PartNodes, PartitionBook};
use crate::{EdgeTypeId, GlobalNodeId, NodeTypeId, Part};
use bytemuck::Pod;

/// The nodes that are visited together.
const NODES_AT_ONCE: u32 = 1 << 16;
/// The bytes of mapped files after which their pages are released.
const RELEASED_BYTES: usize = 32 << 20;

/// The digests of a graph whose parts are mapped. They are the digests of the graph whose edges are listed by destination, in the
/// order of original ids.
///
/// Invariant: the memory does not grow with the parts. Files are read in the order of original ids, which ascend in each part,
/// and their pages are released.
pub(crate) struct PartDigests<'a> {
    /// All parts of the graph.
    pub(crate) parts: &'a [Part],
    pub(crate) progress: &'a dyn WriteProgress,
}

/// A node of a part.
#[derive(Clone, Copy, Default)]
struct Place {
    part: u32,
    row: u32,
}

impl PartDigests<'_> {
    /// Returns the digests of a node type.
    pub(crate) fn of_nodes(&self, node_type: NodeTypeId) -> Result<ContentDigests, WriteError> {
        let nodes: Vec<&PartNodes> = self.parts.iter().map(|part| part.nodes(node_type)).collect();
        let order = Order::new(self.parts, node_type);
        let mut digest = Digest::new(self.progress);
        if let Some(features) = all(&nodes, |nodes| nodes.features.as_ref()) {
            let num_bytes = features.iter().map(|features| features.bytes().len() as u64).sum();
            digest.start_array(&features_name(features[0]), num_bytes);
            let row_bytes = features[0].dtype().row_bytes(features[0].dim());
            self.add_rows(&order, row_bytes, |place| {
                digest.add(features[place.part as usize].row_bytes(place.row as usize))
            })?;
            digest.end_array();
        }
        let first: Vec<PartLabel> = nodes.iter().map(|nodes| nodes.label(0)).collect();
        digest.kind(LABELS);
        self.add_values(&mut digest, &order, "labels", &first.iter().collect::<Vec<_>>(), |label| {
            label.labels.as_ref()
        })?;
        self.add_values(&mut digest, &order, "targets", &first.iter().collect::<Vec<_>>(), |label| {
            label.targets.as_ref()
        })?;
        digest.kind(TIMES);
        self.add_values(&mut digest, &order, "times", &nodes, |nodes| nodes.times.as_ref())?;
        self.add_splits(&mut digest, &order, &first)?;
        let names = &self.parts[0].meta().node_types[node_type.index()].more_labels;
        for (at, label) in names.iter().enumerate() {
            let of_parts: Vec<PartLabel> = nodes.iter().map(|nodes| nodes.label(at + 1)).collect();
            let all: Vec<&PartLabel> = of_parts.iter().collect();
            digest.kind(LABELS);
            self.add_values(&mut digest, &order, &format!("labels of {}", label.name), &all, |label| {
                label.labels.as_ref()
            })?;
            self.add_values(&mut digest, &order, &format!("targets of {}", label.name), &all, |label| {
                label.targets.as_ref()
            })?;
            self.add_splits(&mut digest, &order, &of_parts)?;
        }
        Ok(digest.finish())
    }

    /// Returns the digests of an edge type.
    pub(crate) fn of_edges(&self, edge_type: EdgeTypeId) -> Result<ContentDigests, WriteError> {
        let edges: Vec<&PartEdges> = self.parts.iter().map(|part| part.edges(edge_type)).collect();
        let sources = Originals::new(self.parts, edges[0].src_type);
        let order = Order::new(self.parts, edges[0].dst_type);
        let num_edges: u64 = edges.iter().map(|edges| edges.csc.num_edges() as u64).sum();
        let mut digest = Digest::new(self.progress);
        digest.kind(ENDS);
        digest.start_array("offsets", (order.num_nodes as u64 + 1) * size_of::<u64>() as u64);
        digest.add(bytemuck::bytes_of(&0_u64))?;
        let mut end = 0_u64;
        self.add_rows(&order, size_of::<u64>(), |place| {
            end += edges[place.part as usize].csc.degree(place.row as usize) as u64;
            digest.add(bytemuck::bytes_of(&end))
        })?;
        digest.end_array();
        digest.start_array("sources", num_edges * size_of::<u32>() as u64);
        self.add_edges(&order, &edges, size_of::<u32>(), |part, positions| {
            let sources_of_row = &edges[part].csc.indices()[positions];
            sources_of_row.iter().try_for_each(|&source| digest.add(bytemuck::bytes_of(&sources.of(source))))
        })?;
        digest.end_array();
        if edges[0].attributes.is_in_digests() {
            digest.kind(ORDER);
            digest.start_array("positions", num_edges * size_of::<u64>() as u64);
            (0..num_edges).try_for_each(|position| digest.add(bytemuck::bytes_of(&position)))?;
            digest.end_array();
        }
        let attributes: Vec<&EdgeAttributes> = edges.iter().map(|edges| &edges.attributes).collect();
        if let Some(features) = all(&attributes, |of_part| of_part.features.as_ref()) {
            let row_bytes = features[0].dtype().row_bytes(features[0].dim());
            let bytes: Vec<&[u8]> = features.iter().map(|features| features.bytes()).collect();
            let name = features_name(features[0]);
            digest.kind(FEATURES);
            self.add_bytes(&mut digest, &order, &edges, EdgeBytes { name: &name, bytes, row_bytes })?;
        }
        digest.kind(WEIGHTS);
        self.add_attribute(&mut digest, &order, &edges, "weights", |edges| edges.attributes.weights.as_ref())?;
        digest.kind(TIMES);
        self.add_attribute(&mut digest, &order, &edges, "times", |edges| edges.attributes.times.as_ref())?;
        digest.kind(LABELS);
        self.add_attribute(&mut digest, &order, &edges, "labels", |edges| {
            edges.attributes.labels.as_ref().and_then(|labels| labels.values.classes())
        })?;
        if let Some(targets) =
            all(&attributes, |of_part| of_part.labels.as_ref().and_then(|labels| labels.values.targets()))
        {
            let row_bytes = targets[0].dim * size_of::<f32>();
            let bytes = targets.iter().map(|targets| bytemuck::cast_slice(&targets.values)).collect();
            self.add_bytes(&mut digest, &order, &edges, EdgeBytes { name: "targets", bytes, row_bytes })?;
        }
        digest.kind(SPLITS);
        self.add_attribute(&mut digest, &order, &edges, "splits", |edges| {
            edges.attributes.labels.as_ref().map(|labels| &labels.splits)
        })?;
        let destinations = Originals::new(self.parts, edges[0].dst_type);
        digest.kind(HELD_OUT);
        for (name, of_part) in [("valid", 0), ("test", 1)] {
            let lists: Vec<&EdgeList> = edges.iter().map(|edges| edges.held_out.lists()[of_part].1).collect();
            add_held_out(&mut digest, name, &lists, [&sources, &destinations])?;
        }
        Ok(digest.finish())
    }

    /// Calls `add` for each node in the order of original ids, which reads `row_bytes` bytes of a file.
    fn add_rows(
        &self,
        order: &Order,
        row_bytes: usize,
        mut add: impl FnMut(Place) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut num_bytes = 0;
        order.visit(|places| {
            places.iter().try_for_each(|&place| add(place))?;
            num_bytes += places.len() * row_bytes;
            self.release_after(&mut num_bytes);
            Ok(())
        })
    }

    /// Calls `add` for the edges into each node in the order of original ids, with their part and their positions.
    fn add_edges(
        &self,
        order: &Order,
        edges: &[&PartEdges],
        row_bytes: usize,
        mut add: impl FnMut(usize, std::ops::Range<usize>) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut num_bytes = 0;
        order.visit(|places| {
            for place in places {
                let indptr = edges[place.part as usize].csc.indptr();
                let positions = indptr[place.row as usize] as usize..indptr[place.row as usize + 1] as usize;
                num_bytes += positions.len() * row_bytes;
                add(place.part as usize, positions)?;
                self.release_after(&mut num_bytes);
            }
            Ok(())
        })
    }

    fn release_after(&self, num_bytes: &mut usize) {
        if *num_bytes >= RELEASED_BYTES {
            self.parts.iter().for_each(Part::release_pages);
            *num_bytes = 0;
        }
    }

    fn add_values<P, T: Pod>(
        &self,
        digest: &mut Digest,
        order: &Order,
        name: &str,
        parts: &[&P],
        array: impl Fn(&P) -> Option<&Buffer<T>>,
    ) -> Result<(), WriteError> {
        let Some(arrays) = all(parts, array) else { return Ok(()) };
        let num_values: usize = arrays.iter().map(|values| values.len()).sum();
        let width = num_values / order.num_nodes.max(1);
        digest.start_array(name, (num_values * size_of::<T>()) as u64);
        self.add_rows(order, width * size_of::<T>(), |place| {
            let values = &arrays[place.part as usize][place.row as usize * width..][..width];
            digest.add(bytemuck::cast_slice(values))
        })?;
        digest.end_array();
        Ok(())
    }

    /// Adds the splits of a label.
    fn add_splits(&self, digest: &mut Digest, order: &Order, parts: &[PartLabel]) -> Result<(), WriteError> {
        digest.kind(SPLITS);
        for split in Split::ALL {
            let splits: Vec<&Splits> = parts.iter().map(|label| &label.splits).collect();
            let num_nodes: usize = splits.iter().map(|splits| splits.get(split).len()).sum();
            digest.start_array(split.name(), (num_nodes * size_of::<u32>()) as u64);
            let mut next = vec![0; parts.len()];
            let mut original = 0_u32;
            self.add_rows(order, size_of::<u32>(), |place| {
                let at = &mut next[place.part as usize];
                let number = original;
                original += 1;
                if splits[place.part as usize].get(split).get(*at) != Some(&place.row) {
                    return Ok(());
                }
                *at += 1;
                digest.add(bytemuck::bytes_of(&number))
            })?;
            digest.end_array();
        }
        Ok(())
    }

    fn add_attribute<T: Pod>(
        &self,
        digest: &mut Digest,
        order: &Order,
        edges: &[&PartEdges],
        name: &str,
        array: impl Fn(&PartEdges) -> Option<&Buffer<T>>,
    ) -> Result<(), WriteError> {
        let Some(arrays) = all(edges, array) else { return Ok(()) };
        let bytes = arrays.iter().map(|values| bytemuck::cast_slice(&values[..])).collect();
        self.add_bytes(digest, order, edges, EdgeBytes { name, bytes, row_bytes: size_of::<T>() })
    }

    fn add_bytes(
        &self,
        digest: &mut Digest,
        order: &Order,
        edges: &[&PartEdges],
        EdgeBytes { name, bytes, row_bytes }: EdgeBytes,
    ) -> Result<(), WriteError> {
        digest.start_array(name, bytes.iter().map(|bytes| bytes.len() as u64).sum());
        self.add_edges(order, edges, row_bytes, |part, positions| {
            digest.add(&bytes[part][positions.start * row_bytes..positions.end * row_bytes])
        })?;
        digest.end_array();
        Ok(())
    }
}

/// An array with an entry per edge, by part.
struct EdgeBytes<'a> {
    name: &'a str,
    bytes: Vec<&'a [u8]>,
    row_bytes: usize,
}

/// Returns an array of all parts, if all have it.
fn all<'a, P, T>(parts: &[&'a P], array: impl Fn(&'a P) -> Option<&'a T>) -> Option<Vec<&'a T>> {
    parts.iter().map(|part| array(part)).collect()
}

/// Adds the held-out edges of a split, by destination.
fn add_held_out(
    digest: &mut Digest,
    name: &str,
    lists: &[&EdgeList],
    [sources, destinations]: [&Originals; 2],
) -> Result<(), WriteError> {
    let mut edges = Vec::with_capacity(lists.iter().map(|list| list.len()).sum());
    let has_times = lists.iter().any(|list| !list.is_empty() && list.times.is_some());
    for list in lists {
        for at in 0..list.len() {
            let time = list.times.as_ref().map_or(0, |times| times[at]);
            edges.push((destinations.of(list.dst[at]), sources.of(list.src[at]), time));
        }
    }
    // The edges into a node are in one part, in their order.
    edges.sort_by_key(|edge| edge.0);
    digest.array(name, &edges.iter().map(|edge| edge.1).collect::<Vec<u32>>())?;
    digest.array("destinations", &edges.iter().map(|edge| edge.0).collect::<Vec<u32>>())?;
    if has_times {
        digest.array("times", &edges.iter().map(|edge| edge.2).collect::<Vec<i64>>())?;
    }
    Ok(())
}

/// The original ids of the nodes of a type, by part.
struct Originals<'a> {
    book: &'a PartitionBook,
    parts: Vec<&'a [u32]>,
}

impl<'a> Originals<'a> {
    fn new(parts: &'a [Part], node_type: NodeTypeId) -> Self {
        let book = &parts[0].meta().node_types[node_type.index()].book;
        Self { book, parts: parts.iter().map(|part| &part.nodes(node_type).original_ids[..]).collect() }
    }

    /// Returns the original id of a node.
    fn of(&self, global: u32) -> u32 {
        let part = self.book.owner(GlobalNodeId(global));
        self.parts[part.index()][(global - self.book.range(part).start) as usize]
    }
}

/// The nodes of a type in the order of their original ids.
struct Order<'a> {
    parts: Vec<&'a [u32]>,
    num_nodes: usize,
}

impl<'a> Order<'a> {
    fn new(parts: &'a [Part], node_type: NodeTypeId) -> Self {
        let parts: Vec<&[u32]> = parts.iter().map(|part| &part.nodes(node_type).original_ids[..]).collect();
        let num_nodes = parts.iter().map(|part| part.len()).sum();
        Self { parts, num_nodes }
    }

    /// Calls `visit` with the places of some nodes at a time.
    fn visit(&self, mut visit: impl FnMut(&[Place]) -> Result<(), WriteError>) -> Result<(), WriteError> {
        let num_nodes = self.num_nodes as u32;
        let mut next = vec![0; self.parts.len()];
        let mut places = Vec::new();
        for start in (0..num_nodes).step_by(NODES_AT_ONCE as usize) {
            let end = num_nodes.min(start.saturating_add(NODES_AT_ONCE));
            places.clear();
            places.resize((end - start) as usize, Place::default());
            for (part, (originals, next)) in (0..).zip(self.parts.iter().zip(&mut next)) {
                while let Some(&original) = originals.get(*next).filter(|original| **original < end) {
                    places[(original - start) as usize] = Place { part, row: *next as u32 };
                    *next += 1;
                }
            }
            visit(&places)?;
        }
        Ok(())
    }
}

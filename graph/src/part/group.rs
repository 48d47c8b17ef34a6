//! Several consecutive parts that one process holds as if they were one part.
//!
//! Invariant: the global ids of a group are one range, so that joining arrays renumbers nothing, and sampling and
//! training treat a group as a part. Only original ids do not ascend in a group. `PartNodes::by_original` has their
//! order. The id maps of users, features that are built later, and a run that continues with another number of
//! processes need the parts on disk (`Meta::book_on_disk`).

use super::arrays::{HotNodes, PartEdges, PartLabel, PartNodes};
use super::mapped_part::Part;
use super::{Csc, DiskBook, Meta, PartMeta, PartitionBook, SplitIndex};
use crate::dataset::{
    EdgeAttributes, EdgeIds, EdgeLabelValues, EdgeLabels, EdgeList, GivenNegatives, HeldOutEdges, Split, Splits,
    Targets,
};
use crate::memory::{Buffer, Features};
use crate::{DiskPartId, GraphError, NodeTypeId, PartitionId};
use bytemuck::Pod;
use rayon::slice::ParallelSliceMut;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The parts on disk that groups consist of.
#[derive(Clone, Debug)]
pub(crate) struct PartsOnDisk {
    num_parts: u32,
    /// By node type.
    books: Vec<PartitionBook>,
    fingerprint: String,
}

impl PartsOnDisk {
    /// Describes the parts of `meta`, which are on disk.
    pub(super) fn of(meta: &Meta) -> Arc<Self> {
        Arc::new(Self {
            num_parts: meta.num_parts,
            books: meta.node_types.iter().map(|of_type| of_type.book.clone()).collect(),
            fingerprint: meta.fingerprint(),
        })
    }
}

impl Meta {
    /// Returns the number of parts on disk: more than `num_parts` if processes hold groups of them.
    pub fn num_parts_on_disk(&self) -> usize {
        self.on_disk.as_ref().map_or(self.num_parts, |on_disk| on_disk.num_parts) as usize
    }

    /// Returns the global ids of each part on disk.
    pub fn book_on_disk(&self, node_type: NodeTypeId) -> DiskBook<'_> {
        let whole = &self.node_types[node_type.index()].book;
        self.on_disk.as_ref().map_or(whole, |on_disk| &on_disk.books[node_type.index()]).on_disk()
    }

    /// Returns the fingerprint of the parts on disk, which does not depend on their grouping.
    pub fn fingerprint_on_disk(&self) -> String {
        self.on_disk.as_ref().map_or_else(|| self.fingerprint(), |on_disk| on_disk.fingerprint.clone())
    }

    /// Returns the description of the same graph with consecutive parts joined to groups. `starts` has the first part of
    /// each group and then the number of parts. Numbers of halo nodes become upper bounds, since groups may share them.
    /// The files stay those of the parts, so that groups of other data have another fingerprint.
    ///
    /// # Panics
    /// If `starts` is not `0`, then ascending, up to the number of parts.
    pub(crate) fn grouped(&self, starts: &[u32]) -> Result<Self, GraphError> {
        let ascends = starts.len() > 1 && starts.is_sorted_by(|a, b| a < b);
        assert!(ascends && starts[0] == 0 && starts[starts.len() - 1] == self.num_parts, "groups of parts: {starts:?}");
        let mut grouped = self.clone();
        grouped.num_parts = starts.len() as u32 - 1;
        grouped.on_disk = Some(PartsOnDisk::of(self));
        for of_type in &mut grouped.node_types {
            let bounds: Vec<u64> = of_type.book.clone().into();
            of_type.book = PartitionBook::new(starts.iter().map(|&start| bounds[start as usize]).collect())?;
        }
        let sum = |parts: &[PartMeta]| PartMeta {
            nodes: parts.iter().map(|part| part.nodes).sum(),
            edges: parts.iter().map(|part| part.edges).sum(),
            train_nodes: parts.iter().map(|part| part.train_nodes).sum(),
            halo_nodes: parts.iter().map(|part| part.halo_nodes).sum(),
        };
        grouped.report.parts =
            starts.windows(2).map(|pair| sum(&self.report.parts[pair[0] as usize..pair[1] as usize])).collect();
        Ok(grouped)
    }
}

impl Part {
    /// Opens a group of consecutive parts as one part. `starts` has the first part of each group and then the number of
    /// parts. The group is a part of the graph whose parts are these groups, so that other processes can hold the other
    /// groups.
    ///
    /// A group of one part is mapped, as by [`Part::open`]. A larger one is copied to the memory of this process, features
    /// included.
    ///
    /// # Errors
    /// The errors of [`Part::open`].
    ///
    /// # Panics
    /// If `starts` is not `0`, then ascending, up to the number of parts, or `group` is not below the number of groups.
    pub fn open_group(dir: &Path, starts: &[u32], group: PartitionId, verify: bool) -> Result<Self, GraphError> {
        let parts: Range<u32> = starts[group.index()]..starts[group.index() + 1];
        let opened = parts.clone().map(|part| Self::open(dir, DiskPartId(part), verify));
        let mut opened = opened.collect::<Result<Vec<_>, _>>()?;
        if starts.len() as u32 - 1 == opened[0].meta.num_parts {
            return Ok(opened.remove(0));
        }
        let meta = opened[0].meta.grouped(starts)?;
        if opened.len() == 1 {
            let part = opened.remove(0);
            return Ok(Self { id: group, meta: meta.into(), ..part });
        }
        let num_node_types = meta.node_types.len();
        let num_edge_types = meta.edge_types.len();
        let of_type = |t: usize| opened.iter().map(|part: &Self| part.nodes[t].clone()).collect();
        let nodes = (0..num_node_types).map(|t| join_nodes(of_type(t))).collect();
        let edges = (0..num_edge_types).map(|e| {
            let src_type = opened[0].edges[e].src_type;
            let num_sources = meta.node_types[src_type.index()].book.num_nodes();
            join_edges(opened.iter().map(|part| part.edges[e].clone()).collect(), num_sources)
        });
        let edges = edges.collect::<Result<_, _>>()?;
        let built_features = opened.iter().flat_map(|part| part.built_features.clone()).collect();
        Ok(Self { id: group, on_disk: parts, built_features, meta: meta.into(), nodes, edges })
    }
}

fn join_nodes(parts: Vec<PartNodes>) -> PartNodes {
    let original_ids = joined(parts.iter().map(|part| &part.original_ids));
    let labels = joined_if(parts.iter().map(|part| part.labels.as_ref()));
    let targets = joined_if(parts.iter().map(|part| part.targets.as_ref()));
    let times = joined_if(parts.iter().map(|part| part.times.as_ref()));
    let hot = parts.iter().all(|part| part.hot.is_some()).then(|| HotNodes {
        nodes: joined(parts.iter().flat_map(|part| &part.hot).map(|hot| &hot.nodes)),
        counts: joined(parts.iter().flat_map(|part| &part.hot).map(|hot| &hot.counts)),
    });
    let splits = joined_splits(parts.iter().map(|part| (&part.splits, part.original_ids.len())));
    let more_labels = joined_more_labels(&parts);
    let features = joined_features(parts.into_iter().map(|part| part.features).collect());
    let by_original = (!original_ids.is_sorted()).then(|| {
        let mut rows: Vec<u32> = (0..original_ids.len() as u32).collect();
        rows.par_sort_unstable_by_key(|&row| original_ids[row as usize]);
        rows.into()
    });
    PartNodes { original_ids, by_original, features, labels, targets, splits, times, hot, more_labels }
}

/// Joins the labels after the first one.
fn joined_more_labels(parts: &[PartNodes]) -> Vec<PartLabel> {
    let mut joined = Vec::new();
    for at in 0..parts[0].more_labels.len() {
        let labels = parts.iter().map(|part| &part.more_labels[at]);
        let num_rows = parts.iter().map(|part| part.original_ids.len());
        joined.push(PartLabel {
            labels: joined_if(labels.clone().map(|label| label.labels.as_ref())),
            targets: joined_if(labels.clone().map(|label| label.targets.as_ref())),
            splits: joined_splits(labels.map(|label| &label.splits).zip(num_rows)),
        });
    }
    joined
}

/// Joins splits of parts, each with the number of rows of its part.
fn joined_splits<'a>(parts: impl Iterator<Item = (&'a Splits, usize)> + Clone) -> Splits {
    let mut splits = Splits::default();
    for split in Split::ALL {
        let mut rows = Vec::new();
        let mut first_row = 0;
        for (of_part, num_rows) in parts.clone() {
            rows.extend(of_part.get(split).iter().map(|row| first_row + row));
            first_row += num_rows as u32;
        }
        splits.set(split, rows.into());
    }
    splits
}

fn join_edges(parts: Vec<PartEdges>, num_sources: usize) -> Result<PartEdges, GraphError> {
    let src_type = parts[0].src_type;
    let dst_type = parts[0].dst_type;
    let mut indptr = Vec::with_capacity(1 + parts.iter().map(|part| part.csc.num_rows()).sum::<usize>());
    let mut indices = Vec::with_capacity(parts.iter().map(|part| part.csc.num_edges()).sum());
    indptr.push(0);
    for part in &parts {
        let first_edge = indices.len() as u64;
        indptr.extend(part.csc.indptr()[1..].iter().map(|end| first_edge + end));
        indices.extend_from_slice(part.csc.indices());
    }
    let csc = Csc::new(indptr.into(), indices.into(), num_sources)?;
    let weights = joined_if(parts.iter().map(|part| part.attributes.weights.as_ref()));
    let times = joined_if(parts.iter().map(|part| part.attributes.times.as_ref()));
    let labels = joined_labels(parts.iter().map(|part| part.attributes.labels.as_ref()));
    let ids: Option<Vec<&EdgeIds>> = parts.iter().map(|part| part.attributes.ids.as_ref()).collect();
    let ids = ids.and_then(|ids| EdgeIds::joined(&ids));
    let src_times = joined_if(parts.iter().map(|part| part.src_times.as_ref()));
    let held_out = HeldOutEdges {
        valid: joined_list(parts.iter().map(|part| &part.held_out.valid)),
        test: joined_list(parts.iter().map(|part| &part.held_out.test)),
    };
    let features = joined_features(parts.into_iter().map(|part| part.attributes.features).collect());
    let attributes = EdgeAttributes { features, weights, times, labels, ids };
    let split_index = SplitIndex::new(attributes.labels.as_ref());
    Ok(PartEdges { src_type, dst_type, csc, attributes, split_index, src_times, held_out })
}

fn joined_list<'a>(lists: impl Iterator<Item = &'a EdgeList> + Clone) -> EdgeList {
    EdgeList {
        src: joined(lists.clone().map(|list| &list.src)),
        dst: joined(lists.clone().map(|list| &list.dst)),
        times: joined_if(lists.clone().map(|list| list.times.as_ref())),
        negatives: joined_negatives(lists.map(|list| list.negatives.as_ref())),
    }
}

/// Joins labels that all parts have, all of the same kind, or none.
fn joined_labels<'a>(pieces: impl Iterator<Item = Option<&'a EdgeLabels>>) -> Option<EdgeLabels> {
    let all: Vec<&EdgeLabels> = pieces.collect::<Option<_>>()?;
    let values = match &all.first()?.values {
        EdgeLabelValues::Classes { num_classes, .. } => EdgeLabelValues::Classes {
            of_edges: joined(all.iter().filter_map(|labels| labels.values.classes())),
            num_classes: *num_classes,
        },
        EdgeLabelValues::Targets(Targets { dim, kind, .. }) => {
            let targets = all.iter().filter_map(|labels| labels.values.targets());
            let values = joined(targets.map(|targets| &targets.values));
            EdgeLabelValues::Targets(Targets { values, dim: *dim, kind: *kind })
        }
    };
    Some(EdgeLabels { values, splits: joined(all.iter().map(|labels| &labels.splits)) })
}

/// Joins the negatives of lists, all of the same kind.
fn joined_negatives<'a>(lists: impl Iterator<Item = Option<&'a GivenNegatives>> + Clone) -> Option<GivenNegatives> {
    let all: Vec<&GivenNegatives> = lists.collect::<Option<_>>()?;
    let sources = all.iter().filter_map(|negatives| match negatives {
        GivenNegatives::OfEach { .. } => None,
        GivenNegatives::Shared { src, .. } => Some(src),
    });
    let destinations = all.iter().map(|negatives| match negatives {
        GivenNegatives::OfEach { dst, .. } | GivenNegatives::Shared { dst, .. } => dst,
    });
    let dst = joined(destinations);
    Some(match all.first()? {
        GivenNegatives::OfEach { num, .. } => GivenNegatives::OfEach { num: *num, dst },
        GivenNegatives::Shared { .. } => GivenNegatives::Shared { src: joined(sources), dst },
    })
}

fn joined<'a, T: Pod>(pieces: impl Iterator<Item = &'a Buffer<T>> + Clone) -> Buffer<T> {
    let mut values = Vec::with_capacity(pieces.clone().map(|piece| piece.len()).sum());
    pieces.for_each(|piece| values.extend_from_slice(piece));
    values.into()
}

/// Joins arrays that all parts have, or none.
fn joined_if<'a, T: Pod>(pieces: impl Iterator<Item = Option<&'a Buffer<T>>> + Clone) -> Option<Buffer<T>> {
    let has_all = pieces.clone().all(|piece| piece.is_some());
    has_all.then(|| joined(pieces.flatten().collect::<Vec<_>>().into_iter()))
}

fn joined_features(pieces: Vec<Option<Features>>) -> Option<Features> {
    let pieces: Vec<Features> = pieces.into_iter().collect::<Option<_>>()?;
    let dim = pieces[0].dim();
    let dtype = pieces[0].dtype();
    Some(Features::concat(dim, dtype, pieces))
}

//! Seed edges of a rank's batches.

use crate::agreement::SharedSettings;
use crate::error::LoaderError;
use crate::seeds::rest_of_epoch::SeedPartition;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraph, SampleError};
use edgecut_graph::{EdgeTypeId, NegativesMeta, Part, SeedEdgeEnds, SeedEdgeSet, Split};
use futures::future::try_join_all;
use std::ops::Range;
use std::sync::Arc;

/// The source of seed edges.
#[derive(Clone, Debug)]
pub enum EdgeSeeds {
    /// The edges of some types into this rank's nodes: the edges that carry messages for [`Split::Train`], the held-out
    /// edges for the other splits. Ranks that share a part take them in turn. A client of servers takes the edges of the
    /// parts in its [`SeedShare`](edgecut_dist_sampler::SeedShare).
    Split(Split, Vec<EdgeTypeId>),
    /// The labeled edges of a type and a split into this rank's nodes, divided in the same way.
    Labeled(Split, EdgeTypeId),
    /// The given negatives of the held-out edges of some types into this rank's nodes, divided in the same way.
    Negatives(Split, Vec<EdgeTypeId>),
    /// A list of edges in global ids, the same on every rank. Batch `k` is the `k`-th stretch of the list, and rank `k`
    /// modulo the world size makes it.
    Listed(Vec<SeedEdge>),
}

impl EdgeSeeds {
    pub(crate) fn are_listed(&self) -> bool {
        matches!(self, Self::Listed(_))
    }

    /// Adds the source of the edges to the settings of a loader.
    pub(crate) fn describe(&self, settings: SharedSettings) -> SharedSettings {
        match self {
            Self::Split(split, edge_types) => {
                settings.with("seeds", format!("the split {}", split.name())).with("edge_types", edge_types)
            }
            Self::Labeled(split, edge_type) => {
                settings.with("seeds", format!("the labeled edges of {}", split.name())).with("edge_types", [edge_type])
            }
            Self::Negatives(split, edge_types) => settings
                .with("seeds", format!("the given negatives of the split {}", split.name()))
                .with("edge_types", edge_types),
            Self::Listed(edges) => settings.with_list("seeds", edges),
        }
    }
}

/// A seed edge of a batch, in global ids.
///
/// Temporal sampling draws the neighborhoods of an edge, training or held-out, at the edge's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeedEdge {
    /// The edge type.
    pub edge_type: EdgeTypeId,
    /// The source.
    pub src: u32,
    /// The destination.
    pub dst: u32,
    /// The time, if the edge has one.
    pub time: Option<i64>,
    /// The position among the in-edges of the destination, if the edge is one of them.
    pub position: Option<u32>,
}

impl SeedEdge {
    /// Returns the position among the in-edges of the destination, which finds the attributes of the edge.
    pub(crate) fn position_of_attributes(&self) -> Result<u32, SampleError> {
        self.position.ok_or_else(|| SampleError::NoSuchNode {
            what: format!(
                "the edge from node {} to node {} carries no messages, so it has no attributes",
                self.src, self.dst
            ),
        })
    }
}

/// Seed edges by position.
#[derive(Debug)]
pub(crate) enum EdgeIndex {
    /// The edges of some types that some parts own, end to end.
    Parts {
        set: SeedEdgeSet,
        edge_types: Vec<EdgeTypeId>,
        sections: Vec<Section>,
    },
    Listed(Vec<SeedEdge>),
}

/// The edges of one type that one part owns.
#[derive(Debug)]
pub(crate) struct Section {
    part: u32,
    edge_type: EdgeTypeId,
    /// The positions of the edges.
    positions: Range<usize>,
}

impl EdgeIndex {
    pub(crate) fn new(graph: &DistGraph, seeds: EdgeSeeds) -> Result<Self, SampleError> {
        let (set, edge_types) = match seeds {
            EdgeSeeds::Listed(edges) => return Ok(Self::Listed(edges)),
            EdgeSeeds::Split(split, edge_types) => (SeedEdgeSet::Links(split), edge_types),
            EdgeSeeds::Labeled(split, edge_type) => (SeedEdgeSet::Labeled(split), vec![edge_type]),
            EdgeSeeds::Negatives(split, edge_types) => (SeedEdgeSet::Negatives(split), edge_types),
        };
        let mut sections = Vec::new();
        let mut start = 0;
        for part in graph.seed_share().parts {
            for &edge_type in &edge_types {
                let end = start + graph.num_seed_edges(part, edge_type, set)?;
                sections.push(Section { part, edge_type, positions: start..end });
                start = end;
            }
        }
        Ok(Self::Parts { set, edge_types, sections })
    }

    /// Counts the training edges of each part. Every rank must call this.
    ///
    /// # Errors
    /// [`LoaderError::Config`] for held-out or listed edges, and for labeled edges of other splits.
    pub(crate) fn partition(&self, graph: &DistGraph, world: &mut ProcessGroup) -> Result<SeedPartition, LoaderError> {
        match self {
            Self::Parts {
                set: set @ (SeedEdgeSet::Links(Split::Train) | SeedEdgeSet::Labeled(Split::Train)),
                edge_types,
                ..
            } => SeedPartition::of_edges(graph, *set, edge_types, world),
            _ => {
                let what = "only an epoch of training edges can be continued with another number of processes".into();
                Err(LoaderError::Config { what })
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Listed(edges) => edges.len(),
            Self::Parts { sections, .. } => sections.last().map_or(0, |section| section.positions.end),
        }
    }

    /// Checks that the positions of the edges fit into 32 bits.
    ///
    /// # Errors
    /// [`LoaderError::Config`].
    pub(crate) fn check_len(&self) -> Result<(), LoaderError> {
        if self.len() <= u32::MAX as usize {
            return Ok(());
        }
        let len = self.len();
        let what = format!("{len} seed edges in one part exceed the limit of 2^32 - 1: partition into more parts");
        Err(LoaderError::Config { what })
    }

    /// Returns the reason why some seed edges lack a time, if any do. It depends on the whole graph, so all ranks agree
    /// on it.
    pub(crate) fn lacks_times(&self, part: &Part) -> Option<String> {
        let (set, types) = match self {
            Self::Parts { set, edge_types, .. } => (*set, edge_types),
            Self::Listed(edges) => {
                let without = edges.iter().position(|edge| edge.time.is_none())?;
                return Some(format!("temporal sampling needs a time for each seed edge: edge {without} has none"));
            }
        };
        let meta = part.meta();
        let lacks = |edge_type: &EdgeTypeId| {
            let edges = &meta.edge_types[edge_type.index()];
            match set {
                SeedEdgeSet::Links(Split::Train) | SeedEdgeSet::Labeled(_) => !edges.has_times,
                SeedEdgeSet::Links(Split::Valid) => edges.held_out[0] > 0 && !edges.held_out_has_times,
                SeedEdgeSet::Links(Split::Test) => edges.held_out[1] > 0 && !edges.held_out_has_times,
                SeedEdgeSet::Negatives(split) => {
                    let negatives = edges.negatives[usize::from(split == Split::Test)];
                    !edges.held_out_has_times || matches!(negatives, Some(NegativesMeta::Shared(_)))
                }
            }
        };
        let edge_type = types.iter().find(|edge_type| lacks(edge_type))?;
        let edges = &meta.edge_types[edge_type.index()];
        let name = format!("{}__{}__{}", edges.src_type, edges.relation, edges.dst_type);
        Some(match set {
            SeedEdgeSet::Links(Split::Train) | SeedEdgeSet::Labeled(_) => format!(
                "temporal sampling needs a time for each seed edge, but edge type {name} has none: predict edge types \
                 that have times"
            ),
            SeedEdgeSet::Negatives(split) => format!(
                "temporal sampling needs a time for each seed edge, but the given negatives of the held-out {} edges of type \
                 {name} have none: give each edge its own negatives, and the edges times",
                split.name()
            ),
            SeedEdgeSet::Links(split) => format!(
                "temporal sampling needs a time for each seed edge, but the held-out {} edges of type {name} have \
                 none: save {0}_edge_time.npy beside {0}_edge_index.npy, or hold out the latest edges with \
                 `hold_out_edges=latest:VALID,TEST`, and partition again",
                split.name()
            ),
        })
    }

    /// Returns the edges at some positions, which must be below [`EdgeIndex::len`].
    pub(crate) async fn edges(&self, graph: &Arc<DistGraph>, positions: &[u32]) -> Result<Vec<SeedEdge>, SampleError> {
        let (set, sections) = match self {
            Self::Listed(edges) => return Ok(positions.iter().map(|&at| edges[at as usize]).collect()),
            Self::Parts { set, sections, .. } => (*set, sections),
        };
        // By section: the places of its edges in the result, and their positions in the section.
        let mut asked = vec![(Vec::new(), Vec::new()); sections.len()];
        for (place, &position) in positions.iter().enumerate() {
            let at = sections.partition_point(|section| section.positions.end <= position as usize);
            asked[at].0.push(place);
            asked[at].1.push((position as usize - sections[at].positions.start) as u32);
        }
        let read = asked.into_iter().zip(sections).filter(|((places, _), _)| !places.is_empty());
        let read = read.map(|((places, positions), section)| async move {
            let edges = graph.seed_edges(section.part, section.edge_type, set, positions).await?;
            Ok::<_, SampleError>((places, section.edge_type, edges))
        });
        let mut all =
            vec![SeedEdge { edge_type: EdgeTypeId(0), src: 0, dst: 0, time: None, position: None }; positions.len()];
        for (places, edge_type, edges) in try_join_all(read).await? {
            for (place, SeedEdgeEnds { src, dst, time, position }) in places.into_iter().zip(edges) {
                all[place] = SeedEdge { edge_type, src, dst, time, position };
            }
        }
        Ok(all)
    }
}

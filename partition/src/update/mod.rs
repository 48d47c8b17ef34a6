//! Updates of existing parts: new, changed and removed nodes and edges, without a new partitioning.
//!
//! Nodes of the parts stay in their part. New nodes are placed beside their neighbors ([`mod@place`]). The result is what writing
//! the whole graph with this assignment gives. Parts are read and written one at a time
//! ([`PartsUpdate`](edgecut_graph::PartsUpdate)).

mod advice;
mod changes;
mod place;
mod time_order;

pub use advice::{Advice, Quality, update_limits};
pub use changes::{Changes, RemovedPairs};

use crate::staging::Staging;
use crate::{PartitionError, Phase, Progress, staging, write};
use changes::{ChangesOfParts, KnownParts};
use edgecut_graph::part_writer::{ExtraFiles, NodeTypeFacts, WriteOptions};
use edgecut_graph::{
    EdgeTypeId, EdgeTypeMeta, Meta, NodeKeys, OverlapPolicy, Part, PartsUpdate, Provenance, UpdateRules, UpdatedEdges,
    Updates, Workspace,
};
use serde::Serialize;
use std::path::Path;

/// The options of an update.
#[derive(Clone)]
pub struct UpdateOptions<'a> {
    /// The place for large arrays.
    pub space: Workspace,
    /// The treatment of held-out edges that are also training edges, instead of that of the parts.
    pub overlap: Option<OverlapPolicy>,
    /// Pairs of edge types that are each other's reverse, beside those that the parts record.
    pub reverse_types: Vec<(String, String)>,
    /// True to skip removed edges that do not exist; otherwise they are an error.
    pub skips_missing_edges: bool,
    /// The parts in the output folder that may be replaced.
    pub replaces: Replaces,
    /// Further files in the parts: all id maps after the update, and the transforms of the parts.
    pub extra: ExtraFiles<'a>,
    /// The keys by which nodes draw, after the update. They must be the keys of the partitioning.
    pub keys: &'a dyn NodeKeys,
}

/// The most earlier contents of a node type that parts record.
const MAX_EARLIER: usize = 64;

/// Parts that an update may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaces {
    /// None.
    Nothing,
    /// Any parts.
    Any,
    /// Those that are updated, unless they have changed since they were read.
    Updated,
}

/// The results of an update.
#[derive(Clone, Debug, Serialize)]
pub struct UpdateReport {
    /// The description of the updated parts.
    #[serde(skip)]
    pub meta: Meta,
    /// The nodes of each type.
    pub nodes: Vec<NodeCounts>,
    /// The edges of each type, held-out edges included.
    pub edges: Vec<EdgeCounts>,
    /// The quality of the partitioning before and after the update, and whether to partition again.
    pub quality: Advice,
    /// The removed edges that did not exist.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_edges: u64,
    /// One sentence each about overlaps, unlabeled nodes and edges that are later than held-out edges.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The numbers of nodes of a type: `before - removed + new = after`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeCounts {
    /// The name of the type.
    pub node_type: String,
    /// The nodes of the parts.
    pub before: u64,
    /// The nodes that were removed.
    pub removed: u64,
    /// The nodes that stayed, and that a row of the tables changed.
    pub changed: u64,
    /// The new nodes.
    pub new: u64,
    /// The nodes of the updated parts.
    pub after: u64,
}

/// The numbers of edges of a type, held-out edges included:
/// `before - removed - removed_with_nodes - removed_overlaps + added = after`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EdgeCounts {
    /// The names of the source type, the relation and the destination type.
    pub edge_type: String,
    /// The edges of the parts.
    pub before: u64,
    /// The edges that the tables removed.
    pub removed: u64,
    /// The edges that were removed with one of their nodes.
    pub removed_with_nodes: u64,
    /// The edges that were removed because they are held out as well.
    pub removed_overlaps: u64,
    /// The new edges, reverses included.
    pub added: u64,
    /// The edges of the updated parts.
    pub after: u64,
}

/// Checks that an update may be written to `out_dir`, before anything is read.
///
/// # Errors
/// As for [`partition`](crate::partition) with an `out_dir` that exists already.
pub fn check_update_output(out_dir: &Path, replaces: Replaces) -> Result<(), PartitionError> {
    staging::check_free(out_dir, replaces != Replaces::Nothing).map_err(|error| replaces.describe(error))
}

/// Applies `changes` to the graph of `parts`, which are all parts of a graph in one folder, and writes the updated parts to
/// `out_dir`. This may be the folder of the parts, which then changes in one step when all files are complete. The output
/// depends only on the parts and the changes.
///
/// # Errors
/// Fails for changes that do not fit the parts, on an `out_dir` that may not be replaced, and on I/O errors. `out_dir` is then
/// left as it was.
pub fn update(
    parts: &[Part],
    changes: Changes,
    options: UpdateOptions,
    out_dir: &Path,
    progress: &dyn Progress,
) -> Result<UpdateReport, PartitionError> {
    progress.phase(Phase::Preparing);
    let Some(meta) = parts.first().map(Part::meta) else { return Err(PartitionError::NoParts) };
    let UpdateOptions { space, overlap, reverse_types, skips_missing_edges, replaces, extra, keys } = options;
    let made = &meta.provenance;
    let known_parts = KnownParts { parts, meta, keys, space: &space };
    let ChangesOfParts { update, direct_removals, holds_out_latest, mut warnings } = changes.for_parts(&known_parts)?;
    let mut nodes = Vec::with_capacity(meta.node_types.len());
    for (of_type, update) in meta.node_types.iter().zip(&update.node_types) {
        let before = of_type.book.num_nodes() as u64;
        let removed = update.removed.iter().filter(|is_removed| **is_removed).count() as u64;
        let new = update.numbers.iter().filter(|&&number| u64::from(number) >= before - removed).count() as u64;
        nodes.push(NodeCounts {
            node_type: of_type.name.clone(),
            before,
            removed,
            changed: update.numbers.len() as u64 - new,
            new,
            after: before - removed + new,
        });
    }
    let mut all_reverse_types = made.reverse_types.clone();
    all_reverse_types.extend(reverse_types.into_iter().filter(|pair| !made.reverse_types.contains(pair)));
    let rules = UpdateRules {
        to_undirected: made.to_undirected,
        sorts_held_out: made.hold_out_edges.is_some(),
        overlap: overlap.unwrap_or(made.overlap),
        reverse_types: all_reverse_types,
        space,
    };
    let update = PartsUpdate::new(parts, update, &rules)?;
    let mut missing_edges = 0;
    for edge_type in (0..meta.edge_types.len()).filter(|edge_type| direct_removals.contains(edge_type)) {
        let counts = &update.edge_types()[edge_type].removed;
        if let (Some(pair), false) = (counts.first_unmatched, skips_missing_edges) {
            return Err(PartitionError::MissingEdges { edge_type, pair, number: counts.num_unmatched });
        }
        missing_edges += counts.num_unmatched;
    }
    let types = meta.edge_types.iter().zip(update.edge_types());
    let edges = types.map(|(of_type, update)| edge_counts(of_type, update)).collect();
    warnings.extend_from_slice(update.warnings());
    let mut were_ordered = Vec::with_capacity(meta.edge_types.len());
    for at in (0..meta.edge_types.len() as u16).map(EdgeTypeId) {
        were_ordered.push(time_order::num_misordered(parts, at) == Some(0));
        parts.iter().for_each(Part::release_pages);
    }
    let parts_of_new = place::place(&update, meta)?;
    let mut staging =
        Staging::create(out_dir, replaces != Replaces::Nothing).map_err(|error| replaces.describe(error))?;
    if replaces == Replaces::Updated {
        staging.expect(meta.fingerprint());
    }
    let UpdateRules { overlap, reverse_types, .. } = rules;
    let provenance = Provenance { overlap, reverse_types, updates: Some(next_update(meta)), ..made.clone() };
    let options = WriteOptions { num_parts: meta.num_parts, provenance, is_synced: true };
    let node_facts = facts_after(meta, &nodes, extra.node_facts);
    let extra = ExtraFiles { node_facts: &node_facts, ..extra };
    progress.phase(Phase::Writing);
    let written = update.write(&parts_of_new, options, staging.dir(), &write::Written(progress), extra)?;
    for (at, of_type) in meta.edge_types.iter().enumerate().filter(|(at, _)| holds_out_latest[*at] || were_ordered[*at])
    {
        let number = time_order::num_misordered(&written.parts, EdgeTypeId(at as u16)).unwrap_or(0);
        if number > 0 {
            warnings.push(misordered(of_type, number));
        }
    }
    let updated = written.meta;
    write::commit(staging, progress).map_err(|error| replaces.describe(error))?;
    let quality = Advice::new(&meta.report, &updated);
    Ok(UpdateReport { meta: updated, nodes, edges, quality, missing_edges, warnings })
}

/// Returns the numbers of edges of a type.
fn edge_counts(of_type: &EdgeTypeMeta, update: &UpdatedEdges) -> EdgeCounts {
    let before = of_type.num_edges + of_type.held_out.iter().sum::<u64>();
    let stayed = before - update.removed.listed - update.removed.with_nodes;
    EdgeCounts {
        edge_type: [&of_type.src_type[..], &of_type.relation, &of_type.dst_type].join("__"),
        before,
        removed: update.removed.listed,
        removed_with_nodes: update.removed.with_nodes,
        removed_overlaps: update.overlaps,
        added: update.after + update.overlaps - stayed,
        after: update.after,
    }
}

impl Replaces {
    /// Returns the error for the parts that are replaced.
    fn describe(self, error: PartitionError) -> PartitionError {
        match error {
            PartitionError::HoldsOther { path, entry } if self == Self::Updated => {
                PartitionError::UpdateWouldDelete { path, entry }
            }
            other => other,
        }
    }
}

/// Returns the facts of node types after an update. The contents of a type to which nodes were only added are those of its
/// first nodes afterwards.
fn facts_after(meta: &Meta, counts: &[NodeCounts], given: &[NodeTypeFacts]) -> Vec<NodeTypeFacts> {
    let mut all = Vec::with_capacity(meta.node_types.len());
    for (at, (of_type, counts)) in meta.node_types.iter().zip(counts).enumerate() {
        let mut earlier_contents = Vec::new();
        if counts.removed == 0 && counts.changed == 0 {
            earlier_contents.extend(of_type.digests.earlier_contents.iter().cloned());
            earlier_contents.extend(of_type.digests.content.clone().filter(|_| counts.new > 0));
            let num_forgotten = earlier_contents.len().saturating_sub(MAX_EARLIER);
            earlier_contents.drain(..num_forgotten);
        }
        let has_table = given.get(at).is_some_and(|facts| facts.has_table);
        all.push(NodeTypeFacts { has_table, earlier_contents });
    }
    all
}

/// Describes edges that are later than an edge of a later split.
fn misordered(of_type: &EdgeTypeMeta, number: u64) -> String {
    let name = [&of_type.src_type[..], &of_type.relation, &of_type.dst_type].join("__");
    format!(
        "{number} training or validation edges of {name} are later than an edge of a later split, because an update holds out \
         edges among the new ones only: partition all tables together to hold out the latest edges of all"
    )
}

/// Returns the record of one more update.
fn next_update(meta: &Meta) -> Updates {
    match &meta.provenance.updates {
        Some(earlier) => Updates { number: earlier.number.saturating_add(1), ..earlier.clone() },
        None => {
            let quality = Quality::new(&meta.report);
            Updates {
                number: 1,
                cut_fraction: quality.cut_fraction,
                node_balance: quality.node_balance,
                edge_balance: quality.edge_balance,
            }
        }
    }
}

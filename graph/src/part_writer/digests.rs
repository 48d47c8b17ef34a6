//! Digests of what the nodes and edges of a type are, which do not depend on the partitioning.

use super::{InEdges, WriteError, WriteProgress};
use crate::dataset::{EdgeList, GivenNegatives, NodeData, Split};
use crate::memory::Features;
use crate::{TypeDigests, parallel};
use bytemuck::Pod;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The bytes that a thread hashes at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The kinds of arrays. Each kind has a digest.
pub(super) const FEATURES: &str = "features";
pub(super) const LABELS: &str = "labels";
pub(super) const TIMES: &str = "times";
pub(super) const SPLITS: &str = "splits";
pub(super) const ENDS: &str = "ends";
pub(super) const ORDER: &str = "order";
pub(super) const WEIGHTS: &str = "weights";
pub(super) const HELD_OUT: &str = "held_out";

/// The digests of a node type or an edge type.
pub(crate) struct ContentDigests {
    /// The digest of all arrays.
    pub(crate) content: String,
    /// The digests of the arrays of each kind.
    pub(crate) arrays: BTreeMap<String, String>,
}

impl ContentDigests {
    /// Replaces the digests of arrays in the description of a type.
    pub(crate) fn store_in(self, digests: &mut TypeDigests) {
        digests.content = Some(self.content);
        digests.arrays = self.arrays;
    }
}

/// Returns the digests of all arrays of a node type.
pub(super) fn of_nodes(nodes: &NodeData, progress: &dyn WriteProgress) -> Result<ContentDigests, WriteError> {
    let mut digest = Digest::new(progress);
    digest.features(nodes.features.as_ref())?;
    digest.kind(LABELS);
    digest.optional("labels", nodes.labels.as_deref())?;
    digest.optional("targets", nodes.targets.as_ref().map(|targets| &targets.values[..]))?;
    digest.kind(TIMES);
    digest.optional("times", nodes.times.as_deref())?;
    digest.kind(SPLITS);
    for split in Split::ALL {
        digest.array(split.name(), nodes.splits.get(split))?;
    }
    for label in &nodes.more_labels {
        digest.kind(LABELS);
        digest.optional(&format!("labels of {}", label.name), label.labels.as_deref())?;
        let targets = label.targets.as_ref().map(|targets| &targets.values[..]);
        digest.optional(&format!("targets of {}", label.name), targets)?;
        digest.kind(SPLITS);
        for split in Split::ALL {
            digest.array(split.name(), label.splits.get(split))?;
        }
    }
    Ok(digest.finish())
}

/// Returns the digests of all arrays of an edge type but the ids of edges, in original ids.
pub(super) fn of_edges(edges: &InEdges, progress: &dyn WriteProgress) -> Result<ContentDigests, WriteError> {
    let mut digest = Digest::new(progress);
    digest.kind(ENDS);
    digest.array("offsets", &edges.rows.offsets)?;
    digest.array("sources", &edges.rows.values)?;
    digest.kind(ORDER);
    // Without attributes, the order of edges into different nodes has no meaning.
    digest.optional("positions", edges.positions().filter(|_| edges.attributes.is_in_digests()))?;
    digest.features(edges.attributes.features.as_ref())?;
    digest.kind(WEIGHTS);
    digest.optional("weights", edges.attributes.weights.as_deref())?;
    digest.kind(TIMES);
    digest.optional("times", edges.attributes.times.as_deref())?;
    if let Some(labels) = &edges.attributes.labels {
        digest.kind(LABELS);
        digest.optional("labels", labels.values.classes().map(|classes| &classes[..]))?;
        digest.optional("targets", labels.values.targets().map(|targets| &targets.values[..]))?;
        digest.kind(SPLITS);
        digest.array("splits", &labels.splits)?;
    }
    digest.kind(HELD_OUT);
    for (split, list) in edges.held_out.lists() {
        digest.list(split, list)?;
    }
    Ok(digest.finish())
}

/// Returns the name of features in a digest.
pub(super) fn features_name(features: &Features) -> String {
    format!("features {} {}", features.dtype(), features.dim())
}

/// A digest of named arrays, and digests of the arrays of each kind.
pub(super) struct Digest<'a> {
    hash: Xxh3,
    /// The kind of the arrays that follow.
    kind: &'static str,
    by_kind: BTreeMap<&'static str, Xxh3>,
    progress: &'a dyn WriteProgress,
    /// The bytes of an array in pieces that are not hashed yet.
    piece: Vec<u8>,
}

impl<'a> Digest<'a> {
    pub(super) fn new(progress: &'a dyn WriteProgress) -> Self {
        Self { hash: Xxh3::new(), kind: FEATURES, by_kind: BTreeMap::new(), progress, piece: Vec::new() }
    }

    /// Sets what the arrays that follow hold.
    pub(super) fn kind(&mut self, kind: &'static str) {
        self.kind = kind;
    }

    fn update(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.by_kind.entry(self.kind).or_default().update(bytes);
    }

    /// Starts an array of `num_bytes` bytes, which [`Digest::add`] adds piece by piece up to [`Digest::end_array`]. The digest
    /// is the digest of the whole array.
    pub(super) fn start_array(&mut self, name: &str, num_bytes: u64) {
        self.update(format!("{name} {num_bytes}\n").as_bytes());
        self.piece.clear();
    }

    /// Adds bytes of the array that was started.
    pub(super) fn add(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while self.piece.len() + bytes.len() >= PIECE_BYTES {
            let (first, rest) = bytes.split_at(PIECE_BYTES - self.piece.len());
            self.piece.extend_from_slice(first);
            bytes = rest;
            self.end_array();
            if self.progress.cancelled() {
                return Err(WriteError::Cancelled);
            }
        }
        self.piece.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends an array.
    pub(super) fn end_array(&mut self) {
        if !self.piece.is_empty() {
            let hash = xxh3_64(&self.piece);
            self.update(&hash.to_le_bytes());
            self.piece.clear();
        }
    }

    fn features(&mut self, features: Option<&Features>) -> Result<(), WriteError> {
        let Some(features) = features else { return Ok(()) };
        self.kind(FEATURES);
        self.array(&features_name(features), features.bytes())
    }

    fn list(&mut self, name: &str, list: &EdgeList) -> Result<(), WriteError> {
        self.array(name, &list.src)?;
        self.array("destinations", &list.dst)?;
        // Parts do not store if a list without edges has times.
        self.optional("times", list.times.as_deref().filter(|times| !times.is_empty()))?;
        match &list.negatives {
            None => Ok(()),
            Some(GivenNegatives::OfEach { num, dst }) => self.array(&format!("{num} negatives of each"), dst),
            Some(GivenNegatives::Shared { src, dst }) => {
                self.array("sources of negatives", src)?;
                self.array("destinations of negatives", dst)
            }
        }
    }

    fn optional<T: Pod>(&mut self, name: &str, values: Option<&[T]>) -> Result<(), WriteError> {
        values.map_or(Ok(()), |values| self.array(name, values))
    }

    /// Adds an array, whose pieces are hashed in parallel.
    pub(super) fn array<T: Pod>(&mut self, name: &str, values: &[T]) -> Result<(), WriteError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let hash = |piece: usize| {
            if self.progress.cancelled() {
                return Err(WriteError::Cancelled);
            }
            let start = piece * PIECE_BYTES;
            Ok(xxh3_64(&bytes[start..bytes.len().min(start + PIECE_BYTES)]))
        };
        let pieces = parallel::try_collect(bytes.len().div_ceil(PIECE_BYTES), &hash)?;
        self.update(format!("{name} {}\n", bytes.len()).as_bytes());
        pieces.iter().for_each(|piece| self.update(&piece.to_le_bytes()));
        Ok(())
    }

    pub(super) fn finish(self) -> ContentDigests {
        let mut arrays = BTreeMap::new();
        for (kind, hash) in &self.by_kind {
            arrays.insert((*kind).to_owned(), text_of(hash));
        }
        ContentDigests { content: text_of(&self.hash), arrays }
    }
}

fn text_of(hash: &Xxh3) -> String {
    format!("{:032x}", hash.digest128())
}

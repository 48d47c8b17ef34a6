//! Filtered ranking: ranks held-out edges against all nodes of the destination's type.

use super::config::{LinkTrainingConfig, target_edge_types};
use super::scores::LinkScores;
use crate::batch_input::{BatchOptions, tensor_batches};
use crate::embeddings::Embeddings;
use crate::gather::all_gather_large;
use crate::metrics::RankingMetrics;
use crate::models::{GraphSchema, LinkModel, Mode};
use crate::ops::{GnnBackend, consumed, matmul};
use crate::train_error::TrainError;
use burn::tensor::{Tensor, TensorData};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_loader::{DistNeighborLoader, Seeds};
use edgecut_dist_sampler::{DistGraph, DistNeighborSampler};
use edgecut_graph::{EdgeTypeId, NodeTypeId, Split};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The maximum number of scores in memory at once, 32 MiB in `f32`.
const SCORES_AT_ONCE: usize = 1 << 23;
/// The maximum number of edges that are ranked at once.
const EDGES_AT_ONCE: usize = 1024;

/// The filtered ranking of held-out edges: each edge is ranked against the pairs of its source with all nodes of its
/// destination's type, except the destinations of known edges (Bordes et al., "Translating embeddings for modeling
/// multi-relational data", NIPS 2013). Every rank encodes the nodes that it owns and scores them for the edges of all
/// ranks; only queries and counts cross the network.
pub(super) struct FilteredRanking {
    node: Arc<DistGraph>,
    schema: Arc<GraphSchema>,
    options: BatchOptions,
    /// A loader of this rank's nodes for each node type that the edges connect.
    loaders: BTreeMap<NodeTypeId, DistNeighborLoader>,
    valid: Ranked,
    test: Ranked,
}

/// The held-out edges of a split, and the known edges of their sources.
struct Ranked {
    edges: Vec<HeldOutEdge>,
    /// For each edge type and source: the known destinations, as positions among this rank's nodes.
    known: HashMap<(EdgeTypeId, u32), Vec<u32>>,
}

/// A held-out edge, in global ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HeldOutEdge {
    dst_type: NodeTypeId,
    edge_type: EdgeTypeId,
    src: u32,
    dst: u32,
}

/// The encoded rows of this rank's nodes of one type.
struct OwnedRows {
    /// Global ids, ascending.
    ids: Vec<u32>,
    /// The rows, `[ids.len(), channels]` row-major.
    values: Vec<f32>,
    channels: usize,
}

impl OwnedRows {
    fn row(&self, id: u32) -> Option<&[f32]> {
        let at = self.ids.binary_search(&id).ok()?;
        Some(&self.values[at * self.channels..][..self.channels])
    }
}

impl FilteredRanking {
    pub(super) fn new(
        node: &Arc<DistGraph>,
        schema: &Arc<GraphSchema>,
        options: BatchOptions,
        config: &LinkTrainingConfig,
        world: &mut ProcessGroup,
    ) -> Result<Self, TrainError> {
        let training = &config.training;
        if training.sampler.temporal.is_some() {
            let what = "ranking all nodes ignores times: with temporal sampling, rank against sampled negatives \
                        (`evaluation` with a number)"
                .into();
            return Err(TrainError::Config { what });
        }
        let sampler = Arc::new(DistNeighborSampler::new(node.clone(), training.eval_sampler())?);
        let edge_types = target_edge_types(node.part().meta(), config)?;
        let mut node_types = BTreeSet::new();
        for edges in edge_types.iter().map(|e| node.part().edges(*e)) {
            node_types.extend([edges.src_type, edges.dst_type]);
        }
        let mut loaders = BTreeMap::new();
        for node_type in node_types {
            let loader_config = training.eval_loader(options.wanted());
            let loader = DistNeighborLoader::new(sampler.clone(), node_type, Seeds::Owned, loader_config, world)?;
            loaders.insert(node_type, loader);
        }
        let mut ranked = |split: Split| -> Result<Ranked, TrainError> {
            let edges = gather_held_out(node, &edge_types, split, world)?;
            let known = known(node, &edges);
            Ok(Ranked { edges, known })
        };
        let valid = ranked(Split::Valid)?;
        let test = ranked(Split::Test)?;
        Ok(Self { node: node.clone(), schema: Arc::clone(schema), options, loaders, valid, test })
    }

    pub(super) fn run<B: GnnBackend>(
        &self,
        split: Split,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<LinkScores, TrainError> {
        let Ranked { edges, known } = if split == Split::Test { &self.test } else { &self.valid };
        let mut ranks = RankingMetrics::default();
        if edges.is_empty() {
            return Ok(LinkScores::new(&ranks, None, None));
        }
        let mut rows = BTreeMap::new();
        for (&node_type, loader) in &self.loaders {
            rows.insert(node_type, self.encode(loader, node_type, model, embeddings, device, world)?);
        }
        for of_type in edges.chunk_by(|a, b| a.dst_type == b.dst_type) {
            let candidates = &rows[&of_type[0].dst_type];
            let matrix = TensorData::new(candidates.values.clone(), [candidates.ids.len(), candidates.channels]);
            let matrix = Tensor::<B, 2>::from_data(matrix, device).transpose();
            // Ranks have different numbers of candidates, but must cut the edges into the same chunks. The largest
            // number of candidates therefore sets the chunk size on all ranks.
            let mut most = [candidates.ids.len() as u64];
            world.all_reduce(&mut most, ReduceOp::Max)?;
            let at_once = (SCORES_AT_ONCE / (most[0] as usize).max(1)).clamp(1, EDGES_AT_ONCE);
            for chunk in of_type.chunks(at_once) {
                let counts = self.rank_chunk(chunk, &rows, &matrix, known, model, device, world)?;
                // Ties count half, so that a model that gives all pairs the same score gets the expected rank.
                for [above, tied] in counts {
                    ranks.add(1.0 + above as f64 + tied as f64 / 2.0);
                }
            }
        }
        Ok(LinkScores::new(&ranks, None, None))
    }

    /// Encodes the nodes of one type that this rank owns.
    fn encode<B: GnnBackend>(
        &self,
        loader: &DistNeighborLoader,
        node_type: NodeTypeId,
        model: &LinkModel<B>,
        embeddings: &Embeddings,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<OwnedRows, TrainError> {
        let channels = model.encoder.config().hidden_channels;
        let ids = encoded_ids(&self.node, node_type);
        let mut values = Vec::with_capacity(ids.len() * channels);
        for batch in tensor_batches::<B>(loader, 0, &self.schema, self.options, device) {
            let mut batch = embeddings.fill(batch??, device)?;
            if let Some(input) = batch.take_input() {
                let encoded = model.encode(&input, Mode::Eval).map_err(TrainError::batch)?;
                values.extend(encoded.into_data().iter::<f32>());
                consumed();
            }
            world.barrier()?;
        }
        if values.len() != ids.len() * channels {
            let what = format!("{} values for {} nodes of {channels}", values.len(), ids.len());
            return Err(TrainError::batch(what));
        }
        Ok(OwnedRows { ids, values, channels })
    }

    /// Returns for each edge the number of nodes over all ranks that score above its destination, and the number of
    /// nodes with an equal score.
    #[expect(clippy::too_many_arguments, reason = "all arguments describe one run over one chunk")]
    fn rank_chunk<B: GnnBackend>(
        &self,
        edges: &[HeldOutEdge],
        rows: &BTreeMap<NodeTypeId, OwnedRows>,
        candidates: &Tensor<B, 2>,
        known: &HashMap<(EdgeTypeId, u32), Vec<u32>>,
        model: &LinkModel<B>,
        device: &B::Device,
        world: &mut ProcessGroup,
    ) -> Result<Vec<[u64; 2]>, TrainError> {
        let channels = model.encoder.config().hidden_channels;
        // The owner of a source contributes its row and all other ranks zeros, so the sum gives all ranks all rows.
        let mut sources = vec![0.0_f32; edges.len() * channels];
        for (edge, source) in edges.iter().zip(sources.chunks_exact_mut(channels)) {
            let src_type = self.node.part().edges(edge.edge_type).src_type;
            if let Some(row) = rows[&src_type].row(edge.src) {
                source.copy_from_slice(row);
            }
        }
        world.all_reduce(&mut sources, ReduceOp::Sum)?;
        let sources = Tensor::from_data(TensorData::new(sources, [edges.len(), channels]), device);
        let edge_types: Vec<u16> = edges.iter().map(|edge| edge.edge_type.0).collect();
        let query = model.decoder.query(sources, &edge_types);
        let own = &rows[&edges[0].dst_type].ids;
        let scores: Vec<f32> = if own.is_empty() {
            Vec::new()
        } else {
            matmul(query, candidates.clone()).into_data().iter::<f32>().collect()
        };
        let row = |edge: usize| &scores[edge * own.len()..(edge + 1) * own.len()];
        let positions: Vec<Option<usize>> = edges.iter().map(|edge| own.binary_search(&edge.dst).ok()).collect();
        // The destination's score is read from the same matrix product as the others: a separately computed score could
        // differ by rounding and break ties.
        let mut targets: Vec<f32> =
            positions.iter().enumerate().map(|(edge, at)| at.map_or(0.0, |at| row(edge)[at])).collect();
        world.all_reduce(&mut targets, ReduceOp::Sum)?;
        let count = |(edge, target): (usize, &f32)| {
            let filtered = known.get(&(edges[edge].edge_type, edges[edge].src)).map_or(&[][..], Vec::as_slice);
            // Both the known positions and the columns ascend, so one pass over both skips the known destinations.
            let mut filtered = filtered.iter().copied().peekable();
            let mut above = 0_u64;
            let mut tied = 0_u64;
            for (at, score) in row(edge).iter().enumerate() {
                if filtered.next_if_eq(&(at as u32)).is_some() || positions[edge] == Some(at) {
                    continue;
                }
                match target.partial_cmp(score) {
                    Some(std::cmp::Ordering::Greater) => {}
                    Some(std::cmp::Ordering::Equal) => tied += 1,
                    // A NaN score counts against the model.
                    Some(std::cmp::Ordering::Less) | None => above += 1,
                }
            }
            [above, tied]
        };
        let counts: Vec<[u64; 2]> = targets.par_iter().enumerate().map(count).collect();
        let mut flat: Vec<u64> = counts.into_iter().flatten().collect();
        world.all_reduce(&mut flat, ReduceOp::Sum)?;
        Ok(flat.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
    }
}

/// Returns the global ids of the nodes of a type that this rank encodes, ascending, in the order of the loader's
/// batches. Ranks that share a part take its nodes in turn.
fn encoded_ids(node: &DistGraph, node_type: NodeTypeId) -> Vec<u32> {
    let (sharers, mine) = node.replicas();
    node.part().owned(node_type).skip(mine).step_by(sharers).collect()
}

/// Returns for each edge type and source of `edges` the known destinations, training and held-out, as ascending
/// positions among this rank's nodes.
fn known(node: &DistGraph, edges: &[HeldOutEdge]) -> HashMap<(EdgeTypeId, u32), Vec<u32>> {
    let mut known: HashMap<(EdgeTypeId, u32), Vec<u32>> =
        edges.iter().map(|edge| ((edge.edge_type, edge.src), Vec::new())).collect();
    let edge_types: BTreeSet<EdgeTypeId> = edges.iter().map(|edge| edge.edge_type).collect();
    let part = node.part();
    for edge_type in edge_types {
        let of_type = part.edges(edge_type);
        let start = part.owned(of_type.dst_type).start;
        let ids = encoded_ids(node, of_type.dst_type);
        let mut add = |src: u32, dst: u32| {
            if let (Some(found), Ok(at)) = (known.get_mut(&(edge_type, src)), ids.binary_search(&dst)) {
                found.push(at as u32);
            }
        };
        for row in 0..of_type.csc.num_rows() {
            of_type.csc.neighbors(row).iter().for_each(|&src| add(src, start + row as u32));
        }
        for list in [&of_type.held_out.valid, &of_type.held_out.test] {
            list.src.iter().zip(&list.dst[..]).for_each(|(&src, &dst)| add(src, dst));
        }
    }
    known.values_mut().for_each(|positions| {
        positions.sort_unstable();
        positions.dedup();
    });
    known
}

/// Returns the held-out edges of all parts in the same order on all ranks, sorted by destination type first.
fn gather_held_out(
    node: &DistGraph,
    edge_types: &[EdgeTypeId],
    split: Split,
    world: &mut ProcessGroup,
) -> Result<Vec<HeldOutEdge>, TrainError> {
    // Only the first of the ranks that share a part sends its edges. An edge is encoded as three little-endian `u32`:
    // edge type, source, destination.
    let (_, mine) = node.replicas();
    let mut bytes = Vec::new();
    for &edge_type in edge_types.iter().filter(|_| mine == 0) {
        let held_out = &node.part().edges(edge_type).held_out;
        let list = if split == Split::Test { &held_out.test } else { &held_out.valid };
        for (src, dst) in list.src.iter().zip(&list.dst[..]) {
            bytes.extend(
                u32::from(edge_type.0).to_le_bytes().iter().chain(&src.to_le_bytes()).chain(&dst.to_le_bytes()),
            );
        }
    }
    let mut edges = Vec::new();
    for theirs in all_gather_large(world, &bytes)? {
        for words in theirs.chunks_exact(12) {
            let word = |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
            let edge_type = EdgeTypeId(word(0) as u16);
            let dst_type = node.part().edges(edge_type).dst_type;
            edges.push(HeldOutEdge { dst_type, edge_type, src: word(4), dst: word(8) });
        }
    }
    edges.sort_unstable();
    Ok(edges)
}

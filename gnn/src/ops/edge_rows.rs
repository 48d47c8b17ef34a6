//! Operations on tensors with one row per edge of a block.
//!
//! Convolutions whose messages depend on edge features need a row per edge, `[num_edges, features]`. The operations are
//! aggregations over blocks with as many rows or nodes as the block has edges, so they run wherever
//! [`aggregate`](super::aggregate()) runs, and their backward passes are those of it.

use std::sync::{Arc, OnceLock};

use burn::tensor::Tensor;

use super::aggregate::{Reduce, aggregate};
use super::batch_graph::BatchGraph;
use super::block::Block;
use super::gnn_backend::GnnBackend;

/// The blocks between the edges of a block and their ends, which are made when they are read first.
#[derive(Debug, Default)]
pub(super) struct EdgeEnds {
    sources_to_edges: OnceLock<Block>,
    destinations_to_edges: OnceLock<Block>,
    edges_to_destinations: OnceLock<Block>,
}

/// The blocks between edges and their ends that a layer reads.
///
/// ```
/// # use std::sync::Arc;
/// use edgecut_gnn::ops::{BatchGraph, Block, EdgeBlocks};
/// let block = Block::new(Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?), 1, 3)?;
/// let counts = [EdgeBlocks::None, EdgeBlocks::ToDestinations, EdgeBlocks::Attention, EdgeBlocks::All]
///     .map(|which| block.blocks_of_edges(which, true).len());
/// assert_eq!(counts, [0, 1, 3, 3]);
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EdgeBlocks {
    /// The layer has no rows of edges.
    #[default]
    None,
    /// The layer aggregates given rows of edges.
    ToDestinations,
    /// The layer sums rows of sources by weights from [`edge_scores`](super::edge_scores()), and may add rows of edges.
    Attention,
    /// The layer computes rows of edges from rows of nodes.
    All,
}

impl EdgeBlocks {
    /// Returns true if the rows of edges depend on the layer's weights, so that all of them have gradients.
    pub fn have_gradients(self) -> bool {
        matches!(self, Self::Attention | Self::All)
    }
}

impl Block {
    /// Returns the blocks that operations on edges read. Their edges must be prepared, for a backward pass too if the
    /// rows have gradients. `fuses_heads` is [`GnnKernels::FUSES_HEADS`](super::GnnKernels::FUSES_HEADS) of the backend.
    pub fn blocks_of_edges(&self, which: EdgeBlocks, fuses_heads: bool) -> Vec<&Self> {
        match which {
            EdgeBlocks::None => Vec::new(),
            EdgeBlocks::ToDestinations => vec![self.edges_to_destinations()],
            // The rows of sources have gradients in the first layer too, which needs no backward pass by itself.
            EdgeBlocks::Attention if fuses_heads => {
                vec![self, self.destinations_to_edges(), self.edges_to_destinations()]
            }
            EdgeBlocks::Attention | EdgeBlocks::All => {
                vec![self.sources_to_edges(), self.destinations_to_edges(), self.edges_to_destinations()]
            }
        }
    }

    /// Returns the block in which each edge reads its source.
    pub(super) fn sources_to_edges(&self) -> &Self {
        self.edge_ends()
            .sources_to_edges
            .get_or_init(|| whole(one_per_edge(self), self.indices().to_vec(), self.num_src()))
    }

    /// Returns the block in which each edge reads its destination.
    fn destinations_to_edges(&self) -> &Self {
        self.edge_ends().destinations_to_edges.get_or_init(|| {
            let mut destinations = Vec::with_capacity(self.num_edges());
            for (row, ends) in self.indptr().windows(2).enumerate() {
                destinations.resize(ends[1] as usize, row as u32);
            }
            whole(one_per_edge(self), destinations, self.num_dst())
        })
    }

    /// Returns the block in which each destination reads its edges.
    fn edges_to_destinations(&self) -> &Self {
        self.edge_ends().edges_to_destinations.get_or_init(|| {
            let edges: Vec<u32> = (0..self.num_edges() as u32).collect();
            whole(self.indptr().to_vec(), edges, self.num_edges())
        })
    }
}

/// Returns the offsets of rows with an edge each.
fn one_per_edge(block: &Block) -> Vec<u32> {
    (0..=block.num_edges() as u32).collect()
}

/// Makes a block of all rows and nodes of a graph.
fn whole(indptr: Vec<u32>, indices: Vec<u32>, num_nodes: usize) -> Block {
    let num_rows = indptr.len() - 1;
    let graph = BatchGraph::new(indptr, indices, num_nodes).expect("edges of a valid block");
    Block::new(Arc::new(graph), num_rows, num_nodes).expect("a block of all rows")
}

/// Returns the row of each edge's source.
///
/// # Shapes
/// - `x`: `[num_src, features]`
/// - output: `[num_edges, features]`
///
/// # Panics
/// If `x` does not have `num_src` rows.
pub fn gather_sources<B: GnnBackend>(x: Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
    aggregate(x, block.sources_to_edges(), &Reduce::Sum)
}

/// Returns the row of each edge's destination.
///
/// # Shapes
/// - `x`: `[num_dst, features]`
/// - output: `[num_edges, features]`
///
/// # Panics
/// If `x` does not have `num_dst` rows.
pub fn gather_destinations<B: GnnBackend>(x: Tensor<B, 2>, block: &Block) -> Tensor<B, 2> {
    aggregate(x, block.destinations_to_edges(), &Reduce::Sum)
}

/// Reduces the rows of each destination's edges to one row. A destination without edges gets zeros.
///
/// # Shapes
/// - `messages`: `[num_edges, features]`
/// - output: `[num_dst, features]`
///
/// # Panics
/// If `messages` does not have `num_edges` rows, or for [`Reduce::WeightedSum`].
///
/// ```
/// # use std::sync::Arc;
/// use burn::{backend::NdArray, tensor::{Tensor, TensorData}};
/// use edgecut_gnn::ops::{BatchGraph, Block, Reduce, gather_sources, scatter_edges};
/// let graph = Arc::new(BatchGraph::new(vec![0, 2], vec![1, 2], 3)?);
/// let block = Block::new(graph, 1, 3)?;
/// let x = Tensor::<NdArray, 2>::from_data([[9.0], [1.0], [3.0]], &Default::default());
/// let messages = gather_sources(x, &block) * 2.0;
/// assert_eq!(scatter_edges(messages, &block, &Reduce::Sum).into_data(), TensorData::from([[8.0f32]]));
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
pub fn scatter_edges<B: GnnBackend>(messages: Tensor<B, 2>, block: &Block, reduce: &Reduce) -> Tensor<B, 2> {
    aggregate(messages, block.edges_to_destinations(), reduce)
}

/// The attention weights of a layer whose destinations may attend to themselves.
#[derive(Debug, Clone)]
pub struct AttentionWeights<B: GnnBackend> {
    /// `[num_edges, heads]`.
    pub edges: Tensor<B, 2>,
    /// `[num_dst, heads]`, if destinations attend to themselves.
    pub own: Option<Tensor<B, 2>>,
}

/// Computes the softmax of scores over the edges of each destination, and over its own score if there is one.
///
/// # Shapes
/// - `scores`: `[num_edges, heads]`
/// - `own`: `[num_dst, heads]`
///
/// # Panics
/// If the shapes do not match the block.
pub fn edge_softmax<B: GnnBackend>(
    scores: Tensor<B, 2>,
    own: Option<Tensor<B, 2>>,
    block: &Block,
) -> AttentionWeights<B> {
    // The greatest score keeps `exp` from overflowing. The result does not depend on it, so it has no gradient.
    let mut greatest = scatter_edges(scores.clone().detach(), block, &Reduce::Max);
    if let Some(own) = &own {
        greatest = greatest.max_pair(own.clone().detach());
    }
    let edges = (scores - gather_destinations(greatest.clone(), block)).exp();
    let own = own.map(|own| (own - greatest).exp());
    let mut total = scatter_edges(edges.clone(), block, &Reduce::Sum);
    if let Some(own) = &own {
        total = total + own.clone();
    }
    let edges = edges / gather_destinations(total.clone(), block);
    AttentionWeights { edges, own: own.map(|own| own / total) }
}

/// Multiplies the columns of each head by the weight of the head.
///
/// # Shapes
/// - `rows`: `[rows, heads * channels]`
/// - `weights`: `[rows, heads]`
/// - output: `[rows, heads * channels]`
pub fn scale_heads<B: GnnBackend>(rows: Tensor<B, 2>, weights: Tensor<B, 2>) -> Tensor<B, 2> {
    let [num_rows, width] = rows.dims();
    let [_, heads] = weights.dims();
    let by_head = rows.reshape([num_rows, heads, width / heads]);
    (by_head * weights.reshape([num_rows, heads, 1])).reshape([num_rows, width])
}

/// Returns the inner product of each head's columns with the columns of a second tensor, which may have a single row.
///
/// # Shapes
/// - `a`: `[rows, heads * channels]`
/// - `b`: `[rows, heads * channels]` or `[1, heads * channels]`
/// - output: `[rows, heads]`
pub fn dot_heads<B: GnnBackend>(a: Tensor<B, 2>, b: Tensor<B, 2>, heads: usize) -> Tensor<B, 2> {
    let [num_rows, width] = a.dims();
    (a * b).reshape([num_rows, heads, width / heads]).sum_dim(2).reshape([num_rows, heads])
}

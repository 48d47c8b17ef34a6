//! The message-flow block: the prefix of a batch that one layer works on.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::batch_graph::{BatchGraph, BlockError, position_at_least};
use super::edge_rows::EdgeEnds;
use super::transposed::TransposedBlock;

/// The prefix of a batch's rows and nodes that one layer works on (a message-flow block).
///
/// A layer maps `[num_src, in]` to `[num_dst, out]`. If both ends of the edges have the same node type, the
/// destinations are the first `num_dst` sources. Cloning is cheap: clones share the graph and the transposed edges.
///
/// Invariants: `num_dst <= num_rows`, `num_src <= num_nodes`, and every edge of the first `num_dst` rows comes from one
/// of the first `num_src` nodes.
///
/// ```
/// # use std::sync::Arc;
/// use edgecut_gnn::ops::{BatchGraph, Block};
/// // Node 0 has the neighbors 1 and 2, node 1 has the neighbor 3.
/// let graph = Arc::new(BatchGraph::new(vec![0, 2, 3], vec![1, 2, 3], 4)?);
/// let block = Block::new(graph, 1, 3)?;
/// assert_eq!(block.indptr(), [0, 2]);
/// assert_eq!(block.indices(), [1, 2]);
/// # Ok::<(), edgecut_gnn::ops::BlockError>(())
/// ```
#[derive(Clone)]
pub struct Block {
    graph: Arc<BatchGraph>,
    num_dst: usize,
    num_src: usize,
    transposed: Arc<OnceLock<TransposedBlock>>,
    edge_ends: Arc<EdgeEnds>,
    #[cfg(feature = "cuda")]
    on_device: Arc<OnceLock<edgecut_gpu::kernels::DeviceEdges>>,
}

impl Block {
    /// Makes the block of the first `num_dst` rows and the first `num_src` nodes.
    ///
    /// # Errors
    /// [`BlockError`] if the graph has fewer rows or nodes, or if an edge comes from a node at or beyond `num_src`.
    pub fn new(graph: Arc<BatchGraph>, num_dst: usize, num_src: usize) -> Result<Self, BlockError> {
        let num_rows = graph.num_rows();
        let num_nodes = graph.num_nodes();
        if num_dst > num_rows || num_src > num_nodes {
            return Err(BlockError(format!(
                "block of {num_dst} destinations and {num_src} sources on a batch of {num_rows} rows and {num_nodes} nodes: \
                 needs destinations <= rows and sources <= nodes"
            )));
        }
        let edges = graph.indptr()[num_dst] as usize;
        if let Some(edge) = position_at_least(&graph.indices()[..edges], num_src) {
            return Err(BlockError::no_source(edge, graph.indices()[edge], num_src));
        }
        Ok(Self {
            graph,
            num_dst,
            num_src,
            transposed: Arc::default(),
            edge_ends: Arc::default(),
            #[cfg(feature = "cuda")]
            on_device: Arc::default(),
        })
    }

    /// Makes the blocks of all layers in the order of the forward pass: the first is the widest, the last ends at the
    /// seeds.
    ///
    /// `nodes_within_hop[h]` is the number of nodes found within `h` hops, including the seeds. Entry 0 is therefore
    /// the number of seeds. `L + 1` entries give `L` blocks.
    ///
    /// # Errors
    /// The errors of [`Block::new`], and [`BlockError`] for fewer than two entries.
    pub fn layers(graph: &Arc<BatchGraph>, nodes_within_hop: &[usize]) -> Result<Vec<Self>, BlockError> {
        Self::layers_between(graph, nodes_within_hop, nodes_within_hop)
    }

    /// Makes the blocks of all layers for edges between two node types, each with its own prefixes.
    ///
    /// Layer `l` of `L` computes `dst_within_hop[L - 1 - l]` nodes from `src_within_hop[L - l]` nodes. See
    /// [`Block::layers`].
    ///
    /// # Errors
    /// The errors of [`Block::layers`], and [`BlockError`] if the two lists differ in length.
    pub fn layers_between(
        graph: &Arc<BatchGraph>,
        dst_within_hop: &[usize],
        src_within_hop: &[usize],
    ) -> Result<Vec<Self>, BlockError> {
        let dst = dst_within_hop.len();
        let src = src_within_hop.len();
        if dst != src {
            return Err(BlockError(format!(
                "layers of a batch: {dst} prefix lengths of destinations but {src} of sources, expected as many of both"
            )));
        }
        if dst < 2 {
            return Err(BlockError(format!(
                "layers of a batch: {dst} prefix lengths, at least 2 are needed (seeds, and nodes after the first hop)"
            )));
        }
        let layer = |hop: usize| Self::new(Arc::clone(graph), dst_within_hop[hop], src_within_hop[hop + 1]);
        (0..dst - 1).rev().map(layer).collect()
    }

    /// Returns the number of nodes that the layer computes.
    pub fn num_dst(&self) -> usize {
        self.num_dst
    }

    /// Returns the number of nodes that the layer reads.
    pub fn num_src(&self) -> usize {
        self.num_src
    }

    /// Returns the number of edges into the destinations.
    pub fn num_edges(&self) -> usize {
        self.graph.indptr()[self.num_dst] as usize
    }

    /// Checks that every destination can be a source. Operations that read the destinations' own rows need this.
    ///
    /// # Panics
    /// If there are more destinations than sources.
    pub(super) fn assert_rows_are_nodes(&self, operation: &str) {
        let num_dst = self.num_dst;
        let num_src = self.num_src;
        assert!(
            num_dst <= num_src,
            "{operation}: reads the own rows of {num_dst} destinations, but the block has only {num_src} sources"
        );
    }

    /// Returns the edges of the whole batch.
    pub fn graph(&self) -> &Arc<BatchGraph> {
        &self.graph
    }

    /// Returns the CSR offsets of the destinations' edges, `[num_dst + 1]`.
    pub fn indptr(&self) -> &[u32] {
        &self.graph.indptr()[..=self.num_dst]
    }

    /// Returns the source of each edge of the block, `[num_edges]`.
    pub fn indices(&self) -> &[u32] {
        &self.graph.indices()[..self.num_edges()]
    }

    /// Builds the transposed edges that the backward pass reads, unless they exist already.
    ///
    /// Call it on a loader thread for every block whose input needs a gradient, that is, for all but a model's first.
    /// Otherwise the first backward pass builds them on the training thread.
    pub fn prepare_backward(&self) {
        self.transposed();
    }

    /// Returns the blocks between the edges and their ends.
    pub(super) fn edge_ends(&self) -> &EdgeEnds {
        &self.edge_ends
    }

    #[cfg(test)]
    pub(super) fn is_prepared(&self) -> bool {
        self.transposed.get().is_some()
    }

    pub(super) fn transposed(&self) -> &TransposedBlock {
        self.transposed.get_or_init(|| TransposedBlock::new(self.indptr(), self.indices(), self.num_src))
    }
}

#[cfg(feature = "cuda")]
impl Block {
    /// Returns the transposed edges on the device. The first call copies them there. A process uses one device.
    pub(super) fn transposed_on_device<R: cubecl::Runtime>(
        &self,
        device: &R::Device,
    ) -> &edgecut_gpu::kernels::DeviceEdges {
        self.on_device.get_or_init(|| {
            let TransposedBlock { indptr, rows, edges } = self.transposed();
            edgecut_gpu::kernels::DeviceEdges::new::<R>(device, indptr, rows, Some(edges))
        })
    }
}

impl fmt::Debug for Block {
    // Prints the sizes only: the edges would flood a log line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("num_dst", &self.num_dst)
            .field("num_src", &self.num_src)
            .field("num_edges", &self.num_edges())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_what_is_no_prefix() -> Result<(), BlockError> {
        let graph = Arc::new(BatchGraph::new(vec![0, 2, 3, 3], vec![1, 2, 3], 5)?);
        let new = |num_dst, num_src| Block::new(Arc::clone(&graph), num_dst, num_src).map(|block| block.num_edges());
        assert_eq!(new(1, 3), Ok(2));
        assert_eq!(new(3, 5), Ok(3));
        assert_eq!(new(0, 0), Ok(0));
        for (num_dst, num_src) in [(4, 5), (1, 6)] {
            assert!(new(num_dst, num_src).is_err_and(|error| error.0.contains("needs destinations <= rows")));
        }
        assert!(new(3, 2).is_err_and(|error| error.0.starts_with("edge 1 comes from node 2,")));
        assert_eq!(new(2, 3), Err(BlockError::no_source(2, 3, 3)));
        assert!(Block::layers(&graph, &[1]).is_err_and(|error| error.0.contains("1 prefix lengths, at least 2")));
        assert!(Block::layers(&graph, &[2, 1]).is_err_and(|error| error.0.contains("source nodes")));
        Ok(())
    }

    #[test]
    fn each_end_of_an_edge_type_has_its_own_prefixes() -> Result<(), BlockError> {
        // Destinations: two seeds and two nodes of the first hop. Sources: no seeds, two nodes, then three.
        let graph = Arc::new(BatchGraph::new(vec![0, 1, 2, 4, 4], vec![0, 1, 2, 0], 3)?);
        let blocks = Block::layers_between(&graph, &[2, 4, 4], &[0, 2, 3])?;
        let sizes: Vec<_> = blocks.iter().map(|b| (b.num_dst(), b.num_src(), b.num_edges())).collect();
        assert_eq!(sizes, [(4, 3, 4), (2, 2, 2)]);
        let error = Block::layers_between(&graph, &[2, 4], &[0, 2, 3]).err();
        assert!(error.is_some_and(|error| error.0.contains("2 prefix lengths of destinations but 3 of sources")));
        Ok(())
    }
}

//! Constant weights for a weighted sum over neighbors.

use super::batch_graph::{BatchGraph, BlockError};

/// One constant weight per edge of a batch, and optionally one weight per row for the node itself (a self loop that is
/// not among the edges). Weights have no gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeWeights {
    edges: Vec<f32>,
    self_loops: Option<Vec<f32>>,
    #[cfg(feature = "cuda")]
    on_device: super::cube::DeviceCopy<edgecut_gpu::kernels::DeviceWeights>,
}

impl EdgeWeights {
    /// Checks and takes the weights of a batch.
    ///
    /// # Shapes
    /// - `edges`: `[num_edges]`, in the order of [`BatchGraph::indices`]
    /// - `self_loops`: `[num_rows]`
    ///
    /// # Errors
    /// [`BlockError`] if a length is wrong, and for self loops of a graph that has more rows than nodes.
    pub fn new(graph: &BatchGraph, edges: Vec<f32>, self_loops: Option<Vec<f32>>) -> Result<Self, BlockError> {
        check_count("edge", edges.len(), graph.num_edges())?;
        if let Some(weights) = &self_loops {
            check_count("self-loop", weights.len(), graph.num_rows())?;
            let num_rows = graph.num_rows();
            let num_nodes = graph.num_nodes();
            if num_rows > num_nodes {
                return Err(BlockError(format!(
                    "self-loop weights for {num_rows} rows but {num_nodes} source nodes: an edge type between two node types \
                     has no self loops, pass none"
                )));
            }
        }
        Ok(Self {
            edges,
            self_loops,
            #[cfg(feature = "cuda")]
            on_device: Default::default(),
        })
    }

    /// Returns the weights on the device. The first call copies them there. A process uses one device.
    #[cfg(feature = "cuda")]
    pub(super) fn on_device<R: cubecl::Runtime>(&self, device: &R::Device) -> &edgecut_gpu::kernels::DeviceWeights {
        self.on_device.get(|| edgecut_gpu::kernels::DeviceWeights::new::<R>(device, &self.edges, self.self_loops()))
    }

    /// Returns the weight of each edge, `[num_edges]`.
    pub fn edges(&self) -> &[f32] {
        &self.edges
    }

    /// Returns the self-loop weight of each row, `[num_rows]`, if there are self loops.
    pub fn self_loops(&self) -> Option<&[f32]> {
        self.self_loops.as_deref()
    }

    /// Returns whether the numbers of weights match the numbers of edges and rows of `graph`.
    pub fn fits(&self, graph: &BatchGraph) -> bool {
        self.edges.len() == graph.num_edges()
            && self.self_loops.as_ref().is_none_or(|weights| weights.len() == graph.num_rows())
    }
}

fn check_count(what: &str, given: usize, expected: usize) -> Result<(), BlockError> {
    if given == expected { Ok(()) } else { Err(BlockError(format!("{given} {what} weights, expected {expected}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_wrong_counts() -> Result<(), BlockError> {
        let graph = BatchGraph::new(vec![0, 2], vec![0, 1], 2)?;
        assert!(EdgeWeights::new(&graph, vec![1.0; 2], Some(vec![1.0])).is_ok());
        let edges = EdgeWeights::new(&graph, vec![1.0; 3], None);
        assert_eq!(edges, Err(BlockError("3 edge weights, expected 2".into())));
        let loops = EdgeWeights::new(&graph, vec![1.0; 2], Some(vec![]));
        assert_eq!(loops, Err(BlockError("0 self-loop weights, expected 1".into())));
        let between_types = BatchGraph::new(vec![0, 1, 1], vec![0], 1)?;
        let loops = EdgeWeights::new(&between_types, vec![1.0], Some(vec![1.0; 2]));
        assert!(loops.is_err_and(|error| error.0.starts_with("self-loop weights for 2 rows but 1 source nodes")));
        assert!(EdgeWeights::new(&between_types, vec![1.0], None).is_ok());
        Ok(())
    }
}

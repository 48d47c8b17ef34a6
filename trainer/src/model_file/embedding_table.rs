//! The embeddings of one node type, in memory.

/// All rows of one node type, by original id.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingTable {
    /// The node type.
    pub node_type: String,
    /// Values per node.
    pub dim: usize,
    /// `[num_nodes, dim]`, row-major.
    pub values: Vec<f32>,
}

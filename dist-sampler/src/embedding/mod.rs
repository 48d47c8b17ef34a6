//! Learnable embeddings of nodes, each held by the process that owns the node.

pub(crate) mod dist_embedding;

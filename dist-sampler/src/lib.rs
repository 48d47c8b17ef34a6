//! Multi-hop neighbor sampling over a partitioned graph.

//! Tests of the loaders.

mod cached_features;
mod clusters;
mod constrained_sampling;
mod directory;
mod embeddings;
mod given_negatives;
mod graph_batches;
mod held_out_times;
mod hop_kernels;
mod labeled_edges;
mod layer_sampling;
mod likely_reverses;
mod link_batches;
mod loader_errors;
mod negatives;
mod partition_independence;
mod prefetch_bytes;
mod server_client;
mod shared_candidates;
mod stored_hotness;
mod support;
mod training_seeds;
mod typed_graphs;

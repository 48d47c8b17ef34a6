//! Numerical tests: each operation, layer and model against a slower and more obvious implementation.

mod added_embeddings;
mod addresses;
mod aggregate;
mod attention;
mod convolutions;
#[path = "../decoder_tensors.rs"]
mod decoder_tensors;
mod dropout;
mod edge_features;
mod flat_vectors;
mod float_type;
mod graphs;
mod guide;
mod layers;
mod learning;
mod linear;
mod link;
mod loss;
mod metrics;
mod model_file;
mod number_losses;
mod ogb;
mod parameter_counts;
#[path = "../plain_scores.rs"]
mod plain_scores;
mod precision;
mod relational_layers;
mod relational_net;
mod scoring;
mod stacks;
mod support;
mod synced_norms;
mod typed_edges;

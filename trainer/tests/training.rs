//! Tests of training in this process.

mod damaged_models;
mod decoder_tensors;
#[path = "edge_training/main.rs"]
mod edge_training;
mod embedding_rates;
mod evaluation_steps;
mod future_edges;
mod gradient_equality;
mod graph_classification;
mod heterogeneous_training;
#[path = "link_training/main.rs"]
mod link_training;
mod multi_targets;
mod not_a_number;
mod plain_scores;
mod saved_models;
mod scoring;
#[path = "../../dist-loader/tests/support/mod.rs"]
mod support;

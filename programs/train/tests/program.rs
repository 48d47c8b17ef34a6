//! Tests of the program `train`.

mod bf16;
#[path = "checkpoints/main.rs"]
mod checkpoints;
mod cluster_plan;
mod drop_edge;
mod edges;
mod encryption;
mod explain;
mod golden_models;
mod graph_processes;
mod launchers;
mod layer_wise;
mod link_evaluation;
mod link_processes;
mod metrics_port;
mod multi;
mod node_embeddings;
mod object_stores;
#[path = "../../../trainer/tests/plain_scores.rs"]
mod plain_scores;
mod predict;
mod predict_graphs;
mod predict_links;
mod predict_tables;
mod process_failures;
mod processes;
mod programs;
mod pytorch_names;
mod report;
mod report_in_browser;
mod run_files;
mod sampled_batches;
mod sampling_processes;
mod scoring;
mod server_client;
mod shared_part;
mod slurm;
mod slurm_cluster;
mod sweep;
mod targets;
mod traffic;
mod truncated_part;
mod undirected_links;
mod unpartitioned;
mod warm_start;
mod wrong_inputs;

//! A part whose file is truncated while a job trains on it ends the job with an error that names the file.
#![cfg(target_os = "linux")]

use crate::programs::*;

use edgecut_graph::readers::{FakeOptions, fake};
use std::fs::File;

#[test]
fn truncated_features_are_named_and_end_all_ranks() {
    let options = FakeOptions { avg_num_nodes: 4_000, num_channels: 64, ..FakeOptions::default() };
    let parts = written_by(&fake(&options).expect("a fake graph"), 2);
    let metrics = parts.path.join("metrics.jsonl");
    let job = start_training(node(&parts.path).args(["--nproc-per-node", "2"]), &metrics);
    let features = parts.path.join("part_1/nodes/node/features.npy");
    let bytes = features.metadata().expect("the features").len();
    File::options().write(true).open(&features).and_then(|file| file.set_len(5000)).expect("truncate the features");
    let output = end(job);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let expected = format!("{}: it was truncated while in use, from {bytes} to 5000 bytes.", features.display());
    assert!(text.contains(&expected), "{text}, expected {expected}");
    assert!(!text.contains("panicked"), "{text}");
}

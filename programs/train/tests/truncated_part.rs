//! A part whose file is truncated while a job trains on it ends the job with an error that names the file.
#![cfg(target_os = "linux")]

use crate::programs;

use edgecut_graph::readers::{FakeOptions, fake};
use programs::{ENDS_WITHIN, end, node, stderr, written_by};
use std::fs::File;
use std::time::{Duration, Instant};

#[test]
fn truncated_features_are_named_and_end_all_ranks() {
    let options = FakeOptions { avg_num_nodes: 4_000, num_channels: 64, ..FakeOptions::default() };
    let parts = written_by(&fake(&options).expect("a fake graph"), 2);
    let metrics = parts.path.join("metrics.jsonl");
    let mut command = node(&parts.path);
    command.args(["--nproc-per-node", "2", "--num-epochs", "1000000", "--metrics"]).arg(&metrics);
    let mut job = command.spawn().expect("start train");
    let deadline = Instant::now() + ENDS_WITHIN;
    while !std::fs::read_to_string(&metrics).unwrap_or_default().contains("\"event\":\"epoch\"") {
        let ended = job.try_wait().expect("wait for train");
        assert!(Instant::now() < deadline && ended.is_none(), "training did not start");
        std::thread::park_timeout(Duration::from_millis(20));
    }
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

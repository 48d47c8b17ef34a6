//! Tests of `train sample`: batches that do not depend on the parts, and that Python reads.

use crate::programs::*;
use edgecut_testing::python_has;
use std::path::PathBuf;
use std::process::{Command, Output};

#[test]
fn sampled_batches_do_not_depend_on_the_parts() {
    let dir = Folder::new();
    let seeds = dir.join("seeds.npy");
    let ids: Vec<i64> = (0..100).map(|i| (i * 7 + 3) % 600).collect();
    edgecut_graph::write_npy(&seeds, &[100], &ids).expect("write the seeds");
    let sample = |num_parts: u32, processes: u32, extra: &[&str]| -> Vec<Vec<u8>> {
        let parts = parts(num_parts, 3);
        let out = dir.join(format!("out-{num_parts}-{processes}-{}", extra.len()));
        let mut command = train("sample", &parts.path);
        command.args(["--nproc-per-node", &processes.to_string(), "--batch-size", "16", "--seed", "5", "--out"]);
        command.arg(&out).args(extra);
        succeeded(run(&mut command));
        let files = std::fs::read_dir(&out).expect("read the folder");
        let mut names: Vec<PathBuf> = files.map(|entry| entry.expect("a file").path()).collect();
        names.sort();
        assert!(names[0].ends_with("batch_00000.npz"));
        names.iter().map(|name| std::fs::read(name).expect("read a batch")).collect()
    };
    let given = ["--seeds", seeds.to_str().expect("a UTF-8 path")];
    let one = sample(1, 1, &given);
    assert_eq!(one.len(), 7);
    for (num_parts, processes) in [(3, 3), (3, 2), (3, 1), (2, 3)] {
        assert_eq!(sample(num_parts, processes, &given), one, "byte for byte");
    }
    assert_eq!(sample(2, 2, &["--num-batches", "5"]).len(), 5, "counted over all ranks");
}

#[test]
fn sampled_batches_of_several_types_do_not_depend_on_the_parts() {
    let dir = Folder::new();
    let sample = |num_parts: u32, out: &str, extra: &[&str]| -> Output {
        let parts = typed_parts(num_parts);
        let mut command = program();
        command.args(["sample", "--dataset-root-dir"]).arg(&parts.path);
        command.args(["--nproc-per-node", &num_parts.to_string(), "--batch-size", "16", "--seed", "5", "--out"]);
        run(command.arg(dir.join(out)).args(extra))
    };
    let seeds = dir.join("seeds.npy");
    edgecut_graph::write_npy(&seeds, &[40], &(0..40).map(|i| (i * 7 + 3) % 300).collect::<Vec<i64>>()).expect("seeds");
    let given = ["--seeds", seeds.to_str().expect("a UTF-8 path"), "--num-neighbors", "e1=4,2;v2__e4__v0=3,0;2,2"];
    let batches = |num_parts: u32, out: &str| -> Vec<Vec<u8>> {
        succeeded(sample(num_parts, out, &given));
        (0..3).map(|k| std::fs::read(dir.join(out).join(format!("batch_{k:05}.npz"))).expect("a batch")).collect()
    };
    let one = batches(1, "one");
    assert_eq!(batches(3, "three"), one, "byte for byte");
    let names = |name: &str| one[0].windows(name.len()).any(|bytes| bytes == name.as_bytes());
    for name in ["seeds.npy", "y.npy", "v0/x.npy", "v1/x.npy", "v2/input_nodes.npy", "v2__e4__v0/indices.npy"] {
        assert!(names(name), "{name}");
    }
    assert!(!names("v2/x.npy"), "v2 has no features");
    for (flags, why) in [
        (&["--seed-type", "paper"][..], "--seed-type paper: dataset fake-hetero has node types v0, v1, v2"),
        (&["--num-neighbors", "cites=2;3"], "names edge type cites, but the graph has v0__e0__v1, "),
        (&["--num-neighbors", "e0=2"], "nothing for edge type v1__e1__v0"),
    ] {
        let output = sample(1, "wrong", flags);
        assert!(!output.status.success() && stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn python_reads_batches_as_the_readme_shows() {
    if !python_has(Command::new("python3"), "numpy", "python_reads_batches_as_the_readme_shows") {
        return;
    }
    let dir = Folder::new();
    let parts = parts(2, 3);
    let mut command = train("sample", &parts.path);
    command.args(["--nproc-per-node", "2", "--batch-size", "16", "--num-batches", "2", "--out", "data/batches"]);
    succeeded(run(command.current_dir(dir.path())));
    let blocks = include_str!("../../../docs/src/batches.md").split("```python\n").skip(1);
    let mut blocks = blocks.filter_map(|block| block.split("```").next()).filter(|block| block.contains("np.load"));
    let shown = blocks.next().expect("the guide shows how to read a batch");
    let checks = "assert edge_index.shape[1] > 0 and edge_index.max() < len(x) and len(y) == len(seeds) == 16\n\
                  assert batch['hop_offsets'].tolist()[0] == 16 and batch['hop_offsets'][-1] == len(x)\n\
                  assert x.dtype == np.float32 and rows.max() < batch['hop_offsets'][-2]";
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{shown}\n{checks}")]).current_dir(dir.path());
    succeeded(python.output().expect("run Python"));
}

//! Wrong flags and files: each ends its program with one error that names the flag or file, and with no output.

use crate::programs::*;

use edgecut_graph::write_npy;
use edgecut_testing::{Need, copy_executable, skip};
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Wrong inputs: the exit status, the program with its arguments, and what the error has to contain. `{}` is the folder of the
/// test, and `@NAME` is `--dataset-root-dir {}/NAME`.
const CASES: &str = r#"
# Flags of train.
2 train nod => 'nod'
2 train node => --dataset-root-dir
2 train node @parts --lr -1 => --lr | -1
2 train node @parts --lr nan => --lr | nan
2 train node @parts --num-neighbors 5,x => --num-neighbors | x
2 train node @parts --num-neighbors 5 --num-layers 2 => --num-layers
2 train node @parts --batch-size 0 => --batch-size | 0
2 train node @parts --dropout 1.5 => --dropout | 1.5
2 train node @parts --model perceptron => transformer | sage
2 train node @parts --model sage --heads 2 => --heads
2 train graph --dataset fake-graphs --model gcn --mlp-layers 3 => --mlp-layers has no effect | gin
2 train node @parts --model rgcn --relation-aggregation mean => --relation-aggregation has no effect on --model rgcn
2 train node @parts --graph-on-device --gpu-cache-bytes 1MB --sampler labor => --graph-on-device has no effect with --sampler labor
2 train node @parts --graph-on-device --gpu-cache-bytes 1MB --isolated => --graph-on-device has no effect with --isolated
2 train node @parts --model gcn --isolated => --model gcn does not support --isolated | in-degrees
2 train link @parts --model embedding --isolated => --isolated has no effect on --model embedding
2 train node @parts --cache-ranking in-degree => --cache-ranking has no effect without a cache | --cache-bytes
2 train node @parts --cache-ratio 0.2 --look-ahead 4 => --look-ahead has no effect without --cache-ranking look-ahead
2 train link @parts --cache-ratio 0.2 --cache-ranking look-ahead --gpu-cache-bytes 1MB => --cache-ranking look-ahead has no effect with --gpu-cache-bytes
# Flags whose required flag conflicts with another one.
2 train graph --dataset fake-graphs --folds-dir {} --save-model f => --folds-dir | --folds <N>
2 train graph --dataset fake-graphs --folds 2 --resume => --checkpoint-dir <DIR>
2 train node @parts --load-model m --resume => --checkpoint-dir <DIR>
2 train node @parts --plan-nodes 2,8 --save-model p => required | --plan-cluster
2 train link @parts --exclude-positives --in-batch-negatives => required | --shared-negatives
2 train link @parts --shared-negatives --ranked-among 7 => --ranked-negatives <FIRST-LAST>
2 partition-graph --dataset-dir {} --num-partitions 2 --transforms {}/absent => required | --conf <FILE>
2 train predict @parts --load-model m --out p --verbose => --verbose
1 train predict @parts --load-model m --out p --nodes tran => --nodes tran: there is no such file (did you mean train?)
2 train node @parts --momentum 0.9 => --momentum | --optimizer sgd
2 train node @parts --class-weights 1,-2 => --class-weights | -2
1 train node @parts --class-weights 1,2 => --class-weights has 2 | 10 classes
2 train node @parts --class-weights even => --class-weights | balanced
2 train node @parts --label-smoothing 2 => --label-smoothing | above 1
2 train node @parts --accumulate-steps 0 => --accumulate-steps
2 train node @parts --no-such-flag => --no-such-flag
2 train node @parts --num-neighbours 5 => tip: did you mean --num-neighbors?
2 train node @parts --num-epochs three => "three" is not a whole number
2 train node @parts --nproc-per-node two => tip: give a whole number
1 train node @parts --node-embeddings nod=4 => nod, which does not exist (did you mean node?)
2 train node @parts --node-embeddings node=x:add => "node=x:add" has no number of values | TYPE=DIM:add
2 train node @parts --nproc-per-node 1000000 => --nproc-per-node | 1000000
2 train node @parts --device cuda:99 => --device
2 train node @parts --servers a:1 => --servers | --dataset-root-dir
2 train node --servers nonsense => --servers | nonsense
2 train node @parts --config {}/absent.yaml => absent.yaml
2 train node @parts --config {}/wrong.yaml => wrong.yaml, line 2:  | learnin | Usage: train node
2 train node --config {}/value.yaml => '--lr  | fast | tip: --lr is in  | value.yaml, line 3
1 train node @parts --class-weights 1,2 --nproc-per-node 3 => --class-weights has 2 | 10 classes
1 train node @truncated --nproc-per-node 2 => train.npy | truncated
1 train node @parts --save-model {}/absent/model => --save-model | absent/model
1 train node @parts --metrics {}/absent/metrics => --metrics | absent/metrics
1 train node @parts --tensorboard {}/file/events => --tensorboard | file/events
1 train node @parts --load-model {}/absent => absent | No such file
1 train node @parts --load-model {}/file => file
2 train node @parts --load-model {}/file --metrics {}/file => --metrics | the run reads this file
2 train node @parts --metrics {}/m.jsonl --report {}/empty/../m.jsonl => --report | it is the file of --metrics
1 train node @parts --load-model {}/wrong.yml => No such file | /wrong.yaml?)
1 train node @parts --token-file {}/open-secret => open-secret | chmod 600
1 train node @parts --metrics-port {PORT} => --metrics-port | port in use; choose another one
1 train node @parts --master-port {PORT} --num-nodes 2 --node-rank 0 => in use
# Data of train.
1 train node @absent => --dataset-root-dir | no folder | absent
1 train node @empty => empty | edge_index.npy
1 train node @truncated => train.npy | truncated
1 train node @not-a-number => x.npy | NaN
1 train node @out-of-range => edge_index.npy | 9
1 train node @no-split => no training nodes | --split-nodes 0.8,0.1,0.1
1 train graph --dataset fake-graphs --split 0,0.5,0.5 => no training graphs | share of the --split
1 train link @parts => --hold-out-edges
1 train sample @parts --num-neighbors 5 --out {}/file => file
1 train graph --dataset NO_SUCH @empty => NO_SUCH
# The other programs.
2 partition-graph --dataset cora => --num-partitions
2 partition-graph --dataset fake --num-partitions 0 => --num-partitions | 0
2 partition-graph --dataset a/b --num-partitions 2 => --dataset | --dataset-dir
1 partition-graph --dataset absent --num-partitions 2 --root-dir {} => absent
1 partition-graph verify {}/empty => empty | META.json
1 partition-graph verify {}/truncated => train.npy | truncated
1 sampling-server @absent --servers a:1 --server-rank 0 => absent
2 sampling-server @parts --servers a:1 --server-rank 1 => --server-rank
2 launch train node => --ip-config
2 launch --ip-config {}/absent train node => absent
2 launch --ip-config {}/wrong.yml train node => wrong.yml | /wrong.yaml?)
1 partition-graph --conf wrong.yml --dataset x --num-partitions 2 => wrong.yml | (did you mean wrong.yaml?)
2 launch --ip-config {}/wrong.yaml train node => wrong.yaml
"#;

/// Writes the files that the cases read.
fn write_inputs(root: &Path, parts: &Path) {
    let folder = |name: &str| {
        let path = root.join(name);
        std::fs::create_dir(&path).expect("a folder");
        path
    };
    folder("empty");
    std::os::unix::fs::symlink(parts, root.join("parts")).expect("a link");
    std::fs::write(root.join("file"), "not a model").expect("a file");
    std::fs::write(root.join("wrong.yaml"), "# ours\nlearnin_rate: 1\n").expect("a file");
    std::fs::write(root.join("value.yaml"), "dataset-root-dir: parts\n\nlr: fast\n").expect("a file");
    std::fs::write(root.join("open-secret"), "a secret of more than 16 bytes\n").expect("a file");
    std::fs::set_permissions(root.join("open-secret"), PermissionsExt::from_mode(0o644)).expect("a mode");
    let copied = Command::new("cp").arg("-r").arg(parts).arg(root.join("truncated")).status().expect("run cp");
    assert!(copied.success());
    std::fs::write(root.join("truncated/part_0/nodes/node/train.npy"), [0; 40]).expect("a damaged file");
    let dataset = |name: &str, feature: f32, node: i64, has_split: bool| {
        let path = folder(name);
        write_npy(&path.join("edge_index.npy"), &[2, 2], &[0_i64, node, 1, 2]).expect("edges");
        write_npy(&path.join("x.npy"), &[4, 1], &[feature, 1.0, 2.0, 3.0]).expect("features");
        write_npy(&path.join("y.npy"), &[4], &[0_i64, 1, 0, 1]).expect("labels");
        for (split, id) in [("train", 0_i64), ("valid", 1), ("test", 2)].into_iter().filter(|_| has_split) {
            write_npy(&path.join(format!("{split}.npy")), &[1], &[id]).expect("a split");
        }
    };
    dataset("not-a-number", f32::NAN, 1, true);
    dataset("out-of-range", 0.0, 9, true);
    dataset("no-split", 0.0, 1, false);
}

#[test]
fn wrong_inputs_end_with_one_error() {
    let parts = fake_parts(2);
    let root = tempfile::tempdir().expect("a folder");
    write_inputs(root.path(), &parts.path);
    let taken = TcpListener::bind(("0.0.0.0", 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let beside = |name: &str| PathBuf::from(TRAIN).with_file_name(name);
    let mut failures = String::new();
    for case in CASES.trim().lines().filter(|line| !line.starts_with('#')) {
        let (line, expected) = case.split_once(" => ").expect("an error");
        let (status, line) = line.split_once(' ').expect("a status");
        let (program, arguments) = line.split_once(' ').expect("a program with arguments");
        let path = beside(program);
        if !path.is_file() {
            skip(
                Need::Programs,
                "wrong_inputs_end_with_one_error",
                format!("the program {program} is not built: test the whole workspace"),
            );
            continue;
        }
        let arguments = arguments
            .replace('@', "--dataset-root-dir {}/")
            .replace("{PORT}", &port)
            .replace("{}", root.path().to_str().expect("UTF-8"));
        let mut command = Command::new(path);
        command.args(arguments.split_whitespace()).current_dir(root.path());
        unplace(&mut command);
        let output = end(Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null())));
        let said = stderr(&output);
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        // clap continues an error with the usage.
        let is_named = expected.split(" | ").all(|part| said.contains(part));
        let is_one = errors.len() == 1 && !said.contains("panicked") && output.stdout.is_empty();
        let repeats = said.matches("(os error").count() > 1;
        if output.status.code() != status.parse().ok() || !is_named || !is_one || repeats {
            let code = output.status.code();
            failures +=
                &format!("{program} {arguments}\n  status {code:?}, expected {status} and {expected}:\n{said}\n");
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The user `nobody` of most systems.
const NOBODY: u32 = 65_534;

fn change_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("another mode");
}

#[test]
fn missing_permissions_are_named_as_such() {
    const TEST: &str = "missing_permissions_are_named_as_such";
    // Another user may have no access to the folders of the build and of TMPDIR, so the program and the parts are copied.
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let root = folder.path();
    change_mode(root, 0o755);
    let train = root.join("train");
    copy_executable(Path::new(TRAIN), &train);
    let may_run = Command::new(&train).arg("--version").uid(NOBODY).gid(NOBODY).current_dir("/").output();
    if !may_run.is_ok_and(|output| output.status.success()) {
        return skip(Need::Root, TEST, "this process cannot start a program in /tmp as the user `nobody`");
    }
    let written = fake_parts(2);
    let parts = root.join("2-parts");
    let copied = Command::new("cp").arg("--recursive").arg(&written.path).arg(&parts).status().expect("run cp");
    assert!(copied.success(), "copy the parts");
    for (mode, name) in [(0o000, "no rights"), (0o644, "no right to search"), (0o311, "no right to list")] {
        change_mode(&parts, mode);
        for command in [&["node", "--num-neighbors", "5"][..], &["graph", "--dataset", "2-parts"]] {
            let mut process = Command::new(&train);
            let folder = if command[0] == "graph" { root } else { &parts };
            process.args(command).arg("--dataset-root-dir").arg(folder).uid(NOBODY).gid(NOBODY).current_dir("/");
            unplace(&mut process);
            // A folder without the right to list it has a META.json, which can be opened.
            let ends_well = mode == 0o311 && command[0] == "node";
            let output = Process::start(process.stdout(Stdio::piped()).stderr(Stdio::piped()));
            let said = stderr(&end(output));
            assert_eq!(said.contains("Permission denied"), !ends_well, "{name}, {command:?}: {said}");
            assert!(ends_well || !said.contains("is not a dataset"), "{name}, {command:?}: {said}");
        }
    }
    change_mode(&parts, 0o755);
}

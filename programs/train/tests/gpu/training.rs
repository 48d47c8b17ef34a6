//! Complete training runs on a GPU, started as users start them.

use edgecut_testing::{Need, assert_has, skip};
use std::process::{Command, Output};
use std::time::Duration;

use edgecut_gpu::{DeviceChoice, resolve};
use edgecut_graph::readers::FakeOptions;
use serde_json::Value;

use crate::programs::*;

/// The maximum duration of a run. It is long because a GPU that is emulated on the CPU is slow, and CI runs it at the lowest
/// priority.
const ENDS_WITHIN: Duration = Duration::from_secs(900);

/// Returns true if there is a GPU. Otherwise it prints that the test is skipped, or panics if `EDGECUT_REQUIRE` is set.
fn has_gpu() -> bool {
    match resolve(DeviceChoice::Cuda, 0, 1) {
        Ok(_) => true,
        Err(why) => {
            skip(Need::Cuda, "a test of the GPU", why);
            false
        }
    }
}

fn parts(num_parts: u32) -> Parts {
    let options = FakeOptions { avg_num_nodes: 400, num_channels: 16, num_classes: 4, ..FakeOptions::default() };
    fake_parts_of(&options, num_parts)
}

/// The program, with kernels that earlier runs of these tests compiled.
fn gpu_program() -> Command {
    let mut command = program();
    command.env("EDGECUT_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/gpu-cache"));
    command
}

fn train(subcommand: &str, device: &str, flags: &[&str]) -> Output {
    let mut command = gpu_program();
    command.args([subcommand, "--device", device, "--lr", "0.01", "--num-epochs", "2"]).args(flags);
    Process::start(&mut command).end_within(ENDS_WITHIN)
}

/// Trains and returns the losses of the epochs and the final result, both from the metrics file.
fn said(parts: Option<&Parts>, subcommand: &str, device: &str, flags: &[&str]) -> (Vec<f64>, Value) {
    let folder = Folder::new();
    let metrics = folder.join("metrics.jsonl");
    let mut all = vec!["--metrics", metrics.to_str().expect("a UTF-8 path")];
    if let Some(parts) = parts {
        all.extend(["--dataset-root-dir", parts.path.to_str().expect("a UTF-8 path")]);
    }
    all.extend(flags);
    let output = train(subcommand, device, &all);
    assert!(output.status.success(), "{flags:?} on {device}: {}", stderr(&output));
    if device == "cuda" {
        assert!(stderr(&output).contains("computes on cuda:"), "{}", stderr(&output));
    }
    let mut lines = metrics_lines(&metrics);
    let result = lines.pop().expect("a result");
    // Other events, such as the confusion matrix, have no loss.
    lines.retain(|line| line["event"] == "epoch");
    (lines.iter().map(|line| line["loss"].as_f64().expect("a loss")).collect(), result)
}

/// Fails unless the losses on the GPU equal those on the CPU up to the relative `tolerance`.
fn compare(parts: Option<&Parts>, subcommand: &str, flags: &[&str], on_gpu: &[&str], tolerance: f64) {
    let (expected, _) = said(parts, subcommand, "cpu", flags);
    let (found, _) = said(parts, subcommand, "cuda", &[flags, on_gpu].concat());
    assert_eq!(found.len(), expected.len(), "epochs");
    for (found, expected) in found.iter().zip(&expected) {
        let off = (found / expected - 1.0).abs();
        assert!(off < tolerance, "{subcommand} {flags:?} {on_gpu:?}: a loss of {found}, not {expected}");
    }
}

const SMALL: [&str; 6] = ["--num-neighbors", "5,3", "--hidden-channels", "16", "--batch-size", "128"];

#[test]
fn models_learn_as_on_the_cpu() {
    if !has_gpu() {
        return;
    }
    let parts = parts(1);
    for model in ["sage", "gcn", "gat", "gatv2"] {
        compare(Some(&parts), "node", &[&SMALL[..], &["--model", model]].concat(), &[], 2e-3);
    }
    compare(Some(&parts), "node", &[&SMALL[..], &["--aggregation", "max", "--dropout", "0"]].concat(), &[], 2e-3);
}

#[test]
fn a_graph_of_several_types_links_and_whole_graphs_too() {
    if !has_gpu() {
        return;
    }
    let typed = typed_parts(1);
    compare(Some(&typed), "node", &[&SMALL[..], &["--model", "rgcn"]].concat(), &[], 5e-3);
    let links = link_parts(1);
    compare(Some(&links), "link", &SMALL, &[], 5e-3);
    let graphs = ["--dataset", "fake-graphs", "--num-graphs", "100", "--hidden-channels", "16"];
    compare(None, "graph", &graphs, &[], 5e-3);
}

#[test]
fn the_graph_and_hot_features_in_device_memory_change_nothing() {
    if !has_gpu() {
        return;
    }
    // Each process needs its own GPU.
    let processes = if resolve(DeviceChoice::Cuda, 1, 2).is_ok() { 2 } else { 1 };
    let parts = parts(processes);
    let processes = processes.to_string();
    let two = [&SMALL[..], &["--nproc-per-node", &processes]].concat();
    let kept = ["--gpu-cache-bytes", "60KB", "--graph-on-device"];
    compare(Some(&parts), "node", &two, &kept, 2e-3);
    // All features fit into the cache, with reduced precision.
    let halves = ["--gpu-cache-bytes", "1MiB", "--feature-precision", "f16"];
    compare(Some(&parts), "node", &two, &halves, 1e-2);
    compare(Some(&parts), "node", &two, &["--mixed-precision", "f16"], 2e-2);
    compare(Some(&parts), "node", &two, &["--mixed-precision", "bf16", "--feature-precision", "bf16"], 5e-2);
}

#[test]
fn later_runs_find_the_kernels_of_earlier_ones() {
    if !has_gpu() {
        return;
    }
    let parts = parts(1);
    let cache = Folder::new();
    let folder = parts.path.to_str().expect("a UTF-8 path");
    let flags = ["--dataset-root-dir", folder, "--cache-dir", cache.path().to_str().expect("a UTF-8 path")];
    let run = || stderr(&succeeded(train("node", "cuda", &[&SMALL[..], &flags].concat())));
    let compiles = "the first steps compile kernels";
    assert_has(run(), &[compiles]);
    let second = run();
    assert!(!second.contains(compiles), "{second}");
}

#[test]
fn wrong_devices_are_refused_before_anything_is_started() {
    if !has_gpu() {
        return;
    }
    let parts = parts(1);
    let folder = parts.path.to_str().expect("a UTF-8 path");
    let refused = |device: &str, flags: &[&str]| {
        let output = train("node", device, &[&["--dataset-root-dir", folder], flags].concat());
        assert!(!output.status.success(), "{device} {flags:?}");
        error_of(&output)
    };
    assert_has(refused("cuda", &["--nproc-per-node", "64"]), &["this machine has"]);
    assert_has(refused("gpu", &[]), &["cuda:K"]);
    assert_has(refused("cuda", &["--graph-on-device"]), &["--gpu-cache-bytes"]);
    let error = refused("cuda", &["--graph-on-device", "--gpu-cache-bytes", "100"]);
    assert!(error.contains("none of the part's edges fit into the 100 bytes"), "{error}");
    assert_has(refused("cpu", &["--gpu-cache-bytes", "1GiB"]), &["--device is cpu"]);
}

/// Returns whether the GPU is emulated on the CPU. Only an emulated GPU can be set to have little memory or to be slow.
fn is_stand_in() -> bool {
    let stand_in = std::env::var_os("CUDA_ON_CPU_GPUS").is_some();
    if !stand_in {
        skip(Need::Cuda, "a test of a small GPU", "it needs the emulated GPU of scripts/cuda_on_cpu.sh");
    }
    stand_in
}

#[test]
fn a_gpu_that_fails_is_one_error_with_a_remedy() {
    if !has_gpu() || !is_stand_in() {
        return;
    }
    let parts = parts(1);
    let fails = |variable: &str, value: &str, expected: &[&str]| {
        let mut command = gpu_program();
        command.env_remove("RUST_BACKTRACE").env(variable, value);
        command.args(["node", "--device", "cuda", "--dataset-root-dir"]).arg(&parts.path).args(SMALL);
        let output = Process::start(&mut command).end_within(ENDS_WITHIN);
        assert!(!output.status.success());
        let said = stderr(&output);
        let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(errors.len() == 1 && expected.iter().all(|part| errors[0].contains(part)), "{said}");
        said
    };
    let said = fails("CUDA_ON_CPU_MEMORY", "200000", &["out of memory", "--batch-size"]);
    assert!(!said.contains("panicked"), "{said}");
    // CubeCL's thread may panic before the cause is read from it, so this output is not checked for panics.
    for launches in ["30", "300"] {
        fails("CUDA_ON_CPU_LAUNCHES", launches, &["the GPU failed: CUDA_ERROR_LAUNCH_FAILED"]);
    }
}

#[test]
fn late_copies_and_kernels_change_nothing() {
    if !has_gpu() || !is_stand_in() {
        return;
    }
    let parts = parts(1);
    let path = parts.path.to_str().expect("a UTF-8 path");
    let epochs = |delay: &str| {
        let folder = Folder::new();
        let metrics = folder.join("metrics.jsonl");
        let mut command = gpu_program();
        command.env("CUDA_ON_CPU_DELAY", delay);
        // Small batches, so that a batch is copied while kernels still read another one.
        command.args(["node", "--device", "cuda", "--num-neighbors", "5,3", "--batch-size", "16"]);
        command.args(["--hidden-channels", "16", "--num-epochs", "3", "--gpu-cache-bytes", "20KB"]);
        command.args(["--dataset-root-dir", path]).arg("--metrics").arg(&metrics);
        succeeded(Process::start(&mut command).end_within(ENDS_WITHIN));
        let lines = metrics_lines(&metrics).into_iter();
        let numbers = |line: Value| Some((line["loss"].as_f64()?, line["valid_acc"].as_f64()?));
        lines.filter_map(numbers).collect::<Vec<_>>()
    };
    let expected = epochs("0");
    assert_eq!(expected.len(), 3);
    // The results have the same bits, because they do not depend on the timing of streams.
    assert_eq!(epochs("1000"), expected);
}

//! Short runs of the comparison with other systems and of the other measuring scripts, on tiny graphs.

use edgecut_graph::readers::{FakeOptions, export_npy, fake};
use edgecut_testing::{Need, python_has, skip, write_executable};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the folder of the programs, if all of them are built. Otherwise reports that the test is skipped.
fn programs(names: &[&str], test: &str) -> Option<PathBuf> {
    let folder = Path::new(super::BENCH).parent().expect("the folder of bench").to_owned();
    if let Some(name) = names.iter().find(|name| !folder.join(name).exists()) {
        skip(Need::Programs, test, format!("{name} is not built: test the whole workspace"));
        return None;
    }
    Some(folder)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a script of the repository with Python.
fn run_script(script: &str, args: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new("python3");
    command.arg(repository().join(script)).args(args.iter().map(|arg| arg.as_ref()));
    command.output().expect("start python3")
}

fn succeeded(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}: {stdout}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    stdout
}

/// Fills a folder with the programs that the comparison runs. `train` prints a line of progress within an epoch, as it
/// does every ten seconds, which is not the end of the epoch.
fn talkative_programs(folder: &Path, built: &Path) {
    for name in ["bench", "partition-graph"] {
        std::os::unix::fs::symlink(built.join(name), folder.join(name)).expect("a link");
    }
    let train = built.join("train");
    let script = format!(
        "#!/bin/sh\necho 'epoch 1/2, step 1/2: loss 2.0, 100 seeds/s, waiting 1 %, 1 s left in this epoch' >&2\n\
         exec '{}' \"$@\"\n",
        train.display()
    );
    write_executable(&folder.join("train"), script.as_bytes());
}

/// Returns whether this process may make network namespaces.
fn has_namespaces() -> bool {
    // Tests of this process ask at the same time.
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let namespace = format!("peers{}x{}", std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    ["add", "delete"].into_iter().all(|verb| {
        let output = Command::new("ip").args(["netns", verb, &namespace]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// Returns the folder of the programs that scripts run in network namespaces. Otherwise reports that the test is skipped.
fn programs_for_namespaces(test: &str) -> Option<PathBuf> {
    let built = programs(&["train", "partition-graph"], test)?;
    if !python_has(Command::new("python3"), "json", test) {
        return None;
    }
    if !has_namespaces() {
        skip(Need::Namespaces, test, "`ip netns add` fails");
        return None;
    }
    Some(built)
}

/// Returns the runs of a contestant that took this time.
fn runs_of(seconds: f64) -> Value {
    json!([{ "figures": { "seconds": seconds } }])
}

/// Writes the table of speeds into a README from results.
fn write_table(results: &Value, readme: &Path) -> Output {
    let file = readme.with_file_name("filled.json");
    std::fs::write(&file, results.to_string()).expect("write the results");
    run_script("benches/peers/write_readme.py", &[&file, &"--readme", &readme])
}

#[test]
fn the_comparison_runs_with_the_rivals_that_are_installed_and_writes_the_table() {
    const TEST: &str = "the_comparison_runs_with_the_rivals_that_are_installed_and_writes_the_table";
    const PATHS: &str =
        "sampling-2,gather-2,step-2,epoch-2,ranks-gather,ranks-train,ranks-accuracy,all-reduce-4096,partition-2";
    let Some(built) = programs_for_namespaces(TEST) else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let bin = dir.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    talkative_programs(&bin, &built);
    let data = dir.path().join("data");
    let graph = fake(&FakeOptions { avg_num_nodes: 400, num_channels: 12, ..FakeOptions::default() });
    export_npy(&graph.expect("a graph"), &data).expect("write the graph");
    let work = dir.path().join("work");
    let flags = ["--rounds=1", "--passes=1", "--patience=0", "--num-batches=2", "--batch-size=32", "--array-mib=8"];
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&"--bin", &bin, &"--work", &work, &"--data", &data, &"--only", &PATHS];
    args.extend(flags.iter().map(|flag| flag as &dyn AsRef<OsStr>));
    let output = run_script("benches/peers/compare.py", &args);
    let printed = succeeded(&output);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("without dgl, distdgl, graphbolt: "), "missing rivals are named: {stderr}");
    assert!(!Need::Torch.is_required() || !stderr.contains("without gloo"), "PyTorch is here: {stderr}");
    let text = std::fs::read_to_string(work.join("results.json")).expect("the results");
    let mut results: Value = serde_json::from_str(&text).expect("the results are JSON");
    for path in PATHS.split(',') {
        assert!(printed.contains(&format!("| {path} |")), "{path} in {printed}");
    }
    for path in results["paths"].as_array().expect("a list of paths") {
        assert!(path["runs"]["edgecut"][0]["figures"]["seconds"].as_f64() > Some(0.0), "{path}");
    }

    // The table of the README needs the rival, which is not installed here.
    let readme = dir.path().join("README.md");
    std::fs::copy(repository().join("README.md"), &readme).expect("copy the README");
    let refused = write_table(&results, &readme);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("no successful runs"));
    let paths = results["paths"].as_array_mut().expect("a list of paths");
    for path in paths {
        if path["path"] == "ranks-train" {
            path["runs"] = json!({
                "distdgl": [{ "figures": { "seconds": 1.25, "cpu_s": 1.2, "received_mb": 44.7, "peak_rss_mb": 3226 } }],
                "edgecut": [{ "figures": { "seconds": 0.5, "cpu_s": 0.4, "received_mb": 39.2, "peak_rss_mb": 1314 } }],
            });
        } else if path["path"].as_str().is_some_and(|name| name.starts_with("ranks-accuracy")) {
            let fewer = runs_of(20.0);
            path["runs"] =
                json!({ "distdgl": runs_of(100.0), "edgecut": runs_of(50.0), "edgecut, labor and bf16": fewer });
        }
    }
    succeeded(&write_table(&results, &readme));
    let written = std::fs::read_to_string(&readme).expect("the README");
    for row in [
        "of the validation nodes, fastest setting | 100 s | 20.0 s | 5.0 |",
        "| time per batch | 1250 ms | 500 ms | 2.5 |",
    ] {
        assert!(written.contains(row), "{written}");
    }
    succeeded(&write_table(&results, &readme));
    assert_eq!(std::fs::read_to_string(&readme).expect("the README"), written, "written twice");
}

#[test]
fn updates_are_measured_beside_partitioning_again() {
    const TEST: &str = "updates_are_measured_beside_partitioning_again";
    let Some(built) = programs(&["train", "partition-graph"], TEST) else { return };
    if !python_has(Command::new("python3"), "numpy, pyarrow.parquet", TEST) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let work = dir.path().join("work");
    let flags = ["--users=400", "--items=300", "--purchases=3000", "--days=2", "--train-days=1", "--epochs=1"];
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&work, &"--bin", &built];
    args.extend(flags.iter().map(|flag| flag as &dyn AsRef<OsStr>));
    let printed = succeeded(&run_script("benches/updates.py", &args));
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), 3);
    for line in &lines[1..] {
        assert!(line["update"]["table_bytes"].as_u64() < line["again"]["table_bytes"].as_u64(), "{line}");
        assert!(line["update"]["cut_fraction"].is_number() && line["again"]["cut_fraction"].is_number(), "{line}");
    }
    assert!(lines[1]["warm"]["seconds"].is_number(), "{}", lines[1]);
}

/// Runs a script of `python/benches` in a temporary folder, and returns the lines that it prints.
fn planted(script: &str, test: &str, flags: &[&str]) -> Option<Vec<String>> {
    let built = programs(&["train", "partition-graph"], test)?;
    if !python_has(Command::new("python3"), "numpy", test) {
        return None;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = dir.path().join("work");
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&folder, &"--bin", &built];
    args.extend(flags.iter().map(|flag| flag as &dyn AsRef<OsStr>));
    Some(succeeded(&run_script(script, &args)).lines().map(str::to_owned).collect())
}

#[test]
fn the_recommender_is_measured() {
    let flags = ["--num-users=200", "--num-items=100", "--num-purchases=10", "--epochs=1"];
    let Some(lines) = planted("python/benches/recommender.py", "the_recommender_is_measured", &flags) else { return };
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    assert_eq!(names, ["probabilities", "most popular", "edgecut", "edgecut's most popular"]);
}

#[test]
fn the_scoring_of_transactions_is_measured() {
    let flags = ["--num-accounts=200", "--num-transactions=2000", "--epochs=1", "--models", "gine", "sage"];
    let Some(lines) = planted("python/benches/transactions.py", "the_scoring_of_transactions_is_measured", &flags)
    else {
        return;
    };
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("edgecut gine ") && lines[1].starts_with("edgecut sage "), "{lines:?}");
}

fn number_at(results: &Value, pointer: &str) -> f64 {
    results.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {pointer} in {results}"))
}

#[test]
fn plans_of_clusters_are_compared_with_trainings_on_limited_links() {
    const TEST: &str = "plans_of_clusters_are_compared_with_trainings_on_limited_links";
    let Some(built) = programs_for_namespaces(TEST) else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let work = dir.path().join("work");
    // The second link is a switch of the script, which delays frames.
    let flags = ["--ranks=2,3", "--links=50mbit,50mbit:500", "--cores=0.3", "--epochs=2", "--plan-steps=3"];
    let sizes = ["--num-nodes=3000", "--avg-degree=8", "--train-flags=--num-neighbors 5,5 --batch-size 256"];
    let mut args: Vec<&dyn AsRef<OsStr>> = vec![&work, &"--bin", &built];
    args.extend(flags.iter().chain(&sizes).map(|flag| flag as &dyn AsRef<OsStr>));
    let printed = succeeded(&run_script("benches/scaling.py", &args));
    assert_eq!(printed.lines().filter(|line| line.starts_with("| 50mbit")).count(), 4, "{printed}");
    let text = std::fs::read_to_string(work.join("results.json")).expect("the results");
    let results: Value = serde_json::from_str(&text).expect("the results are JSON");
    let runs = results["runs"].as_array().expect("a list of runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        let predicted = number_at(run, "/predicted/remote_rows") * number_at(run, "/predicted/epoch_steps");
        // Times depend on the load of this machine, but the batches do not.
        let ratio = predicted / number_at(run, "/measured/remote_rows");
        assert!((0.8..1.25).contains(&ratio), "{run}");
        assert!(
            number_at(run, "/measured/epoch_seconds") > 0.0 && number_at(run, "/predicted/epoch_seconds") > 0.0,
            "{run}"
        );
    }
}

#[test]
fn the_start_of_a_job_is_measured() {
    const TEST: &str = "the_start_of_a_job_is_measured";
    let Some(built) = programs(&["train", "partition-graph", "launch"], TEST) else { return };
    if !python_has(Command::new("python3"), "json", TEST) {
        return;
    }
    if !Path::new("/usr/sbin/sshd").exists() {
        return skip(Need::Namespaces, TEST, "/usr/sbin/sshd is missing: install openssh-server");
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let work = dir.path().join("work");
    let args: [&dyn AsRef<OsStr>; 6] = [&work, &"--bin", &built, &"--ranks=4", &"--rounds=1", &"--num-nodes=1000"];
    let printed = succeeded(&run_script("benches/start.py", &args));
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert_eq!([&lines[0]["command"], &lines[1]["command"]], ["train", "launch"], "{printed}");
    for line in &lines {
        let [connected, first] = ["connected_s", "first_step_s"].map(|stage| line[stage].as_f64().expect("seconds"));
        assert!(0.0 < connected && connected <= first, "{line}");
    }
}

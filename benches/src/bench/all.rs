//! All benchmarks that the given data permits. Each runs in its own process, so that it does not inherit another's
//! memory.

use crate::args::{AllArgs, Common};
use crate::measure::child_program;
use crate::measure::report::Report;
use anyhow::{Context, bail, ensure};
use edgecut_cli::{message, result};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

pub(crate) fn run(args: &AllArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let mut failed = Vec::new();
    for benchmark in benchmarks(args) {
        result!("\n# bench {}", benchmark.join(" "))?;
        let json = folder.path().join("records.json");
        match run_one(&benchmark, &json, common) {
            Ok(records) => report.extend(records),
            // A failed benchmark does not prevent the others from running.
            Err(error) => {
                message!("error: {}: {error:#}", benchmark[0]);
                failed.push(benchmark[0].clone());
            }
        }
    }
    if !failed.is_empty() {
        bail!("these benchmarks failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Returns the command lines of the benchmarks, cheap ones first.
fn benchmarks(args: &AllArgs) -> Vec<Vec<String>> {
    let line = |words: &[&str], data: &[Option<&Path>]| {
        let mut line: Vec<String> = words.iter().map(|&word| word.into()).collect();
        line.extend(data.iter().flatten().map(|dir| format!("--data={}", dir.display())));
        line
    };
    let one = args.data.as_deref();
    let two = args.data_2.as_deref();
    let [neighbors, size, batches] = [
        format!("--num-neighbors={}", args.draw.num_neighbors.text()),
        format!("--batch-size={}", args.draw.batch_size),
        format!("--batches={}", args.draw.batches),
    ];
    let draw: [&str; 3] = [&neighbors, &size, &batches];
    let drawn = |name: &str| line(&[&[name], &draw[..]].concat(), &[one]);
    let mut lines =
        vec![line(&["limits"], &[]), line(&["linear"], &[]), line(&["graphs"], &[]), line(&["tables"], &[])];
    lines.push(drawn("aggregation"));
    lines.extend([line(&["rpc"], &[two]), line(&["all-reduce"], &[]), line(&["protection"], &[two])]);
    if one.is_some() {
        lines.extend(["startup", "sampling", "gather", "step"].map(drawn));
    }
    if one.or(two).is_some() {
        match child_program::find(None, "train", "edgecut-trainer", "--train-bin of `bench epoch`") {
            Ok(_) => lines.push(line(&["epoch", &neighbors, &size], &[one, two])),
            Err(error) => message!("skipping epoch: {error:#}"),
        }
    }
    lines.extend(args.npy.as_deref().map(|dir| line(&["partition"], &[Some(dir)])));
    lines.extend(args.ogb.as_deref().map(|dir| line(&["csv"], &[Some(dir)])));
    lines
}

fn run_one(benchmark: &[String], json: &Path, common: &Common) -> anyhow::Result<Vec<Value>> {
    let program = std::env::current_exe().context("find this program's file")?;
    let mut command = Command::new(program);
    let status = command.args(benchmark).args(common.as_args()).arg("--json").arg(json).status();
    let status = status.context("start this program again")?;
    ensure!(status.success(), "the benchmark ended with {status}");
    let text = std::fs::read(json).with_context(|| format!("read {}", json.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read {}", json.display()))
}

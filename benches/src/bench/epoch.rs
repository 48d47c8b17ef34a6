//! Epochs of the program `train`, run as by a user.

use crate::args::{Common, EpochArgs};
use crate::measure::child_program::{self, Finished};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Timing, median};
use anyhow::{Context, ensure};
use edgecut_graph::Meta;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Variables to remove from the environment of `train`: they would make it join a launcher's job or change its threads.
const PLACES: [&str; 6] = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "MATMUL_NUM_THREADS"];

pub(crate) fn run(args: &EpochArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let program = child_program::find(args.train_bin.as_deref(), "train", "edgecut-trainer", "--train-bin")?;
    let mut first: Option<Record> = None;
    for dir in &args.data {
        let mut record = train(&program, dir, args, common)?;
        match &first {
            Some(first) if first.params["dataset"] == record.params["dataset"] => {
                record = record.against(first.throughput, first.name.clone());
            }
            _ => first = Some(record.clone()),
        }
        report.add(&record)?;
    }
    Ok(())
}

fn train(program: &Path, dir: &Path, args: &EpochArgs, common: &Common) -> anyhow::Result<Record> {
    let meta = Meta::read(dir)?;
    let ranks = meta.num_parts as usize;
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let metrics = folder.path().join("metrics.jsonl");
    let threads = (common.threads() / ranks).max(1);
    let mut command = Command::new(program);
    command.arg("node").arg("--dataset-root-dir").arg(dir).arg("--metrics").arg(&metrics).arg("--json").args([
        format!("--nproc-per-node={ranks}"),
        format!("--num-neighbors={}", args.num_neighbors.text()),
        format!("--batch-size={}", args.batch_size),
        format!("--hidden-channels={}", args.hidden),
        format!("--num-epochs={}", args.num_epochs),
        // Validation is not measured, so it runs only once, at the end.
        format!("--eval-every={}", args.num_epochs),
        format!("--num-workers={threads}"),
        format!("--num-threads={threads}"),
    ]);
    for name in PLACES {
        command.env_remove(name);
    }
    let finished = child_program::run(&mut command)?;
    let epochs = epochs(&metrics)?;
    Ok(record(&meta, args, threads, &epochs, &finished))
}

/// Returns the epochs in a metrics file.
fn epochs(metrics: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(metrics).with_context(|| format!("read {}", metrics.display()))?;
    let lines: Vec<Value> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("read the metrics of train")?;
    let epochs: Vec<Value> = lines.into_iter().filter(|line| line["event"] == "epoch").collect();
    ensure!(!epochs.is_empty(), "train wrote no epoch to its metrics");
    Ok(epochs)
}

fn record(meta: &Meta, args: &EpochArgs, threads: usize, epochs: &[Value], finished: &Finished) -> Record {
    let field = |name: &str| epochs.iter().filter_map(|epoch| epoch[name].as_f64()).collect::<Vec<_>>();
    let ranks = meta.num_parts as usize;
    let seeds: u64 = meta.report.parts.iter().map(|part| part.train_nodes).sum();
    // All ranks take as many steps as the rank with the most seeds.
    let largest = meta.report.parts.iter().map(|part| part.train_nodes).max().unwrap_or(0);
    let steps = largest.div_ceil(u64::from(args.batch_size)).max(1);
    // The CPU time includes the start of the run and the evaluation, so the CPU time of the whole run is reported too.
    let cpu_s = finished.cpu.as_secs_f64() / epochs.len() as f64;
    let timing = Timing::of(&field("seconds"), &[cpu_s]);
    let largest_of = |of: fn(&crate::measure::process_memory::ProcessMemory) -> u64| {
        finished.memory.iter().map(of).max().unwrap_or(0) as f64 / 1e6
    };
    let name = format!("train node, {ranks} rank{}", if ranks == 1 { "" } else { "s" });
    let work = format!("epoch of {steps} steps, {}", args.num_neighbors.text());
    let record = Record::new("epoch", name, work, timing, seeds as f64, "seeds/s")
        .param("dataset", meta.dataset.clone())
        .param("ranks", ranks)
        .param("threads_per_rank", threads)
        .param("batch_size", args.batch_size)
        .param("num_neighbors", args.num_neighbors.text())
        .param("hidden_channels", args.hidden)
        .detail("wait_s", median(&field("sample_wait_seconds")))
        .detail("compute_s", median(&field("compute_seconds")))
        .detail("allreduce_s", median(&field("allreduce_seconds")))
        .detail("bytes_per_batch_and_rank", median(&field("remote_bytes")) / (steps as f64 * ranks as f64))
        .detail("wall_s_of_run", finished.wall.as_secs_f64())
        .detail("cpu_s_of_run", finished.cpu.as_secs_f64())
        .detail("peak_anonymous_mb", largest_of(|memory| memory.anonymous_bytes))
        .detail("peak_file_mb", largest_of(|memory| memory.file_bytes));
    Record { peak_rss_mb: Some(largest_of(|memory| memory.peak_bytes)), ..record }
}

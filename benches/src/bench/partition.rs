//! The program `partition-graph`, run as by a user.

use crate::args::{Common, PartitionArgs};
use crate::measure::child_program;
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use anyhow::Context;
use edgecut_graph::is_folder_name;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

pub(crate) fn run(args: &PartitionArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let given = args.partition_bin.as_deref();
    let program = child_program::find(given, "partition-graph", "edgecut-partition", "--partition-bin")?;
    for method in &args.method {
        for &num_parts in &args.num_parts {
            report.add(&partition(&program, &args.data, method, num_parts, common)?)?;
        }
    }
    Ok(())
}

fn partition(program: &Path, data: &Path, method: &str, num_parts: u32, common: &Common) -> anyhow::Result<Record> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    let name = data.file_name().and_then(|name| name.to_str()).filter(|name| is_folder_name(name)).unwrap_or("graph");
    let mut output = Value::Null;
    let mut timing = Timing::measure_cold(common.long_reps(), |stopwatch| {
        let mut command = Command::new(program);
        command
            .args(["--dataset", name, "--method", method, "--json", "--overwrite"])
            .arg(format!("--num-partitions={num_parts}"))
            .arg("--dataset-dir")
            .arg(data)
            .arg("--output-dir")
            .arg(folder.path().join(format!("{num_parts}-parts")));
        let finished = child_program::run(&mut command)?;
        stopwatch.add(finished.wall, finished.cpu);
        output = serde_json::from_str(&finished.stdout).context("read the report of partition-graph")?;
        Ok(())
    })?;
    // The peak of `partition-graph`, not of this process.
    timing.peak_rss_bytes = output["peak_memory_bytes"].as_u64();
    let parts = output["report"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sum = |field: &str| parts.iter().filter_map(|part| part[field].as_u64()).sum::<u64>();
    let nodes = sum("nodes");
    let edges = sum("edges");
    let work = format!("{nodes} nodes, {edges} edges, {num_parts} parts");
    let mut record = Record::new("partition", method, work, timing, edges as f64, "edges/s")
        .param("dataset", name)
        .param("method", method)
        .param("num_parts", num_parts)
        .detail("cut_fraction", output["report"]["cut_fraction"].clone());
    for (phase, seconds) in output["seconds"].as_object().into_iter().flatten() {
        record = record.detail(&format!("{phase}_s"), seconds.clone());
    }
    Ok(record)
}

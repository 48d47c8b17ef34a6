//! Reading of tables whose ids are texts, compared with random reads of memory.

use crate::args::{Common, TablesArgs};
use crate::limits::{Pages, RandomReads};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use anyhow::Context;
use edgecut_graph::rng::CounterRng;
use edgecut_tables::{TableOptions, read_tables};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The number of files of edges, which are read in parallel.
const FILES: u64 = 4;
/// The random reads of a lookup: control bytes and a slot of the hash table, the end of a text, and the text.
const READS_PER_ID: f64 = 4.0;
const CONF: &str = r#"{"nodes": [{"node_type": "n", "files": "nodes.csv", "node_id_col": "id"}], "edges": [{"relation":
    ["n", "to", "n"], "files": "edges-*.csv", "source_id_col": "src", "dest_id_col": "dst"}]}"#;

pub(crate) fn run(args: &TablesArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("make a temporary folder")?;
    write(folder.path(), args).context("write the tables")?;
    let conf = folder.path().join("graph.json");
    let timing = Timing::measure(common.long_reps(), |stopwatch| {
        stopwatch.time(|| read_tables(&conf, "bench", &TableOptions::default()))?;
        Ok(())
    })?;
    let reads = RandomReads::new(common.array_bytes(), Pages::Small)?.measure(common.threads(), common.reps())?;
    let work = format!("{} nodes, {} edges", args.nodes, args.edges);
    let limit = reads.rate() / (2.0 * READS_PER_ID);
    let record = Record::new("tables", "read_tables", work, timing, f64::from(args.edges), "edges/s");
    report.add(&record.against(limit, format!("{READS_PER_ID} reads per id: {}", reads.name)))
}

/// Writes the tables and their configuration.
fn write(folder: &Path, args: &TablesArgs) -> anyhow::Result<()> {
    std::fs::write(folder.join("graph.json"), CONF)?;
    let mut nodes = BufWriter::new(File::create(folder.join("nodes.csv"))?);
    writeln!(nodes, "id")?;
    for node in 0..args.nodes {
        writeln!(nodes, "user-{node:09}")?;
    }
    nodes.flush()?;
    let mut rng = CounterRng::new(1);
    let num_nodes = u64::from(args.nodes);
    for number in 0..FILES {
        let mut edges = BufWriter::new(File::create(folder.join(format!("edges-{number}.csv")))?);
        writeln!(edges, "src,dst")?;
        let num_edges = u64::from(args.edges);
        for _ in num_edges * number / FILES..num_edges * (number + 1) / FILES {
            let [src, dst] = [rng.below(num_nodes), rng.below(num_nodes)];
            writeln!(edges, "user-{src:09},user-{dst:09}")?;
        }
        edges.flush()?;
    }
    Ok(())
}

//! The results on standard output.

use anyhow::Context;
use edgecut_cli::counted;
use edgecut_graph::{EdgeTypeMeta, HotnessRule, Meta, NodeTypeMeta, OverlapPolicy, Provenance, Report, TimeUnit};
use edgecut_partition::Balances;
use edgecut_tables::DroppedRows;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// The standard output, reserved for results. METIS prints to file descriptor 1 when it meets something unusual, which
/// would corrupt JSON, so that descriptor becomes a copy of standard error.
pub(crate) struct Results(File);

impl Results {
    /// Takes standard output for results, and redirects file descriptor 1 to standard error.
    pub(crate) fn capture() -> anyhow::Result<Self> {
        let copy = std::io::stdout().as_fd().try_clone_to_owned().context("copy standard output")?;
        rustix::stdio::dup2_stdout(std::io::stderr()).context("redirect standard output")?;
        Ok(Self(copy.into()))
    }

    /// Prints text.
    pub(crate) fn text(mut self, text: &str) -> anyhow::Result<()> {
        match self.0.write_all(text.as_bytes()) {
            // A reader that closed the pipe does not want the rest.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("print the result"),
            _ => Ok(()),
        }
    }

    /// Prints a value as JSON.
    pub(crate) fn json(self, value: &impl Serialize) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(value).context("write JSON")?;
        self.text(&format!("{text}\n"))
    }
}

/// A partitioned graph in the form that is printed.
#[derive(Serialize)]
pub(crate) struct Described<'a> {
    path: &'a Path,
    dataset: &'a str,
    num_parts: u32,
    fingerprint: String,
    provenance: &'a Provenance,
    node_types: &'a [NodeTypeMeta],
    edge_types: &'a [EdgeTypeMeta],
    #[serde(skip_serializing_if = "Option::is_none")]
    time_unit: Option<TimeUnit>,
    report: &'a Report,
    balance: Balances,
    bytes: u64,
    #[serde(flatten)]
    run: Option<Run>,
}

/// The time and memory of a run.
#[derive(Serialize)]
pub(crate) struct Run {
    /// Seconds per phase.
    pub(crate) seconds: BTreeMap<&'static str, f64>,
    /// The largest resident set size, if the system reports it.
    pub(crate) peak_memory_bytes: Option<u64>,
    /// The largest anonymous memory, which excludes mapped files, if the system reports it.
    pub(crate) peak_anonymous_bytes: Option<u64>,
    /// The rows of tables that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) dropped_rows: Vec<DroppedRows>,
}

impl<'a> Described<'a> {
    pub(crate) fn new(path: &'a Path, meta: &'a Meta, run: Option<Run>) -> Self {
        Self {
            path,
            dataset: &meta.dataset,
            num_parts: meta.num_parts,
            fingerprint: meta.fingerprint(),
            provenance: &meta.provenance,
            node_types: &meta.node_types,
            edge_types: &meta.edge_types,
            time_unit: meta.time_unit,
            report: &meta.report,
            balance: Balances::new(&meta.report),
            bytes: meta.files.values().map(|file| file.bytes).sum(),
            run,
        }
    }

    /// Formats a line per part, the balance factors (largest over mean), and the cut.
    pub(crate) fn table(&self) -> String {
        let made = self.provenance;
        let recursive = if made.recursive { " --recursive" } else { "" };
        let method = match made.method.as_str() {
            "given" => "an assignment that was given".to_owned(),
            method => format!("{method}{recursive}, seed {}, balance {}", made.seed, made.balance.join(",")),
        };
        let mut text = format!("{} in {} by {method}\n", self.dataset, counted(self.num_parts, "part", "parts"));
        let mut line = |cells: [String; 5]| {
            let [part, nodes, edges, train, halo] = cells;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{part:<8}{nodes:>13}{edges:>15}{train:>13}{halo:>13}");
        };
        line(["part", "nodes", "edges", "train nodes", "halo nodes"].map(String::from));
        for (part, p) in self.report.parts.iter().enumerate() {
            line([part as u64, p.nodes, p.edges, p.train_nodes, p.halo_nodes].map(|n| n.to_string()));
        }
        let b = self.balance;
        let factors = [b.nodes, b.edges, b.train_nodes, b.halo_nodes].map(|f| format!("{f:.3}"));
        let [nodes, edges, train, halo] = factors;
        line(["max/mean".into(), nodes, edges, train, halo]);
        let _ = writeln!(
            text,
            "cut edges {} ({:.2} %), remote neighbor share {:.2} %",
            self.report.cut_edges,
            self.report.cut_fraction * 100.0,
            self.report.remote_neighbor_fraction * 100.0
        );
        match &self.provenance.hotness {
            None => {}
            Some(HotnessRule::InDegree) => text.push_str("nodes of other parts ranked by in-degree\n"),
            Some(HotnessRule::Presample { num_neighbors, batch_size }) => {
                let fan_outs: Vec<String> = num_neighbors.iter().map(i64::to_string).collect();
                let _ = writeln!(
                    text,
                    "nodes of other parts ranked for {} neighbors and batches of {batch_size}",
                    fan_outs.join(",")
                );
            }
        }
        if let Some(unit) = self.time_unit {
            let _ = writeln!(text, "times are {unit}");
        }
        if self.provenance.overlap == OverlapPolicy::Allow {
            let _ = writeln!(text, "overlaps of splits are allowed; `partition-graph verify` counts them");
        }
        text
    }
}

/// Returns the process's largest resident set size so far.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

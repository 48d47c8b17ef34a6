//! Faults of partition-graph.

use crate::Rounds;
use crate::moments::{Moments, case_of_round};
use crate::programs::{Process, program, run as run_command, wait_until};
use crate::serving::FAULTS;
use crate::table::{Outcome, Table};
use anyhow::{Context, ensure};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The limit of a run.
const ENDS_WITHIN: Duration = Duration::from_secs(120);

/// A job of partition-graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// A generated graph in memory.
    Generated,
    /// A generated graph in scratch files.
    Limited,
    /// Tables in memory.
    Tables,
    /// Tables in scratch files.
    LimitedTables,
    /// The features of one part from tables.
    Features,
}

const JOBS: [(&str, Job); 5] = [
    ("partition-graph without a limit of memory", Job::Generated),
    ("partition-graph with a limit of memory", Job::Limited),
    ("partition-graph on tables", Job::Tables),
    ("partition-graph on tables with a limit of memory", Job::LimitedTables),
    ("partition-graph features", Job::Features),
];

const NUM_PARTS: usize = 3;

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let dir = tempfile::tempdir().context("make a temporary folder")?;
    let site = Site { root: dir.path().to_owned() };
    site.write_tables()?;
    run_command(site.partition("deferred", true)?.arg("--defer-features"))?;
    for part in 0..NUM_PARTS {
        run_command(&mut site.features(part)?)?;
    }
    let mut within = [Duration::ZERO; JOBS.len()];
    for (within, (_, job)) in within.iter_mut().zip(JOBS) {
        let start = Instant::now();
        run_command(&mut site.command(job)?)?;
        *within = start.elapsed();
    }
    let mut cases = Vec::new();
    for fault in FAULTS {
        cases.extend(JOBS.into_iter().zip(within).map(|(job, within)| (fault, job, within)));
    }
    let mut table = Table::default();
    for number in rounds.numbers() {
        let ((fault, signal), (name, job), within) = case_of_round(&cases, rounds.seed, number);
        let moment = Moments::of_round(rounds.seed, number).before(within);
        let what = format!("{name} {fault} after {:.3} of {:.3} s", moment.as_secs_f64(), within.as_secs_f64());
        table.note(number, &what, &format!("{name} is {fault}"), site.round(job, signal, moment));
    }
    Ok(table)
}

/// The folder of the tables, the parts and the scratch files.
struct Site {
    root: PathBuf,
}

impl Site {
    fn write_tables(&self) -> anyhow::Result<()> {
        let num_nodes = 30_000_u64;
        let mut nodes = "id,a,b,c,d\n".to_owned();
        for node in 0..num_nodes {
            writeln!(nodes, "user/{node},{node},{}.5,-{node}e-3,0.{node}", node % 100)?;
        }
        let mut edges = "from,to\n".to_owned();
        for edge in 0..300_000 {
            writeln!(edges, "user/{},user/{}", edge * 7919 % num_nodes, edge * 104_729 % num_nodes)?;
        }
        let conf = r#"{"nodes": [{"node_type": "user", "node_id_col": "id", "files": "nodes.csv", "features": [
            {"feature_col": ["a", "b", "c", "d"], "feature_name": "x", "transform": {"name": "max_min_norm"}}]}],
            "edges": [{"relation": ["user", "knows", "user"], "files": "edges.csv", "source_id_col": "from",
            "dest_id_col": "to"}]}"#;
        for (name, text) in [("nodes.csv", nodes.as_str()), ("edges.csv", edges.as_str()), ("graph.json", conf)] {
            std::fs::write(self.root.join(name), text).with_context(|| format!("write {name}"))?;
        }
        Ok(())
    }

    /// Returns the folder of the parts of a job.
    fn parts(&self, job: Job) -> PathBuf {
        let name = match job {
            Job::Generated | Job::Limited => "fake",
            Job::Tables | Job::LimitedTables => "tables",
            Job::Features => "deferred",
        };
        self.root.join("partitions").join(name).join(format!("{NUM_PARTS}-parts"))
    }

    fn partition(&self, dataset: &str, is_table: bool) -> anyhow::Result<Command> {
        let mut command = Command::new(program("partition-graph")?);
        command.args(["--dataset", dataset, "--num-partitions", &NUM_PARTS.to_string(), "--overwrite", "--root-dir"]);
        command.arg(&self.root);
        if is_table {
            command.arg("--conf").arg(self.root.join("graph.json"));
        }
        Ok(command)
    }

    fn features(&self, part: usize) -> anyhow::Result<Command> {
        let mut command = Command::new(program("partition-graph")?);
        command
            .arg("features")
            .arg("--dataset-root-dir")
            .arg(self.parts(Job::Features))
            .arg("--conf")
            .arg(self.root.join("graph.json"));
        command.args(["--part", &part.to_string()]);
        Ok(command)
    }

    fn command(&self, job: Job) -> anyhow::Result<Command> {
        let mut command = match job {
            Job::Features => return self.features(0),
            Job::Generated | Job::Limited => {
                let mut command = self.partition("fake", false)?;
                command.args(["--avg-num-nodes", "30000", "--num-channels", "64", "--hotness", "in-degree"]);
                command
            }
            Job::Tables | Job::LimitedTables => self.partition("tables", true)?,
        };
        if matches!(job, Job::Limited | Job::LimitedTables) {
            command.args(["--memory-limit", "256MiB", "--scratch-dir"]).arg(self.root.join("scratch"));
        }
        Ok(command)
    }

    /// Removes the result of a job.
    #[expect(clippy::disallowed_methods, reason = "the parts are in the temporary folder of the campaign")]
    fn remove(&self, job: Job) -> anyhow::Result<()> {
        let parts = self.parts(job);
        if job != Job::Features {
            return if parts.exists() { std::fs::remove_dir_all(&parts).context("remove the parts") } else { Ok(()) };
        }
        for name in ["features.json", "features.npy"] {
            std::fs::remove_file(parts.join("part_0/nodes/user").join(name))
                .with_context(|| format!("remove {name}"))?;
        }
        Ok(())
    }

    /// Returns true if the result of a job is there.
    fn is_there(&self, job: Job) -> bool {
        let parts = self.parts(job);
        if job == Job::Features { parts.join("part_0/nodes/user/features.json").exists() } else { parts.exists() }
    }

    fn round(&self, job: Job, signal: Signal, moment: Duration) -> anyhow::Result<(Outcome, Duration)> {
        self.remove(job)?;
        let mut process = Process::start(&mut self.command(job)?, self.root.join("log"))?;
        wait_until(Instant::now() + moment, || process.status().is_some());
        process.signal(signal);
        let start = Instant::now();
        if signal == Signal::STOP {
            process.signal(Signal::CONT);
        }
        ensure!(wait_until(start + ENDS_WITHIN, || process.status().is_some()), "it still runs");
        let took = start.elapsed();
        let scratch = std::fs::read_dir(self.root.join("scratch")).context("read the scratch folder")?;
        ensure!(scratch.count() == 0, "scratch files are left");
        let is_there = self.is_there(job);
        if signal == Signal::STOP {
            ensure!(is_there, "no result after a suspension: {}", process.output());
        }
        let parts = self.parts(job);
        if is_there {
            verify(&parts)?;
        }
        // A rerun succeeds, and removes what is left.
        run_command(&mut self.command(job)?)?;
        verify(&parts)?;
        let folder = parts.parent().context("the folder of the parts")?;
        let entries = std::fs::read_dir(folder).context("read the folder of the parts")?;
        let left: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| *path != parts).collect();
        ensure!(left.is_empty(), "left over: {left:?}");
        Ok((if is_there { Outcome::WentOn } else { Outcome::Ended }, took))
    }
}

fn verify(parts: &Path) -> anyhow::Result<()> {
    run_command(Command::new(program("partition-graph")?).arg("verify").arg(parts)).map(drop)
}

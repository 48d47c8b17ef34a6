//! The flags `--memory-limit` and `--scratch-dir`, and the measurement of memory.

use crate::args::Job;
use crate::terminal::Terminal;
use anyhow::{Context, bail};
use edgecut_graph::readers::GraphShape;
use edgecut_graph::{WorkObserver, Workspace, shown_bytes};
use edgecut_partition::{Plan, PlanInput, TableBytes};
use edgecut_tables::TableShape;
use rustix::fs::{statfs, statvfs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The `f_type` of file systems in memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The memory that a step takes when the features of a part are built.
pub(crate) const FEATURE_WORK_BYTES: usize = 64 << 20;

/// The time between two measurements of memory.
const INTERVAL: Duration = Duration::from_millis(20);

/// Plans a job from the headers of its files, for `flag`.
pub(crate) fn plan(job: &Job, flag: &'static str) -> anyhow::Result<Plan> {
    let limit = job.options.memory_limit.map_or(u64::MAX, |limit| limit.bytes);
    let (mut shape, tables) = match &job.tables {
        None => (GraphShape::read(&job.source).context(flag)?, None),
        Some(tables) => {
            let TableShape { graph, id_bytes, fit_bytes, input_bytes } =
                TableShape::read(&tables.conf, &tables.options, limit).context(flag)?;
            (graph, Some(TableBytes { ids: id_bytes, fits: fit_bytes, input: input_bytes }))
        }
    };
    if job.source.edge_ids {
        shape.edge_types.iter_mut().for_each(|edges| edges.id_bytes = size_of::<i64>() as u64);
    }
    let input = PlanInput {
        shape: &shape,
        options: &job.options,
        is_given: job.assignment.is_some(),
        is_generated: job.source.is_generated(),
        feature_dtypes: &job.feature_dtypes,
        tables,
    };
    Ok(Plan::new(&input)?)
}

/// Prepares scratch files for a job with a limit of memory, and replaces METIS if it does not fit. Without a limit, it only
/// shows the progress of reading.
pub(crate) fn apply(job: &mut Job, terminal: &Arc<Terminal>) -> anyhow::Result<()> {
    // The plan reads tables too, and shows that.
    set_space(job, &Workspace::in_memory(Observer(terminal.clone())));
    let Some(limit) = job.options.memory_limit else { return Ok(()) };
    let plan = plan(job, "--memory-limit")?;
    if let Some(method) = plan.instead {
        terminal.note(&format!(
            "METIS does not fit into --memory-limit {} bytes: nodes are assigned by {method} instead",
            limit.bytes
        ));
        job.options.method = method;
        terminal.set_method(method);
    }
    let space =
        Workspace::scratch(&job.scratch_dir, plan.work_bytes.unwrap_or(0) as usize, Observer(terminal.clone()))?;
    check_space(&job.scratch_dir, plan.scratch_bytes, terminal)?;
    set_space(job, &space);
    Ok(())
}

fn set_space(job: &mut Job, space: &Workspace) {
    job.source.space = space.clone();
    if let Some(tables) = &mut job.tables {
        tables.options.space = space.clone();
    }
}

/// Checks that the scratch folder has room, and notes if it is in memory.
fn check_space(dir: &Path, needed: u64, terminal: &Terminal) -> anyhow::Result<()> {
    let about = || format!("--scratch-dir {}", dir.display());
    if statfs(dir).with_context(about)?.f_type as u64 == TMPFS_MAGIC {
        let dir = dir.display();
        terminal.note(&format!("--scratch-dir {dir} is in memory (tmpfs), which --memory-limit does not count"));
    }
    let found = statvfs(dir).with_context(about)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    // The estimate is the most that the graph can need.
    // Some network file systems do not tell their size.
    if free < needed / 2 && found.f_blocks > 0 {
        bail!(
            "--scratch-dir {} has {} of free space, but scratch files take up to {}: choose a folder on another disk",
            dir.display(),
            shown_bytes(free),
            shown_bytes(needed)
        );
    }
    Ok(())
}

/// Shows the progress of steps on the terminal.
pub(crate) struct Observer(pub(crate) Arc<Terminal>);

impl WorkObserver for Observer {
    fn worked(&self, step: &'static str, done: u64, total: u64) {
        self.0.worked(step, done, total);
    }
}

/// The largest anonymous memory of this process since [`AnonymousMemory::watch`], by measurements at short intervals.
pub(crate) struct AnonymousMemory(Arc<AtomicU64>);

impl AnonymousMemory {
    /// Starts to measure, until the process ends.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let peak = Arc::new(AtomicU64::new(0));
        let measured = peak.clone();
        let measure = move || {
            while Arc::strong_count(&measured) > 1 {
                measured.fetch_max(anonymous_bytes().unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(INTERVAL);
            }
        };
        std::thread::Builder::new()
            .name("memory".into())
            .spawn(measure)
            .context("start a thread that measures memory")?;
        Ok(Self(peak))
    }

    /// Returns the largest measurement in bytes, if the system reports anonymous memory.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        let now = anonymous_bytes()?;
        Some(self.0.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

/// Returns the anonymous memory of this process.
fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

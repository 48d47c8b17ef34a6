//! The command `train report`: one HTML file about one or several runs, made from their metrics files.

use crate::exit::UsageError;
use crate::run_page::{Run, page};
use anyhow::Context;
use clap::Args;
use edgecut_cli::message;
use edgecut_output::{check_output, is_same_file, write_output};
use std::path::{Path, PathBuf};

/// Flags of the report.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// Files that --metrics wrote, one per run
    #[arg(required = true, value_name = "METRICS")]
    runs: Vec<PathBuf>,
    /// The HTML file to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

/// The most runs in one report, which has a color for each.
const MAX_RUNS: usize = 8;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    if args.runs.len() > MAX_RUNS {
        let what = format!("a report shows up to {MAX_RUNS} runs, but {} files are given", args.runs.len());
        return Err(UsageError(what).into());
    }
    if let Some(path) = args.runs.iter().find(|path| is_same_file(path, &args.out)) {
        return Err(UsageError(format!("--out: the report would replace the metrics in {}", path.display())).into());
    }
    check_output(&args.out).with_context(|| format!("--out: write {}", args.out.display()))?;
    let mut runs = args.runs.iter().map(|path| Run::read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
    for (run, path) in runs.iter_mut().zip(&args.runs) {
        if names.iter().filter(|name| **name == run.name).count() > 1 {
            run.name = path.display().to_string();
        }
    }
    write(&runs, &args.out, "--out")?;
    message!("wrote {}", args.out.display());
    Ok(())
}

/// Writes the report of one run. `flag` names the output in errors.
pub(crate) fn write_for(metrics: &Path, out: &Path, flag: &str) -> anyhow::Result<()> {
    write(&[Run::read(metrics)?], out, flag)
}

fn write(runs: &[Run], out: &Path, flag: &str) -> anyhow::Result<()> {
    let runs: Vec<&Run> = runs.iter().collect();
    let html = page(&runs, None).finish();
    write_output(out, html.as_bytes()).with_context(|| format!("{flag}: write {}", out.display()))
}

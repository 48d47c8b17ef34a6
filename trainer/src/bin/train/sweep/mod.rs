//! The command `train sweep`: trains with many combinations of flags, one after the other, and compares the scores.

mod settings;

use crate::exit::{INTERRUPTED, UsageError};
use anyhow::{Context, bail};
use clap::Args;
use edgecut_cli::{message, result};
use serde::Serialize;
use serde_json::Value;
use settings::{Setting, combinations};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Flags of a sweep.
#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArgs {
    /// A flag and its values, separated by spaces: --set 'lr=0.01 0.003'. With --random also a range: 'lr=0.0001..0.1'. May
    /// be given several times
    #[arg(long = "set", required = true, value_name = "FLAG=VALUES")]
    settings: Vec<Setting>,
    /// Train with N random combinations instead of all of them. A range of positive decimal numbers is drawn uniformly in
    /// its logarithm, other ranges uniformly
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    random: Option<u32>,
    /// Random seed of --random
    #[arg(long, value_name = "N", default_value_t = 0)]
    sweep_seed: u64,
    /// Folder for the metrics of each run: run-1.jsonl and so on, which `train report` reads
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Command that starts each run on a cluster: 'launch --ip-config ip_config.yaml'
    #[arg(long, value_name = "COMMAND")]
    launcher: Option<String>,
    /// Print the runs as JSON on standard output, the best one first
    #[arg(long)]
    json: bool,
    /// The command to run, without `train`: node, link or graph and its flags
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A run of a sweep.
#[derive(Serialize)]
struct Run {
    number: usize,
    /// The flags that differ between runs, and their values.
    flags: Vec<(String, String)>,
    metric: Option<String>,
    /// The score on the validation data.
    valid: Option<f64>,
    /// The score on the test data.
    test: Option<f64>,
    best_epoch: Option<u64>,
    seconds: f64,
    /// The error, if the run failed.
    error: Option<String>,
}

pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<()> {
    if !["node", "link", "graph"].contains(&args.command[0].as_str()) {
        let what = format!("'{}' cannot be swept: give node, link or graph and its flags after --", args.command[0]);
        return Err(UsageError(what).into());
    }
    let flags = combinations(&args.settings, args.random, args.sweep_seed).map_err(UsageError)?;
    let launcher = match &args.launcher {
        None => Vec::new(),
        Some(text) => shell_words::split(text).map_err(|error| UsageError(format!("--launcher: {error}")))?,
    };
    if let Some(dir) = &args.out {
        std::fs::create_dir_all(dir).with_context(|| format!("--out: make the folder {}", dir.display()))?;
    }
    let num_runs = flags.len();
    let mut runs = Vec::with_capacity(num_runs);
    for (number, flags) in (1..).zip(flags) {
        let run = train(args, &launcher, number, flags)?;
        let outcome = match &run.error {
            Some(error) => error.clone(),
            None => format!("validation {}, test {}, {:.1} s", score(run.valid), score(run.test), run.seconds),
        };
        message!("run {number} of {num_runs}: {}: {outcome}", words(&run.flags));
        runs.push(run);
    }
    // The sort is stable, so runs with equal scores keep their order.
    runs.sort_by(|a, b| b.valid.unwrap_or(f64::MIN).total_cmp(&a.valid.unwrap_or(f64::MIN)));
    if args.json {
        result!("{}", serde_json::to_string_pretty(&runs).context("write the runs as JSON")?)?;
    } else {
        result!("{}", table(&runs).trim_end())?;
    }
    let failed = runs.iter().filter(|run| run.error.is_some()).count();
    if failed > 0 {
        bail!("{failed} of {num_runs} runs failed");
    }
    Ok(())
}

/// Trains with some flags, and reads the result that the process prints.
fn train(args: &SweepArgs, launcher: &[String], number: usize, flags: Vec<(String, String)>) -> anyhow::Result<Run> {
    let program = std::env::current_exe().context("find this program's file")?;
    let mut words: Vec<std::ffi::OsString> = launcher.iter().map(Into::into).collect();
    if !launcher.is_empty() {
        words.push("--".into());
    }
    words.push(program.into());
    words.extend(args.command.iter().map(Into::into));
    words.extend(flags.iter().map(|(flag, value)| format!("--{flag}={value}").into()));
    words.extend(["--quiet".into(), "--json".into()]);
    if let Some(dir) = &args.out {
        words.extend(["--metrics".into(), dir.join(format!("run-{number}.jsonl")).into()]);
    }
    let start = Instant::now();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("start {}", words[0].to_string_lossy()))?;
    let seconds = start.elapsed().as_secs_f64();
    let mut run = Run { number, flags, metric: None, valid: None, test: None, best_epoch: None, seconds, error: None };
    if output.status.code() == Some(i32::from(INTERRUPTED)) {
        bail!("interrupted in run {number}");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // A launcher puts the name of the rank before the line.
    let result =
        text.lines().filter_map(|line| serde_json::from_str::<Value>(&line[line.find('{')?..]).ok()).next_back();
    match result.filter(|_| output.status.success()) {
        Some(result) => run.read(&result),
        None => {
            let said = String::from_utf8_lossy(&output.stderr);
            let error = said.lines().find(|line| line.contains("error: ")).unwrap_or("error: it printed no result");
            run.error = Some(error.to_owned());
        }
    }
    Ok(run)
}

impl Run {
    /// Takes the scores from the result of a run: of a classifier, of link prediction, or of a cross-validation.
    fn read(&mut self, result: &Value) {
        self.best_epoch = result["best_epoch"].as_u64();
        self.metric = result["metric"].as_str().map(String::from);
        let field = self.metric.as_deref().unwrap_or_default().replace('@', "_at_").replace('-', "_");
        let of_link = |split: &str| result[split].get(&field).and_then(Value::as_f64);
        self.valid = result["valid_metric"].as_f64().or_else(|| of_link("valid")).or_else(|| result["mean"].as_f64());
        self.test = result["test_metric"].as_f64().or_else(|| of_link("test")).or_else(|| result["mean"].as_f64());
    }
}

fn words(flags: &[(String, String)]) -> String {
    flags.iter().map(|(flag, value)| format!("--{flag} {value}")).collect::<Vec<_>>().join(" ")
}

fn score(score: Option<f64>) -> String {
    score.map_or_else(|| "-".into(), |score| format!("{score:.4}"))
}

/// Formats a line per run, with a column per flag.
fn table(runs: &[Run]) -> String {
    let flags = runs.first().map(|run| run.flags.as_slice()).unwrap_or_default();
    let metric = runs.iter().find_map(|run| run.metric.as_deref()).unwrap_or("score");
    let head = flags.iter().map(|(flag, _)| flag.clone());
    let head: Vec<String> = std::iter::once("run".to_owned())
        .chain(head)
        .chain([format!("valid {metric}"), format!("test {metric}"), "epoch".into(), "seconds".into()])
        .collect();
    let mut rows = vec![head];
    for run in runs {
        let values = run.flags.iter().map(|(_, value)| value.clone());
        let outcome = match run.error {
            Some(_) => ["failed".to_owned(), "-".into()],
            None => [score(run.valid), score(run.test)],
        };
        let epoch = run.best_epoch.map_or_else(|| "-".into(), |epoch| epoch.to_string());
        let rest = outcome.into_iter().chain([epoch, format!("{:.1}", run.seconds)]);
        rows.push(std::iter::once(run.number.to_string()).chain(values).chain(rest).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}")).collect();
        format!("{}\n", cells.join("  "))
    };
    rows.iter().map(line).collect()
}

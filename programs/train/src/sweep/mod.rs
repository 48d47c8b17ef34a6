//! The command `train sweep`: trains with many combinations of flags, one after the other, and compares the scores.

mod comparison;
mod outputs;
mod over_seeds;
mod record;
mod settings;

use crate::exit::{INTERRUPTED, UsageError};
use crate::progress::reporter::number;
use crate::progress::text_table::text_table;
use crate::run_page::MetricName;
use crate::sample::output_folder::reserve;
use crate::tasks::{Scores, TASKS, TaskEntry, names};
use anyhow::{Context, bail};
use clap::Args;
use comparison::{check_same_evaluation, evaluation_of, metrics, why_no_order};
use edgecut_cli::{message, result};
use outputs::{RunOutputs, is_own_file, metrics_file, task_of};
use over_seeds::OverSeeds;
use record::{DoneRun, SweepRecord, content_of};
use serde::Serialize;
use settings::{Setting, combinations};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
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
    /// Folder for the metrics of each run: run-1.jsonl and so on, which `train report` reads. The same sweep of the same program
    /// on the same data continues in its folder: complete runs are kept, unless their models have changed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Remove the metrics of an earlier sweep from --out before the first run, also of the same one
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Command that starts each run on a cluster: 'launch --ip-config ip_config.yaml'
    #[arg(long, value_name = "COMMAND")]
    launcher: Option<String>,
    /// Print the runs as JSON on standard output, the best one first. Runs with different metrics have no order
    #[arg(long)]
    json: bool,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", help = format!(
        "The command to run, without `train`: {} and its flags. Each run gets files of its own: the third run with \
         --save-model model.safetensors writes model-run-3.safetensors",
        names()
    ))]
    command: Vec<String>,
}

/// A run of a sweep.
#[derive(Serialize)]
struct Run {
    number: usize,
    /// The flags that differ between runs, and their values.
    flags: Vec<(String, String)>,
    /// `None` if the run failed.
    #[serde(flatten)]
    scores: Option<Scores>,
    /// The saved model; `None` if the run failed.
    model: Option<PathBuf>,
    seconds: f64,
    /// The error, if the run failed.
    error: Option<String>,
    /// The result that the run has printed; `None` if it failed.
    #[serde(skip)]
    result: Option<String>,
    /// The scores of all runs that differ from this one only in their seed, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_seeds: Option<OverSeeds>,
}

impl Run {
    /// Makes a run without an outcome.
    fn new(number: usize, flags: Vec<(String, String)>, seconds: f64) -> Self {
        Self { number, flags, scores: None, model: None, seconds, error: None, result: None, over_seeds: None }
    }

    /// Returns the score that runs are compared by.
    fn valid(&self) -> Option<f64> {
        self.scores.as_ref().map(|scores| scores.valid)
    }

    /// Returns a number that is greater for a better run, and lowest for a failed one.
    fn rank(&self) -> f64 {
        match &self.scores {
            Some(scores) if scores.higher_is_better => scores.valid,
            Some(scores) => -scores.valid,
            None => f64::MIN,
        }
    }

    fn test(&self) -> Option<f64> {
        self.scores.as_ref()?.test
    }
}

pub(crate) fn run(args: &SweepArgs) -> anyhow::Result<()> {
    let name = &args.command[0];
    let Some(task) = TASKS.iter().find(|task| task.name == name) else {
        let what = format!("'{name}' cannot be swept: give {} and its flags after --", names());
        return Err(UsageError(what).into());
    };
    let flags = combinations(&args.settings, args.random, args.sweep_seed).map_err(UsageError)?;
    let launcher = match &args.launcher {
        None => Vec::new(),
        Some(text) => shell_words::split(text).map_err(|error| UsageError(format!("--launcher: {error}")))?,
    };
    // A run without a score would train to its end before it fails.
    let num_runs = flags.len();
    let mut evaluations = Vec::with_capacity(num_runs);
    let mut wrong = Vec::new();
    for flags in &flags {
        match task_of(&words_of(args, flags)) {
            Ok(task) => {
                if let Some(why) = task.args().why_no_score() {
                    return Err(UsageError(why.into()).into());
                }
                evaluations.push(evaluation_of(task.given()));
            }
            Err(error) => wrong.push(error),
        }
    }
    // A flag that all runs have is wrong. Otherwise the table shows which runs fail.
    if wrong.len() == num_runs
        && let Some(error) = wrong.first()
    {
        let text = error.to_string();
        return Err(UsageError(text.trim_start_matches("error: ").trim_end().to_owned()).into());
    }
    check_same_evaluation(&evaluations).map_err(UsageError)?;
    let mut reserved = None;
    let mut record = None;
    if let Some(dir) = &args.out {
        let words: Vec<Vec<OsString>> = flags.iter().map(|flags| words_of(args, flags)).collect();
        let mut of_sweep = SweepRecord::new(dir, &words)?;
        let continues = !args.overwrite && of_sweep.is_in_folder();
        // Runs of another sweep would be reported with the runs of this one, also in the place of a run that fails.
        let old = reserve(dir, "metrics", |name| !continues && is_own_file(name), args.overwrite, true)?;
        reserved.insert(old).remove_files()?;
        of_sweep.open()?;
        if continues && of_sweep.reads_servers() {
            message!(
                "note: the runs that are kept are not compared with the data of the servers: if it has changed, add --overwrite to run \
                 all again"
            );
        }
        record = Some(of_sweep);
    }
    let mut runs = Vec::with_capacity(num_runs);
    for (run_number, flags) in (1..).zip(flags) {
        let done = record.as_ref().and_then(|record| record.done(run_number));
        let kept = match done {
            Some(done) => completed(args, task, run_number, &flags, done)?,
            None => None,
        };
        let is_kept = kept.is_some();
        let run = match kept {
            Some(run) => run,
            None => train(args, task, &launcher, run_number, flags)?,
        };
        if let (Some(record), Some(result), false) = (&mut record, &run.result, is_kept) {
            let model = run.model.as_deref().map(content_of).transpose()?;
            record.add(run_number, DoneRun { result: result.clone(), seconds: run.seconds, model })?;
        }
        let outcome = match &run.error {
            Some(error) => error.clone(),
            None => format!("validation {}, test {}, {:.1} s", number(run.valid()), number(run.test()), run.seconds),
        };
        let kept = if is_kept { "kept, " } else { "" };
        message!("run {run_number} of {num_runs}: {}: {kept}{outcome}", words(&run.flags));
        runs.push(run);
    }
    let no_order = why_no_order(&metrics(&runs));
    if no_order.is_none() {
        // The sort is stable, so runs with equal scores keep their order.
        runs.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
        over_seeds::add(&mut runs);
    }
    if runs.iter().any(|run| run.scores.as_ref().is_some_and(|scores| scores.judged_by_test)) {
        message!(
            "note: the validation scores are the test scores, which have selected the epochs too (--protocol best-mean-epoch), so \
             that the best run is the best on the test graphs"
        );
    }
    if args.json {
        result!("{}", serde_json::to_string_pretty(&runs).context("write the runs as JSON")?)?;
    } else {
        result!("{}", table(&runs))?;
        if let Some(table) = over_seeds::table(&runs) {
            result!("\nmean ± sample deviation over seeds\n{table}\n")?;
        }
        if no_order.is_none()
            && let Some(run) = runs.first()
            && let Some(model) = &run.model
        {
            result!("the best model is that of run {}: {}", run.number, model.display())?;
        }
    }
    let failed = runs.iter().filter(|run| run.error.is_some()).count();
    if failed > 0 {
        bail!("{failed} of {num_runs} runs failed");
    }
    if let Some(why) = no_order {
        bail!(why);
    }
    Ok(())
}

/// Returns the words of a run: the command, and the flags that differ between runs.
fn words_of(args: &SweepArgs, flags: &[(String, String)]) -> Vec<OsString> {
    let mut words: Vec<OsString> = args.command.iter().map(Into::into).collect();
    words.extend(flags.iter().map(|(flag, value)| format!("--{flag}={value}").into()));
    words
}

/// Trains with some flags, and reads the result that the process prints.
fn train(
    args: &SweepArgs,
    task: &TaskEntry,
    launcher: &[String],
    number: usize,
    flags: Vec<(String, String)>,
) -> anyhow::Result<Run> {
    let program = std::env::current_exe().context("find this program's file")?;
    let mut own_words = words_of(args, &flags);
    own_words.extend(["--quiet".into(), "--json".into()]);
    let metrics = args.out.as_ref().map(|dir| dir.join(metrics_file(number)));
    let outputs = RunOutputs::new(&own_words, number, metrics);
    let mut words: Vec<OsString> = launcher.iter().map(Into::into).collect();
    if !launcher.is_empty() {
        words.push("--".into());
    }
    words.push(program.into());
    words.extend(own_words);
    words.extend(outputs.flags);
    let start = Instant::now();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("start {}", words[0].to_string_lossy()))?;
    let seconds = start.elapsed().as_secs_f64();
    if output.status.code() == Some(i32::from(INTERRUPTED)) {
        bail!("interrupted in run {number}");
    }
    let mut run = Run::new(number, flags, seconds);
    match scores(task, &output) {
        Ok((scores, result)) => {
            run.scores = Some(scores);
            run.result = Some(result);
            run.model = outputs.model;
        }
        Err(error) => run.error = Some(error),
    }
    Ok(run)
}

/// Returns a run that an earlier start of the sweep has completed; `None` if its metrics or its model are gone, or if another
/// run has replaced its model.
///
/// # Errors
/// A model that cannot be read, and is there.
fn completed(
    args: &SweepArgs,
    task: &TaskEntry,
    number: usize,
    flags: &[(String, String)],
    done: &DoneRun,
) -> anyhow::Result<Option<Run>> {
    let metrics = args.out.as_ref().map(|dir| dir.join(metrics_file(number)));
    let outputs = RunOutputs::new(&words_of(args, flags), number, metrics.clone());
    if metrics.is_some_and(|file| !file.exists()) {
        return Ok(None);
    }
    // A model may be an object in a store. One that is gone has no content.
    let model = outputs.model.as_deref().map(content_of).transpose()?;
    if model.as_deref() == Some("") || (done.model.is_some() && done.model != model) {
        return Ok(None);
    }
    let Some(Ok(scores)) = (task.scores_of)(&done.result) else { return Ok(None) };
    let mut run = Run::new(number, flags.to_vec(), done.seconds);
    run.scores = Some(scores);
    run.result = Some(done.result.clone());
    run.model = outputs.model;
    Ok(Some(run))
}

/// Returns the scores that a run has printed and the text of its result, or its error.
fn scores(task: &TaskEntry, output: &Output) -> Result<(Scores, String), String> {
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let error = said.lines().find(|line| line.contains("error: "));
        return Err(error.map_or_else(|| format!("error: it ended with {}", output.status), str::to_owned));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // A launcher puts the name of the rank before the line.
    let objects = text.lines().filter_map(|line| line.find('{').map(|start| &line[start..]));
    let mut results = objects.filter_map(|text| Some(((task.scores_of)(text)?, text)));
    match results.next_back() {
        Some((scores, text)) => Ok((scores?, text.to_owned())),
        None => Err("error: it printed no result".into()),
    }
}

fn words(flags: &[(String, String)]) -> String {
    flags.iter().map(|(flag, value)| format!("--{flag} {value}")).collect::<Vec<_>>().join(" ")
}

/// Returns the names of the metrics after the one that runs are compared by.
fn other_metrics(runs: &[Run]) -> Vec<MetricName> {
    let Some(scores) = runs.iter().find_map(|run| run.scores.as_ref()) else { return Vec::new() };
    scores.valid_metrics.iter().skip(1).map(|(name, _)| name.clone()).collect()
}

/// Formats a line per run, with a column per flag. Runs with different metrics also have a column for the metric.
fn table(runs: &[Run]) -> String {
    let flags = runs.first().map(|run| run.flags.as_slice()).unwrap_or_default();
    let metrics = metrics(runs);
    let metric = if let [metric] = metrics[..] { metric } else { "score" };
    let names_metrics = metrics.len() > 1;
    let others = if names_metrics { Vec::new() } else { other_metrics(runs) };
    let head = flags.iter().map(|(flag, _)| flag.clone());
    let head: Vec<String> = std::iter::once("run".to_owned())
        .chain(head)
        .chain(names_metrics.then(|| "metric".to_owned()))
        .chain([format!("valid {metric}"), format!("test {metric}")])
        .chain(others.iter().flat_map(|other| [format!("valid {other}"), format!("test {other}")]))
        .chain(["epoch".into(), "seconds".into()])
        .collect();
    let mut rows = vec![head];
    for run in runs {
        let values = run.flags.iter().map(|(_, value)| value.clone());
        let mut outcome = match run.error {
            Some(_) => vec!["failed".to_owned(), "-".into()],
            None => vec![number(run.valid()), number(run.test())],
        };
        for other in &others {
            let scores = run.scores.as_ref();
            outcome.push(number(scores.and_then(|scores| scores.valid_metrics.get(other))));
            outcome.push(number(scores.and_then(|scores| scores.test_metrics.get(other))));
        }
        let epoch = run.scores.as_ref().and_then(|scores| scores.best_epoch);
        let epoch = epoch.map_or_else(|| "-".into(), |epoch| epoch.to_string());
        let rest = outcome.into_iter().chain([epoch, format!("{:.1}", run.seconds)]);
        let metric = run.scores.as_ref().map_or("-", |scores| scores.metric.as_str()).to_owned();
        let metric = names_metrics.then_some(metric);
        rows.push(std::iter::once(run.number.to_string()).chain(values).chain(metric).chain(rest).collect());
    }
    text_table(&rows)
}

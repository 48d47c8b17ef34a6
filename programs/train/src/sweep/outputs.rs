//! The files of each run of a sweep.

use super::record::RECORD_FILE;
use crate::args::dialect::DIALECT;
use crate::args::run::RunArgs;
use crate::tasks::TaskCommand;
use clap::Parser;
use edgecut_cli::parse_words;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The command line of a task.
#[derive(Debug, Parser)]
struct TaskLine {
    #[command(subcommand)]
    task: TaskCommand,
}

/// The flags that give a run files of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunOutputs {
    /// The flags, to be added to the flags of the run.
    pub(super) flags: Vec<OsString>,
    /// The file of the saved model.
    pub(super) model: Option<PathBuf>,
}

/// Parses the flags of a run, the first of which is the name of a task.
///
/// # Errors
/// Flags that cannot be parsed.
pub(super) fn task_of(words: &[OsString]) -> Result<TaskCommand, clap::Error> {
    let words = std::iter::once("train".into()).chain(words.iter().cloned());
    Ok(parse_words::<TaskLine>(words, &DIALECT)?.args.task)
}

impl RunOutputs {
    /// Returns the flags for run `number` with the flags `words`, the first of which is the name of a task. Files get
    /// the number in their names, and folders become folders of runs. `metrics` replaces `--metrics`.
    ///
    /// Flags that cannot be parsed give no files.
    pub(super) fn new(words: &[OsString], number: usize, metrics: Option<PathBuf>) -> Self {
        // The run itself reports the error.
        let Ok(task) = task_of(words) else { return Self::default() };
        let Some(RunArgs { output, checkpoints, .. }) = task.args().flags().training else {
            return Self::default();
        };
        let model = numbered_file(output.save_model.as_deref(), number);
        let outputs = [
            ("save-model", model.clone()),
            ("metrics", metrics.or_else(|| numbered_file(output.metrics.as_deref(), number))),
            ("report", numbered_file(output.report.as_deref(), number)),
            ("tensorboard", folder(output.tensorboard.as_deref(), number)),
            ("checkpoint-dir", folder(checkpoints.checkpoint_dir.as_deref(), number)),
        ];
        let mut flags = Vec::new();
        for (flag, path) in outputs {
            if let Some(path) = path {
                let mut word = OsString::from(format!("--{flag}="));
                word.push(path);
                flags.push(word);
            }
        }
        Self { flags, model }
    }
}

/// Returns the name of the metrics of a run in `--out`.
pub(super) fn metrics_file(number: usize) -> String {
    format!("run-{number}.jsonl")
}

/// Returns true for the name of the metrics of a run, for the file of its flags, and for the record of a sweep.
pub(super) fn is_own_file(name: &str) -> bool {
    if name == RECORD_FILE {
        return true;
    }
    let name = name.strip_suffix(".config.yaml").unwrap_or(name);
    let number = name.strip_prefix("run-").and_then(|rest| rest.strip_suffix(".jsonl"));
    number.and_then(|number| number.parse().ok()).is_some_and(|number| metrics_file(number) == name)
}

/// Returns the path of a run's file: `model-run-3.safetensors` for `model.safetensors`. Devices and pipes stay as they are.
fn numbered_file(path: Option<&Path>, number: usize) -> Option<PathBuf> {
    let path = path?;
    let is_device = path.exists() && !path.is_file();
    let Some(stem) = path.file_stem().filter(|_| !is_device) else { return Some(path.to_owned()) };
    let mut name = stem.to_owned();
    name.push(format!("-run-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    Some(path.with_file_name(name))
}

/// Returns the folder of a run's files in a folder of all runs.
fn folder(path: Option<&Path>, number: usize) -> Option<PathBuf> {
    Some(path?.join(format!("run-{number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(line: &str, metrics: Option<&str>) -> (Vec<String>, Option<PathBuf>) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let RunOutputs { flags, model } = RunOutputs::new(&words, 3, metrics.map(PathBuf::from));
        (flags.iter().map(|flag| flag.to_string_lossy().into_owned()).collect(), model)
    }

    #[test]
    fn each_run_has_files_of_its_own() {
        let line = "node --dataset-root-dir d --num-neighbors 5 --save_model out/m.a.safetensors --metrics m.jsonl \
                    --report r --tensorboard events --checkpoint-dir kept";
        let (flags, model) = outputs(line, None);
        let expected = [
            "--save-model=out/m.a-run-3.safetensors",
            "--metrics=m-run-3.jsonl",
            "--report=r-run-3",
            "--tensorboard=events/run-3",
            "--checkpoint-dir=kept/run-3",
        ];
        assert_eq!(flags, expected);
        assert_eq!(model.as_deref(), Some(Path::new("out/m.a-run-3.safetensors")));
        let (flags, model) = outputs("graph --dataset x --metrics=/dev/null", None);
        assert_eq!((flags, model), (vec!["--metrics=/dev/null".to_owned()], None));
        let (flags, _) = outputs("link --dataset-root-dir d --metrics m.jsonl", Some("runs/run-3.jsonl"));
        assert_eq!(flags, ["--metrics=runs/run-3.jsonl"]);
        assert!(outputs("node --lr many --save-model m", None).0.is_empty());
    }
}

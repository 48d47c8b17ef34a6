//! The check that the outputs of a run replace no other file of it.

use crate::args::run::RunArgs;
use crate::exit::UsageError;
use edgecut_output::is_same_file;
use std::path::{Path, PathBuf};

/// Checks that the files that a run writes differ from each other and from the files that it reads. `inputs` are its data and
/// models. A model may be replaced by one that starts from it.
///
/// # Errors
/// Names the flags of the first file that is given twice.
pub(crate) fn check_distinct(run: &RunArgs, inputs: &[PathBuf]) -> Result<(), UsageError> {
    let job = &run.job;
    let mut read: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    read.extend([&job.config, &job.ip_config, &job.token_file].into_iter().flatten().map(PathBuf::as_path));
    let output = &run.output;
    let written = [("--save-model", &output.save_model), ("--metrics", &output.metrics), ("--report", &output.report)];
    let mut earlier: Vec<(&str, &Path)> = Vec::new();
    for (flag, path) in written {
        let Some(path) = path else { continue };
        let shown = path.display();
        if let Some((other, _)) = earlier.iter().find(|(_, other)| is_same_file(other, path)) {
            return Err(UsageError(format!("{flag} {shown}: it is the file of {other}: choose another one")));
        }
        if flag != "--save-model" && read.iter().any(|other| is_same_file(other, path)) {
            return Err(UsageError(format!("{flag} {shown}: the run reads this file: choose another one")));
        }
        earlier.push((flag, path));
    }
    Ok(())
}

//! Checks of the flags of `train predict` against each other.

use super::args::{Format, PredictArgs};
use super::model::unfit;
use super::{REQUESTS, request_of};
use crate::exit::UsageError;
use crate::tasks::TaskEntry;
use anyhow::bail;
use edgecut_graph::Split;
use edgecut_trainer::model_file::{SavedTask, read_network};

/// Checks flags that contradict each other.
pub(super) fn check(args: &PredictArgs) -> anyhow::Result<()> {
    let request = request_of(args);
    for (id, _) in args.given.all_given().filter(|(id, _)| args.is_given(id) && !request.reads(id)) {
        let others = REQUESTS.iter().filter(|other| other.reads(id));
        let others: Vec<&str> = others.map(|other| other.flags).collect();
        if !others.is_empty() {
            let flag = format!("--{}", id.replace('_', "-"));
            let others = others.join(", and to ");
            bail!(UsageError(format!("{flag} applies to {others}: leave {flag} out, or change the other flags")));
        }
    }
    let wrong = if let Err(wrong) = (request.check)(args) {
        wrong
    } else if args.gather && args.format == Format::Npy {
        "--gather: --format npy is always one file: leave out --gather, or use --format csv or parquet"
    } else if request.reads_parts() && args.part.server_list().is_some() {
        "--servers: predictions need the parts on the nodes that compute: give --dataset-root-dir"
    } else if request.reads_parts() {
        return check_task(args);
    } else {
        return Ok(());
    };
    bail!(UsageError(wrong.into()))
}

/// Checks that the task of the model reads a graph in parts. A process that cannot read the model finds out when rank 0 has
/// sent it.
fn check_task(args: &PredictArgs) -> anyhow::Result<()> {
    let saved = read_network(&args.load_model).and_then(|bytes| SavedTask::of_file(&bytes, &args.load_model));
    match saved.ok().and_then(|saved| TaskEntry::named(&saved.task)) {
        Some(task) if !task.reads_parts => bail!(unfit(args, task)),
        _ => Ok(()),
    }
}

/// Checks that `--row-numbers` is about a file. `text` is the value of the flag that may name one.
pub(super) fn check_row_numbers(args: &PredictArgs, text: &str) -> Result<(), &'static str> {
    let is_file = text != "all" && Split::ALL.iter().all(|split| split.name() != text);
    if args.row_numbers && !is_file {
        return Err("--row-numbers has no effect, since no flag names a file of ids: leave it out");
    }
    Ok(())
}

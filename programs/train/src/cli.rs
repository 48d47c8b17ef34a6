//! The command line of `train`.

use crate::predict::args::PredictArgs;
use crate::report::ReportArgs;
use crate::sample::args::SampleArgs;
use crate::sweep::SweepArgs;
use crate::tasks::TaskCommand;
use clap::{Parser, Subcommand};

/// Trains graph neural networks on one machine, or on a graph that is partitioned over several.
///
/// Underscores in flags are accepted too: --num_neighbors.
#[derive(Debug, Parser)]
#[command(name = "train", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Task(TaskCommand),
    /// Samples mini-batches and writes them as .npz files for other programs.
    #[command(after_help = "Example:\n  \
        train sample --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --num-neighbors 15,10,5 --num-batches 8 --out batches\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 130 interrupted.")]
    Sample(Box<SampleArgs>),
    /// Writes predictions of a saved model: for the nodes or edges of a graph, for pairs of nodes, or for whole graphs.
    #[command(after_help = "Examples:\n  \
        train predict --dataset-root-dir data/partitions/fake/2-parts --nproc-per-node 2 --load-model model.safetensors --out predictions\n  \
        train predict --dataset-root-dir data/mygraph --load-model model.safetensors --output embedding --format csv --out embeddings\n  \
        train predict --dataset-root-dir data/mygraph --load-model links.safetensors --output top-k --sources all --top-k 10 --out top\n  \
        train predict --dataset-root-dir data/payments --load-model fraud.safetensors --edges test --num-neighbors 10,5 --format csv --out scores\n  \
        train predict --dataset fake-graphs --graphs all --load-model gin.safetensors --out classes\n\n\
        Exit status: 0 done, 1 error in this process, 2 invalid flags, 3 another rank failed, 130 interrupted.")]
    Predict(Box<PredictArgs>),
    /// Writes an HTML file about one or several runs, from the files of --metrics.
    #[command(after_help = "Example:\n  train report sage.jsonl gat.jsonl --out comparison.html")]
    Report(ReportArgs),
    /// Trains with many combinations of flags, one after the other, and prints a table of the scores.
    #[command(after_help = "Examples:\n  \
        train sweep --set 'lr=0.01 0.003' --set 'hidden-channels=32 64' -- node --dataset-root-dir data/mygraph\n  \
        train sweep --random 20 --set 'lr=0.0001..0.1' --set 'dropout=0.0..0.6' --launcher 'launch --ip-config ip_config.yaml' \\\n    \
        -- node --dataset-root-dir data/partitions/mygraph/2-parts\n\n\
        Exit status: 0 done, 1 a run failed, 2 invalid flags, 130 interrupted.")]
    Sweep(Box<SweepArgs>),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    /// Returns the shortest valid command line of a command.
    pub(crate) fn shortest_line(name: &str) -> String {
        let cli = Cli::command();
        let mut line = name.to_owned();
        for flag in cli.find_subcommand(name).expect("a command").get_arguments() {
            if flag.is_required_set() {
                line += &format!(" --{} a", flag.get_long().expect("a flag"));
            }
        }
        line
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// Returns the error of a command with some of its flags, with any texts as values.
    fn error_of(command: &clap::Command, flags: &[&str]) -> Option<clap::Error> {
        let mut command = command.clone().mut_args(|arg| {
            let arg = arg.required(false);
            if arg.get_action().takes_values() { arg.value_parser(clap::value_parser!(String)) } else { arg }
        });
        let mut words = vec!["train".into()];
        for flag in flags {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(*flag)).expect("a flag");
            let value = if arg.get_action().takes_values() { "=1" } else { "" };
            words.push(format!("--{flag}{value}").into());
        }
        edgecut_cli::matches_of(&mut command, words, &[]).err()
    }

    #[test]
    fn no_flag_waives_the_requirement_of_another() {
        let mut num_dependent = 0;
        for command in Cli::command().get_subcommands() {
            let flags: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            for &flag in &flags {
                let Some(alone) = error_of(command, &[flag]) else { continue };
                assert_eq!(alone.kind(), ErrorKind::MissingRequiredArgument, "{flag}: {alone}");
                num_dependent += 1;
                for &other in flags.iter().filter(|other| **other != flag) {
                    let is_accepted = error_of(command, &[flag, other]).is_none();
                    let text = alone.to_string();
                    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    let is_required = words.any(|word| word.strip_prefix("--") == Some(other));
                    assert!(!is_accepted || is_required, "{} --{flag} --{other}", command.get_name());
                }
            }
        }
        assert!(num_dependent > 40, "{num_dependent}");
    }
}

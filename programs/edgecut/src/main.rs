//! `edgecut`: runs the programs of Edgecut by one name, and makes their completions and manual pages.
//!
//! A new command is an entry of `edgecut_cli::COMMANDS`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod error;
mod help;
mod program;
mod suggestion;
mod tree;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use edgecut_cli::{COMMANDS, CommandLine, Dialect, EdgecutCommand, message, parse_command_line, result, version};
use edgecut_output::write_output;
use error::EdgecutError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::whole_command_line;

/// The command line of the commands that this program runs itself.
#[derive(Debug, Parser)]
#[command(name = "edgecut")]
struct Own {
    #[command(subcommand)]
    command: OwnCommand,
}

#[derive(Debug, Subcommand)]
enum OwnCommand {
    /// Print the completions of a shell.
    #[command(after_help = "Examples:\n  \
        edgecut completions bash > ~/.local/share/bash-completion/completions/edgecut\n  \
        edgecut completions zsh > ~/.zfunc/_edgecut    (with fpath+=~/.zfunc before compinit)\n  \
        edgecut completions fish > ~/.config/fish/completions/edgecut.fish")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages.
    #[command(after_help = "Example:\n  edgecut man ~/.local/share/man/man1 && man edgecut-train-node")]
    Man {
        /// The folder of the pages, which is made if it does not exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    run(&words).unwrap_or_else(|error| {
        message!("error: {error}");
        error.exit_code()
    })
}

fn run(words: &[OsString]) -> Result<ExitCode, EdgecutError> {
    let Some(first) = words.first() else {
        message!("{}", help::text());
        return Ok(ExitCode::from(error::USAGE));
    };
    let rest = &words[1..];
    let first = first.to_string_lossy();
    if let Some(command) = command_named(&first) {
        return Err(program::become_program(command, rest));
    }
    match &*first {
        "help" if !rest.is_empty() => {
            let mut words = rest.to_vec();
            words.push("--help".into());
            // `edgecut help completions` is `edgecut completions --help`, which the parser reads from this process.
            match command_named(&rest[0].to_string_lossy()) {
                Some(command) => Err(program::become_program(command, &words[1..])),
                None if is_own(&rest[0].to_string_lossy()) => Err(program::run_again(&words)),
                None => Err(suggestion::unknown(&rest[0].to_string_lossy())),
            }
        }
        "help" | "-h" | "--help" => {
            result!("{}", help::text())?;
            Ok(ExitCode::SUCCESS)
        }
        "-V" | "--version" => {
            result!("edgecut {}", version())?;
            Ok(ExitCode::SUCCESS)
        }
        name if is_own(name) => {
            let CommandLine { args, .. } = parse_command_line::<Own>(&Dialect::default());
            match args.command {
                OwnCommand::Completions { shell } => print_completions(shell)?,
                OwnCommand::Man { dir } => write_pages(&dir)?,
            }
            Ok(ExitCode::SUCCESS)
        }
        name => Err(suggestion::unknown(name)),
    }
}

fn command_named(name: &str) -> Option<&'static EdgecutCommand> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// Returns true for a command that this program runs itself.
fn is_own(name: &str) -> bool {
    Own::command().find_subcommand(name).is_some()
}

fn print_completions(shell: Shell) -> Result<(), EdgecutError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut whole_command_line()?, "edgecut", &mut text);
    result!("{}", String::from_utf8_lossy(&text).trim_end())?;
    Ok(())
}

/// Writes a manual page per command and subcommand to a folder.
fn write_pages(dir: &Path) -> Result<(), EdgecutError> {
    let write = EdgecutError::write(dir);
    std::fs::create_dir_all(dir).map_err(write)?;
    let mut commands = vec![whole_command_line()?];
    let mut pages = 0;
    while let Some(command) = commands.pop() {
        let name = command.get_name().to_owned();
        let mut page = Vec::new();
        let manual = clap_mangen::Man::new(command.clone()).title(name.to_uppercase());
        manual
            .source(format!("edgecut {}", env!("CARGO_PKG_VERSION")))
            .render(&mut page)
            .map_err(EdgecutError::write(dir))?;
        let path = dir.join(format!("{name}.1"));
        write_output(&path, &page).map_err(EdgecutError::write(&path))?;
        pages += 1;
        for subcommand in command.get_subcommands() {
            let usage = format!("{} {}", command.get_bin_name().unwrap_or(&name), subcommand.get_name());
            commands.push(subcommand.clone().name(format!("{name}-{}", subcommand.get_name())).bin_name(usage));
        }
    }
    message!("wrote {pages} pages to {}", dir.display());
    Ok(())
}

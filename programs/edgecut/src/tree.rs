//! The command line of all commands, which the programs describe.

use crate::Own;
use crate::error::EdgecutError;
use crate::program::installation;
use clap::{Command, CommandFactory};
use edgecut_cli::{COMMANDS, CommandDescription, DESCRIBE, EdgecutCommand};
use std::io::Read;
use std::path::Path;
use std::process::{self, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time that a program has to describe itself.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The length at which a description is cut. The longest has less than 1 MB.
const MAX_DESCRIPTION_BYTES: u64 = 16 << 20;

/// A command, and the description of its program.
type Described = (&'static EdgecutCommand, CommandDescription);

/// Returns the description of each command's command line. Each program runs once.
pub(crate) fn descriptions() -> Vec<Result<Described, EdgecutError>> {
    let mut found: Vec<Result<Described, EdgecutError>> = Vec::new();
    for command in &COMMANDS {
        let known = found.iter().flatten().find(|(other, _)| !other.is_subcommand && other.program == command.program);
        let description = match known {
            Some((_, description)) => Ok(description.clone()),
            None => describe(command.program),
        };
        found.push(description.map(|of_program| (command, of_program)));
    }
    found
}

/// Asks a program of this installation. Other programs of the same name would do something else with the question.
fn describe(program: &'static str) -> Result<CommandDescription, EdgecutError> {
    let installation = installation();
    let Some(file) = installation.own(program) else {
        return Err(EdgecutError::NotInstalled { program, folder: installation.folder().to_owned() });
    };
    description_of(&file, process::Command::new(&file).arg(DESCRIBE), DESCRIBE_TIMEOUT)
}

/// Runs the program `file`, which prints a description.
fn description_of(
    file: &Path,
    asked: &mut process::Command,
    timeout: Duration,
) -> Result<CommandDescription, EdgecutError> {
    let program = file.to_owned();
    let mut child = match asked.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(source) => return Err(EdgecutError::Start { program, source }),
    };
    let (read, text) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        thread::spawn(move || {
            let mut text = Vec::new();
            // An incomplete description is no JSON.
            let _ = pipe.take(MAX_DESCRIPTION_BYTES).read_to_end(&mut text);
            let _ = read.send(text);
        });
    }
    let text = text.recv_timeout(timeout);
    // A program that has printed its description has nothing else to do.
    let _ = child.kill();
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    let reason = match text.map(|text| serde_json::from_slice(&text)) {
        Ok(Ok(description)) => return Ok(description),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("its output did not end within {} s", timeout.as_secs_f32()),
    };
    Err(EdgecutError::NotDescribed { program, status, reason })
}

/// Returns the command line of `edgecut` with all commands and their flags.
///
/// # Errors
/// A program that is missing or has another version.
pub(crate) fn whole_command_line() -> Result<Command, EdgecutError> {
    let mut whole = Command::new("edgecut")
        .bin_name("edgecut")
        .about("Trains graph neural networks on graphs and clusters that outgrow one machine")
        .version(env!("CARGO_PKG_VERSION"));
    for described in descriptions() {
        let (command, description) = described?;
        let subcommand =
            description.subcommands.iter().find(|other| command.is_subcommand && other.name == command.name);
        whole = whole.subcommand(subcommand.unwrap_or(&description).command(command.name));
    }
    Ok(whole.subcommands(Own::command().get_subcommands().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    /// Returns the reason why a command of the shell does not describe itself.
    fn refused(command: &str, timeout: Duration) -> String {
        description_of(Path::new("sh"), process::Command::new("sh").args(["-c", command]), timeout)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn programs_that_do_not_describe_themselves_are_ended() {
        assert_has(refused("exec sleep 1000", Duration::from_millis(100)), &["SIGKILL", "did not end within 0.1 s"]);
        assert_has(refused("exec >&-; exec sleep 1000", Duration::from_secs(60)), &["SIGKILL", "EOF"]);
        assert_has(refused("exec yes", Duration::from_secs(60)), &["expected value"]);
        assert_has(refused("echo usage; exit 3", Duration::from_secs(60)), &["(exit status: 3, "]);
    }
}

//! The program `edgecut`, which starts the other programs.

use edgecut_cli::{COMMANDS, CommandDescription, DESCRIBE};
use edgecut_testing::{Need, assert_has, copy_executable, skip, succeeded, unplace, write_executable};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const EDGECUT: &str = env!("CARGO_BIN_EXE_edgecut");

/// Returns the folder of all programs, of which other packages build the most.
fn programs(test: &str) -> Option<PathBuf> {
    let folder = Path::new(EDGECUT).parent().expect("a folder");
    for program in ["train", "partition-graph", "launch", "sampling-server"] {
        if !folder.join(program).is_file() {
            skip(Need::Programs, test, format!("{program} is not built: test the whole workspace"));
            return None;
        }
    }
    Some(folder.to_owned())
}

fn run(command: &mut Command) -> Output {
    unplace(command);
    command.stdin(Stdio::null()).output().expect("a started program")
}

fn edgecut(program: &Path, words: &[&str]) -> Output {
    run(Command::new(program).args(words))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: Output) -> String {
    String::from_utf8(succeeded(output).stdout).expect("text")
}

#[test]
fn every_command_runs_its_program_and_shows_its_name() {
    let Some(programs) = programs("every_command") else { return };
    let program = &programs.join("edgecut");
    let help = stdout(edgecut(program, &["--help"]));
    assert!(help.lines().count() < 24 && help.lines().all(|line| line.chars().count() < 80), "{help}");
    let commands = "partition info verify update features upload train predict sweep report sample launch";
    for command in commands.split(' ').chain(["serve-graph", "completions", "man"]) {
        assert!(help.contains(&format!(" {command} ")), "{command} is not in {help}");
        let of_command = stdout(edgecut(program, &["help", command]));
        assert!(of_command.contains(&format!("Usage: edgecut {command}")), "{of_command}");
        assert_eq!(of_command, stdout(edgecut(program, &[command, "--help"])));
    }
    let of_node = stdout(edgecut(program, &["help", "train", "node"]));
    assert!(of_node.contains("Usage: edgecut train node [OPTIONS]"), "{of_node}");
    assert!(of_node.contains("\n  edgecut train node --"), "examples are commands of edgecut: {of_node}");
    // The program alone keeps its name.
    let own = stdout(run(Command::new(programs.join("train")).args(["node", "--help"])));
    assert!(own.contains("Usage: train node [OPTIONS]") && own.contains("\n  train node --"), "{own}");
    let dir = tempfile::tempdir().expect("a folder");
    let parts = dir.path().join("parts");
    let path = parts.to_str().expect("text");
    let fake = ["partition", "--dataset", "fake", "--num-partitions", "2", "--method", "random", "--output-dir", path];
    succeeded(edgecut(program, &fake));
    assert!(stdout(edgecut(program, &["verify", path])).contains("all valid"));
    let flags = ["train", "node", "--dataset-root-dir", path, "--num-neighbors", "3", "--num-epochs", "1", "--json"];
    assert_has(stdout(edgecut(program, &[&flags[..], &["--nproc-per-node", "2"]].concat())), &["\"test_acc\""]);
    let failed = edgecut(program, &["train", "node", "--no-such-flag"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(stderr(&failed).contains("Usage: edgecut train node"), "{}", stderr(&failed));
}

#[test]
fn commands_of_tests_take_no_rank_from_a_launcher() {
    let mut again = Command::new(std::env::current_exe().expect("this test program"));
    again.args(["--exact", "every_command_runs_its_program_and_shows_its_name"]);
    let output = again.envs([("RANK", "1"), ("WORLD_SIZE", "2"), ("SLURM_PROCID", "1")]).output().expect("a test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// `edgecut` asks all programs beside it for their command lines, as in `edgecut completions`.
#[test]
fn the_image_has_the_programs_of_all_commands() {
    let image = include_str!("../../../Dockerfile");
    let installed: Vec<&str> =
        image.split_whitespace().filter_map(|word| word.strip_prefix("target/release/")).collect();
    for program in COMMANDS.iter().map(|command| command.program).chain(["edgecut"]) {
        assert!(installed.contains(&program), "{program} is not in the image: {installed:?}");
    }
    let build = image.lines().find_map(|line| line.strip_prefix("#   ")).expect("the command that builds the image");
    assert!(include_str!("../../../docs/src/schedulers.md").contains(build), "the guide builds it as {build}");
}

#[test]
fn unknown_commands_get_a_suggestion() {
    let Some(programs) = programs("unknown_commands") else { return };
    for (word, hint) in [
        ("tarin", "; did you mean `edgecut train`?"),
        ("partition-graph", "; did you mean `edgecut partition`?"),
        ("link", "; did you mean `edgecut train link`?"),
        ("something", "command 'something'; `edgecut --help` lists"),
    ] {
        let output = edgecut(&programs.join("edgecut"), &[word]);
        assert_eq!(output.status.code(), Some(2), "{word}");
        assert!(stderr(&output).starts_with("error: there is no command") && stderr(&output).contains(hint), "{word}");
    }
    let nothing = edgecut(&programs.join("edgecut"), &[]);
    assert!(nothing.status.code() == Some(2) && stderr(&nothing).contains("Usage: edgecut COMMAND"));
}

/// Returns the words after `edgecut` of all commands and their subcommands.
fn all_commands(programs: &Path) -> Vec<Vec<String>> {
    let mut found = vec![vec!["completions".to_owned()], vec!["man".to_owned()]];
    for command in &COMMANDS {
        let name = command.name.to_owned();
        if !command.is_subcommand {
            let text = stdout(run(Command::new(programs.join(command.program)).arg(DESCRIBE)));
            let description: CommandDescription = serde_json::from_str(&text).expect("a description");
            found.extend(description.subcommands.into_iter().map(|subcommand| vec![name.clone(), subcommand.name]));
        }
        found.push(vec![name]);
    }
    found
}

#[test]
fn the_short_help_of_every_command_has_a_line_of_80_columns_for_each_flag() {
    let Some(programs) = programs("short_help") else { return };
    let commands = all_commands(&programs);
    assert!(commands.len() > COMMANDS.len(), "subcommands are described");
    for command in commands {
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        words.push("-h");
        let short = stdout(edgecut(&programs.join("edgecut"), &words));
        *words.last_mut().expect("a flag") = "--help";
        let long = stdout(edgecut(&programs.join("edgecut"), &words));
        assert!(short != long && long.contains("Usage: edgecut"), "{command:?}");
        for line in short.lines() {
            assert!(line.chars().count() <= 80, "{command:?}: {line}");
            // The flag, the name of its value and its description.
            if let Some(flag) = line.strip_prefix("  --") {
                let about = flag.split_once("  ").map(|(_, about)| about.trim()).unwrap_or_default();
                assert!(!about.is_empty(), "{command:?}: {line}");
            }
        }
        assert!(short.contains("\n  ") && short.lines().count() < 60, "{command:?}: {short}");
    }
}

#[test]
fn misspelled_flags_and_values_get_a_suggestion() {
    let Some(programs) = programs("misspelled_flags") else { return };
    for (line, tip) in [
        ("train node --num-neighbours 5", "tip: did you mean --num-neighbors?"),
        ("train link --hiden_channels=5", "tip: did you mean --hidden-channels?"),
        ("train node --model sagee", "tip: did you mean sage?"),
        ("train node --metric acuracy", "unknown metric \"acuracy\" (did you mean accuracy?)"),
        ("train node --eval-negatives all", "tip: --eval-negatives is a flag of link"),
        ("partition --num-partition 2", "tip: did you mean --num-partitions?"),
        ("partition -num-partitions 2", "tip: did you mean --num-partitions?"),
        ("serve-graph --server-rnk 0", "tip: did you mean --server-rank?"),
        ("man --help-me", "error: unexpected argument '--help-me' found"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let output = edgecut(&programs.join("edgecut"), &words);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let error = stderr(&output);
        assert!(error.contains(tip) && error.matches("did you mean").count() <= 1, "{line}: {error}");
    }
}

#[test]
fn programs_are_found_beside_the_target_of_a_link_and_on_path() {
    let Some(programs) = programs("found_programs") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let link = dir.path().join("edgecut");
    symlink(programs.join("edgecut"), &link).expect("a link");
    assert!(stdout(edgecut(&link, &["train", "--version"])).starts_with("train 0.1.0 ("));
    let alone = dir.path().join("bin/edgecut");
    std::fs::create_dir(dir.path().join("bin")).expect("a folder");
    copy_executable(&programs.join("edgecut"), &alone);
    // A program of others beside an installed `edgecut` has a common name too.
    write_executable(&dir.path().join("bin/train"), b"#!/bin/sh\necho of others\n");
    let installed = dir.path().join("lib/edgecut");
    std::fs::create_dir_all(&installed).expect("a folder");
    copy_executable(&programs.join("train"), &installed.join("train"));
    assert!(stdout(edgecut(&alone, &["train", "--version"])).starts_with("train 0.1.0 ("));
    std::fs::remove_file(installed.join("train")).expect("removed");
    let mut command = Command::new(&alone);
    command.args(["train", "--version"]);
    assert!(run(command.env("PATH", &programs)).status.success());
    let missing = run(command.env("PATH", dir.path()));
    assert_eq!(missing.status.code(), Some(1));
    assert_has(stderr(&missing), &["the program `train` is neither in", "nor on PATH"]);
}

#[test]
fn programs_of_others_are_not_asked_for_their_command_line() {
    let Some(programs) = programs("programs_of_others") else { return };
    let dir = tempfile::tempdir().expect("a folder");
    for folder in ["bin", "others"] {
        std::fs::create_dir(dir.path().join(folder)).expect("a folder");
    }
    let alone = dir.path().join("bin/edgecut");
    copy_executable(&programs.join("edgecut"), &alone);
    for folder in ["", "others"] {
        write_executable(&dir.path().join(folder).join("train"), b"#!/bin/sh\ntouch \"$0-ran\"\n");
    }
    // A file of data is no program, and an empty entry of PATH is not the working directory.
    std::fs::write(dir.path().join("bin/launch"), "data").expect("a file");
    let path = format!(":{}", dir.path().join("others").display());
    for (words, status, expected) in [
        (vec!["node"], 2, "there is no command 'node'; `edgecut --help`"),
        (vec!["completions", "bash"], 1, "is not in"),
        (vec!["man", "pages"], 1, "is not in"),
        (vec!["launch"], 1, "the program `launch` is neither in"),
    ] {
        let mut command = Command::new(&alone);
        command.args(&words).env("PATH", &path).current_dir(&dir);
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        assert!(stderr(&output).contains(expected), "{words:?}: {}", stderr(&output));
    }
    for ran in ["train-ran", "others/train-ran"] {
        assert!(!dir.path().join(ran).exists(), "{ran}");
    }
}

#[test]
fn versions_name_the_commit_and_the_target() {
    let Some(programs) = programs("versions") else { return };
    for program in ["edgecut", "train", "partition-graph", "launch", "sampling-server"] {
        let version = stdout(edgecut(&programs.join(program), &["--version"]));
        let parts = version.trim_end().strip_prefix(&format!("{program} 0.1.0 (")).expect(&version);
        let (source, target) = parts.strip_suffix(')').and_then(|parts| parts.split_once(", ")).expect(&version);
        let known = ["source archive", "commit ", "checkout of commit "];
        assert!(known.iter().any(|known| source.starts_with(known)), "{version}");
        // The other programs may be of an earlier build.
        if let (Some(commit), "train") = (source.strip_prefix("checkout of commit "), program) {
            let git = ["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "HEAD"];
            let head = Command::new("git").args(git).output().map(|output| output.stdout).unwrap_or_default();
            assert!(head.is_empty() || head.starts_with(commit.as_bytes()), "{version}");
        }
        assert!(target.starts_with(std::env::consts::ARCH) && target.contains("linux"), "{version}");
    }
}

#[test]
fn completions_and_manual_pages_know_the_flags_of_all_programs() {
    let Some(programs) = programs("completions") else { return };
    let program = &programs.join("edgecut");
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(edgecut(program, &["completions", shell]));
        for word in ["serve-graph", "num-neighbors", "hold-out-edges", "max-client-batches", "ip-config", "sweep-seed"]
        {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let script = stdout(edgecut(program, &["completions", "bash"]));
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("edgecut.bash"), script).expect("a file");
    let completed = "source ./edgecut.bash; COMP_WORDS=(edgecut train node --num-nei); COMP_CWORD=3; COMP_TYPE=9
        _edgecut edgecut --num-nei node; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["-c", completed]).current_dir(&dir);
    assert_eq!(stdout(run(&mut bash)).trim(), "--num-neighbors");
    let pages = dir.path().join("man1");
    succeeded(edgecut(program, &["man", pages.to_str().expect("text")]));
    for (page, words) in [
        ("edgecut.1", vec!["serve\\-graph"]),
        (
            "edgecut-train-node.1",
            vec!["edgecut train node", "\\-\\-num\\-neighbors", "  edgecut train node \\-\\-dataset"],
        ),
        ("edgecut-serve-graph.1", vec!["\\-\\-max\\-client\\-batches"]),
        ("edgecut-predict.1", vec!["\\-\\-load\\-model"]),
    ] {
        let text = std::fs::read_to_string(pages.join(page)).expect(page);
        for word in words {
            assert!(text.contains(word), "{page}: no {word} in {text}");
        }
    }
    assert_eq!(edgecut(program, &["completions", "tcsh"]).status.code(), Some(2));
}

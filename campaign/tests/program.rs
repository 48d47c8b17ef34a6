//! Short campaigns. The long ones are run by hand (CONTRIBUTING.md).

use edgecut_testing::{Need, skip};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

const CAMPAIGN: &str = env!("CARGO_BIN_EXE_campaign");

/// Returns the reason why campaigns cannot run here, if they cannot. The tests of this process look once.
fn obstacle() -> Option<&'static str> {
    static OBSTACLE: OnceLock<Option<String>> = OnceLock::new();
    OBSTACLE.get_or_init(find_obstacle).as_deref()
}

fn find_obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces and mounts need root".into());
    }
    let is_built = |name: &&str| Path::new(CAMPAIGN).with_file_name(name).is_file();
    let missing = ["train", "partition-graph", "sampling-server"].into_iter().find(|name| !is_built(name));
    if let Some(name) = missing {
        return Some(format!("the program {name} is not built: test the whole workspace"));
    }
    let probe = format!("campaign-probe-{}", std::process::id());
    let ip = |verb: &str| Command::new("ip").args(["netns", verb, &probe]).output();
    let works = ip("add").is_ok_and(|made| made.status.success()) && Path::new("/dev/net/tun").exists();
    let _ = ip("delete");
    (!works).then(|| "network namespaces or TAP devices are not available".into())
}

/// Runs a campaign. Every round must pass.
fn passes(words: &[&str]) {
    let name = words[0];
    if let Some(why) = obstacle() {
        return skip(Need::Namespaces, &format!("campaign {name}"), why);
    }
    let output = run(words);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.starts_with("| ") && table.lines().count() > 2, "{table}");
}

fn run(words: &[&str]) -> Output {
    Command::new(CAMPAIGN).args(words).output().expect("start campaign")
}

/// The seed has a process that is killed, one that is terminated, and ones that are suspended early and late.
#[test]
fn processes_that_fail_are_named() {
    passes(&["processes", "--rounds", "4", "--seed", "6110"]);
}

#[test]
fn servers_and_trainers_survive_each_other() {
    passes(&["servers", "--rounds", "3", "--seed", "11"]);
}

/// The seed has links that are cut in one and in both directions, delayed and throttled, with all protections.
#[test]
fn links_that_fail_are_named() {
    passes(&["links", "--rounds", "4", "--seed", "1581"]);
}

#[test]
fn connections_that_reach_another_process_are_refused() {
    passes(&["redirects", "--rounds", "4", "--seed", "11"]);
}

#[test]
fn killed_trainings_have_the_result_of_whole_ones() {
    passes(&["checkpoints", "--rounds", "2", "--seed", "11"]);
}

#[test]
fn a_killed_partitioning_leaves_nothing_half_written() {
    passes(&["partitioning", "--rounds", "8", "--seed", "13"]);
}

/// The rounds have each program with each fault.
#[test]
fn disks_that_fail_give_one_error() {
    passes(&["disks", "--rounds", "28", "--seed", "11"]);
}

#[test]
fn encrypted_traffic_is_unreadable() {
    passes(&["traffic"]);
}

#[test]
fn a_round_that_fails_is_reported() {
    // Not one of the programs is beside this copy.
    let dir = tempfile::tempdir().expect("a folder");
    let alone = dir.path().join("campaign");
    edgecut_testing::copy_executable(CAMPAIGN.as_ref(), &alone);
    let output = Command::new(&alone).args(["partitioning", "--rounds", "1"]).output().expect("start campaign");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("build the whole workspace"));
    assert_eq!(run(&["links", "--rounds", "0"]).status.code(), Some(2));
}

//! The program finds planted defects, and no others in a few seconds.

use std::path::Path;
use std::process::{Command, Output};

fn fuzz(arguments: &[&str], failures: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    command.args(arguments).arg("--failures").arg(failures).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn planted_defects_are_found_saved_and_repeated() {
    for (target, why) in [
        ("planted-panic", "a planted panic"),
        ("planted-panic-of-thread", "a planted panic"),
        ("planted-memory", "more memory than its bound of 65536 + 64 * input"),
    ] {
        let failures = tempfile::tempdir().unwrap();
        let found = fuzz(&["--target", target, "--inputs", "300", "--seed", "5"], failures.path());
        let stderr = text(&found.stderr);
        assert_eq!(found.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
        let folder = std::fs::read_dir(failures.path()).unwrap().next().unwrap().unwrap();
        let saved = std::fs::read(folder.path().join("input")).unwrap();
        assert!(saved[0] > b'A', "{saved:?}");
        // The number of the input is enough to repeat the failure.
        let name = folder.file_name().into_string().unwrap();
        let number = name.rsplit('-').next().unwrap();
        let again = fuzz(&["--target", target, "--inputs", "1", "--seed", "5", "--first", number], failures.path());
        assert!(text(&again.stderr).contains(&format!("input {number} of seed 5")), "{}", text(&again.stderr));
        let other = fuzz(&["--target", target, "--inputs", "1", "--first", "0"], failures.path());
        assert!(other.status.success(), "the sample itself: {}", text(&other.stderr));
    }
}

#[test]
fn a_refused_sample_is_a_failure() {
    let failures = tempfile::tempdir().unwrap();
    let refused = fuzz(&["--target", "planted-refusal", "--inputs", "1"], failures.path());
    assert!(text(&refused.stderr).contains("a sample was refused"), "{}", text(&refused.stderr));
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn unknown_targets_are_refused() {
    let failures = tempfile::tempdir().unwrap();
    let refused = fuzz(&["--target", "mta"], failures.path());
    assert!(text(&refused.stderr).contains("--target mta: there is no such target; the targets are handshake"));
}

#[test]
fn no_target_breaks_a_rule_in_a_few_seconds() {
    let failures = tempfile::tempdir().unwrap();
    let output = fuzz(&["--inputs", "100000", "--seconds", "1", "--seed", "3"], failures.path());
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    let rows: Vec<Vec<&str>> = stdout.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 19, "{stdout}");
    for row in rows {
        let [_, inputs, accepted, ..] = row[..] else { panic!("{stdout}") };
        let [inputs, accepted]: [u64; 2] = [inputs, accepted].map(|number| number.parse().unwrap());
        assert!(0 < accepted && accepted < inputs, "a target that accepts all or nothing tests little: {stdout}");
    }
}

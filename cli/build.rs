//! Passes the commit and the target of this build on to the crate.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=EDGECUT_COMMIT");
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rustc-env=EDGECUT_SOURCE={}", source(&package));
    println!("cargo::rustc-env=EDGECUT_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// Returns the name of the source code.
fn source(package: &Path) -> String {
    let given = env::var("EDGECUT_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(|| of_published_package(package)) {
        return format!("commit {}", short(&commit));
    }
    // Files of a checkout may have changes, also after this script has run, so the build is not the commit's.
    match package.parent().and_then(of_checkout) {
        Some(commit) => format!("checkout of commit {}", short(&commit)),
        None => "source archive".to_owned(),
    }
}

/// Returns the first digits of a commit. A text that is not a commit stays.
fn short(commit: &str) -> &str {
    if commit.bytes().all(|byte| byte.is_ascii_hexdigit()) { commit.get(..12).unwrap_or(commit) } else { commit }
}

/// Returns the commit that `cargo package` noted in a package.
fn of_published_package(package: &Path) -> Option<String> {
    let text = fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let (_, after) = text.split_once("\"sha1\"")?;
    let commit = after.split('"').nth(1)?;
    let is_dirty =
        text.split_once("\"dirty\"").is_some_and(|(_, after)| after.trim_start_matches([':', ' ']).starts_with("true"));
    Some(if is_dirty { format!("{} with changes", short(commit)) } else { commit.to_owned() })
}

/// Returns the commit that is checked out in the repository `root`.
fn of_checkout(root: &Path) -> Option<String> {
    let mut git = root.join(".git");
    // In a further work tree, `.git` is a file with the path of a folder, and branches are in the folder of all work trees.
    if let Some(text) = read(&git) {
        git = root.join(text.strip_prefix("gitdir: ")?);
    }
    let common = read(&git.join("commondir")).map_or_else(|| git.clone(), |path| git.join(path));
    let head = read(&git.join("HEAD"))?;
    let Some(branch) = head.strip_prefix("ref: ") else { return Some(head) };
    let file = common.join(branch);
    if let Some(commit) = read(&file) {
        return Some(commit);
    }
    // The next commit makes the file, and its folder if need be, after which this script must run again.
    let folder = file.ancestors().skip(1).find(|folder| folder.is_dir())?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let packed = read(&common.join("packed-refs"))?;
    let line = packed.lines().find(|line| line.split_once(' ').is_some_and(|(_, name)| name == branch))?;
    line.split(' ').next().map(str::to_owned)
}

/// Reads a file, whose changes run this script again.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text.trim_end().to_owned())
}

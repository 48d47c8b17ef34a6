//! The version of a program.

/// Returns the version, the commit and the target of this build: `0.1.0 (commit 91e35f7a0c12, x86_64-unknown-linux-gnu)`. A
/// build without a repository has `source archive` in place of the commit.
pub fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("EDGECUT_SOURCE"), ", ", env!("EDGECUT_TARGET"), ")")
}

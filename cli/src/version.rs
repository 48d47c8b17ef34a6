//! The version of a program.

/// Returns the version, the commit and the target of this build: `0.1.0 (commit 91e35f7a0c12, x86_64-unknown-linux-gnu)`.
/// A build of a checkout, whose files may have changes, has `checkout of commit 91e35f7a0c12` in place of the commit, and a
/// build without a repository `source archive`.
pub fn version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("EDGECUT_SOURCE"), ", ", env!("EDGECUT_TARGET"), ")")
}

/// Returns the version and the commit, which builds of one commit for several targets have in common.
pub fn source_version() -> &'static str {
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("EDGECUT_SOURCE"), ")")
}

//! Work on a thread with a current folder of its own.

use nix::sched::{CloneFlags, unshare};
use std::path::Path;

/// Calls `work` with `true` on a thread whose current folder is `dir`, and with `false` if the system does not allow a thread to
/// have a current folder of its own, as in some containers.
///
/// METIS names its files relative to the current folder. That of the process stays as it is, because other threads use it.
pub(crate) fn with<T: Send>(dir: &Path, work: impl FnOnce(bool) -> T + Send) -> T {
    let run = || {
        // The kernel calls the current folder, the root and the umask of a thread its file system state.
        let moved = unshare(CloneFlags::CLONE_FS).is_ok() && std::env::set_current_dir(dir).is_ok();
        work(moved)
    };
    std::thread::scope(|scope| match scope.spawn(run).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_folder_of_the_process_stays() {
        let dir = tempfile::tempdir().unwrap();
        let before = std::env::current_dir().unwrap();
        let moved = with(dir.path(), |moved| {
            std::fs::write("level", "edges").unwrap();
            moved
        });
        assert_eq!(std::env::current_dir().unwrap(), before);
        let written = if moved { dir.path().join("level") } else { before.join("level") };
        std::fs::remove_file(written).unwrap();
    }
}

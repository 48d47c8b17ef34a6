//! Processes of tests.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

/// A process that is killed when it is dropped, so that a test that fails leaves no process behind.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a process.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        match command.spawn() {
            Ok(child) => Self(child),
            Err(error) => panic!("start {}: {error}", command.get_program().display()),
        }
    }
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(child)
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail for a process that has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Removes the variables of launchers from a program's environment. Call it before variables are added.
///
/// A test program that runs under Slurm, MPI or torchrun has these variables, and `train` would take its rank from them.
pub fn unplace(command: &mut Command) {
    const NAMES: [&str; 6] =
        ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "JOB_COMPLETION_INDEX"];
    const PREFIXES: [&str; 8] =
        ["MASTER_", "EDGECUT_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "MPI_LOCAL"];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if NAMES.contains(&&*text) || PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::path::Path;

    #[test]
    fn a_test_that_fails_leaves_no_process() {
        let failed = catch_unwind(|| {
            let process = Process::start(Command::new("sleep").arg("1000"));
            std::panic::panic_any(process.id());
        });
        let id = *failed.unwrap_err().downcast::<u32>().unwrap();
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "process {id} is left behind");
    }
}

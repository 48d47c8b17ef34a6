//! Compiled kernels on disk, for later runs of the same program.

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cubecl::config::cache::CacheConfig;
use cubecl::config::{CubeClRuntimeConfig, RuntimeConfig};

use crate::cuda::compiler::Compiler;
use crate::device::CudaGpu;

/// The most processes that keep kernels of one program at a time. Further ones compile all their kernels.
const MAX_PROCESSES: usize = 64;

/// The space that a folder must have for kernels, in bytes.
const PROBE_BYTES: usize = 32 << 20;

/// The file that marks a folder of kernels. Its time is the time of the last use.
const MARK: &str = "edgecut-kernels";

/// The time after which the kernels of another build are removed.
const KEPT_UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Keeps the kernels that this process compiles, and the choices between them, in a folder below `folder`, and takes kernels of
/// earlier processes from there. Compiling the kernels of a model takes tens of seconds. A `cubecl.toml` that names a folder for
/// kernels has precedence.
///
/// A folder belongs to one build of a program, one machine, one kind of GPU and one version of the compiler, since CubeCL
/// identifies kernels by names and settings and not by their code. One process at a time uses it. The lock is held until the
/// process ends. Folders of others that were not used for 30 days are removed.
///
/// Call this before the first use of a device. Later calls do nothing. Returns true if there are kernels of an earlier process.
///
/// # Errors
/// Fails if no folder can be created, locked and written to. The process then compiles all its kernels.
pub fn keep_kernels(folder: &Path, gpu: &CudaGpu) -> io::Result<bool> {
    if CubeClRuntimeConfig::storage().lock().is_some() {
        return Ok(true);
    }
    let mut config = CubeClRuntimeConfig::from_current_dir().override_from_env();
    if config.compilation.cache.is_some() {
        return Ok(true);
    }
    let compiler = Compiler::open().map_err(io::Error::other)?;
    let all = folder;
    let folder = all.join(folder_name(&std::env::current_exe()?, gpu, compiler.version())?);
    // Before the others are removed, so that this one stays.
    mark_used(&folder)?;
    remove_unused(all);
    let Some((folder, lock)) = lock_free_folder(&folder)? else {
        return Err(io::Error::other(format!("{MAX_PROCESSES} processes use {}", folder.display())));
    };
    // The lock lasts as long as the process.
    std::mem::forget(lock);
    let has_kernels = fs::read_dir(&folder)?.count() > 1;
    check_space(&folder)?;
    config.compilation.cache = Some(CacheConfig::File(folder.clone()));
    config.autotune.cache = CacheConfig::File(folder);
    CubeClRuntimeConfig::set(config);
    Ok(has_kernels)
}

/// Returns a name that another build of the program, kind of GPU or version of the compiler changes.
fn folder_name(program: &Path, gpu: &CudaGpu, compiler: (u32, u32)) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    fs::read(program)?.hash(&mut hasher);
    gpu.name.hash(&mut hasher);
    // Locks hold within a machine, and folders may be shared by several.
    host_name().hash(&mut hasher);
    let (major, minor) = gpu.compute_capability;
    Ok(format!("{:016x}-sm{major}{minor}-nvrtc{}.{}", hasher.finish(), compiler.0, compiler.1))
}

/// Returns the first numbered folder below `folder` that no other process has locked, and its lock.
fn lock_free_folder(folder: &Path) -> io::Result<Option<(PathBuf, File)>> {
    for number in 0..MAX_PROCESSES {
        let folder = folder.join(number.to_string());
        fs::create_dir_all(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => return Ok(Some((folder, lock))),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

fn host_name() -> Vec<u8> {
    fs::read("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// Marks a folder of kernels as used now by this machine.
fn mark_used(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Writing sets the time of the file. Another machine does not see the locks of this one.
    fs::write(folder.join(MARK), host_name())
}

/// Removes the folders of kernels of this machine below `all` that were not used for a long time. Folders without the mark, or with entries of
/// others, stay. What cannot be removed only takes space.
fn remove_unused(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let folder = entry.path();
        let used = fs::metadata(folder.join(MARK)).and_then(|mark| mark.modified());
        let is_unused = used.is_ok_and(|used| used.elapsed().is_ok_and(|time| time > KEPT_UNUSED));
        let is_own = fs::read(folder.join(MARK)).is_ok_and(|host| host == host_name());
        if is_unused && is_own && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = remove_kernels(&folder);
        }
    }
}

/// Removes a marked folder, unless a process uses it or it has other entries than folders of processes.
fn remove_kernels(folder: &Path) -> io::Result<()> {
    let mut of_processes = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == MARK {
            continue;
        }
        let is_number = entry.file_name().to_str().is_some_and(|name| name.parse::<usize>().is_ok());
        if !is_number || !entry.file_type()?.is_dir() {
            return Ok(());
        }
        of_processes.push(entry.path());
    }
    let mut locks = Vec::new();
    for of_process in &of_processes {
        let lock = File::create(of_process.join("lock"))?;
        if lock.try_lock().is_err() {
            return Ok(());
        }
        locks.push(lock);
    }
    for of_process in &of_processes {
        remove_folder(of_process)?;
    }
    fs::remove_file(folder.join(MARK))?;
    fs::remove_dir(folder)
}

/// Removes the kernels of a process.
#[allow(clippy::disallowed_methods, reason = "only kernels are in a numbered folder beside the mark")]
fn remove_folder(folder: &Path) -> io::Result<()> {
    fs::remove_dir_all(folder)
}

/// Checks that kernels can be written, because CubeCL panics if it cannot write one.
fn check_space(folder: &Path) -> io::Result<()> {
    let probe = folder.join("probe");
    let written = fs::write(&probe, vec![0_u8; PROBE_BYTES]);
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn processes_have_folders_of_their_own() {
        let root = tempfile::tempdir().expect("a folder");
        let (first, lock) = lock_free_folder(root.path()).expect("a folder").expect("a free one");
        let (second, _lock) = lock_free_folder(root.path()).expect("a folder").expect("a free one");
        assert_ne!(first, second);
        drop(lock);
        let (third, _lock) = lock_free_folder(root.path()).expect("a folder").expect("a free one");
        assert_eq!(third, first);
    }

    /// Makes a folder with kernels that were used some days ago.
    fn kernels(root: &Path, name: &str, days: u64) -> PathBuf {
        let folder = root.join(name);
        mark_used(&folder).expect("a mark");
        fs::create_dir(folder.join("0")).expect("a folder");
        fs::write(folder.join("0/kernel"), "code").expect("a kernel");
        let used = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
        let mark = File::options().write(true).open(folder.join(MARK)).expect("the mark");
        mark.set_modified(used).expect("a time");
        folder
    }

    #[test]
    fn only_marked_folders_that_nobody_has_used_for_long_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let [old, recent, in_use, with_others, unmarked] =
            [("old", 31), ("recent", 29), ("in use", 31), ("with others", 31), ("unmarked", 31)]
                .map(|(name, days)| kernels(root.path(), name, days));
        let (_, lock) = lock_free_folder(&in_use).expect("a folder").expect("a free one");
        fs::write(with_others.join("notes.txt"), "mine").expect("a file");
        fs::remove_file(unmarked.join(MARK)).expect("the mark");
        remove_unused(root.path());
        assert!(!old.exists());
        for kept in [&recent, &in_use, &with_others, &unmarked] {
            assert!(kept.join("0/kernel").is_file(), "{}", kept.display());
        }
        drop(lock);
        remove_unused(root.path());
        assert!(!in_use.exists());
    }

    #[test]
    fn another_build_another_gpu_and_another_compiler_have_other_names() {
        let root = tempfile::tempdir().expect("a folder");
        let program = root.path().join("program");
        let hopper = CudaGpu {
            index: 0,
            name: "a GPU".to_owned(),
            compute_capability: (9, 0),
            total_memory_bytes: 1,
            driver_version: (13, 0),
        };
        let ampere = CudaGpu { compute_capability: (8, 0), ..hopper.clone() };
        let mut names = std::collections::BTreeSet::new();
        for code in ["one build", "another"] {
            fs::write(&program, code).expect("a program");
            for gpu in [&hopper, &ampere] {
                for compiler in [(12, 9), (13, 0)] {
                    names.insert(folder_name(&program, gpu, compiler).expect("a name"));
                }
            }
        }
        assert_eq!(names.len(), 8);
    }
}

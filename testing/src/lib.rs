//! Tests that need something a machine may lack, such as Slurm or a browser, and processes, executable files and free ports
//! for tests.
//!
//! Such a test calls [`skip`]. A skipped test counts as passed, so where `EDGECUT_REQUIRE` is set, as in CI, `skip` fails
//! the test instead. `EDGECUT_MAY_LACK` lists the needs that may be missing all the same, separated by commas.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod process;
mod s3_server;

pub use process::{Process, unplace};
pub use rustix::process::Signal;
pub use s3_server::{BUCKET, S3Server};

use socket2::{Domain, Socket, Type};
use std::fmt::Display;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// Something that a test needs and a machine may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Chromium or another browser.
    Browser,
    /// A C compiler.
    Compiler,
    /// A GPU, or its stand-in of `scripts/cuda_on_cpu.sh`.
    Cuda,
    /// The real datasets, in `EDGECUT_DATA` or in `shared/data` beside the repository.
    Data,
    /// The address `::1`.
    Ipv6,
    /// Permission to mount a file system.
    Mount,
    /// Open MPI and MPICH.
    Mpi,
    /// Network namespaces, and an SSH server in them.
    Namespaces,
    /// Other programs of the workspace, which `cargo test` of one package does not build.
    Programs,
    /// Python with NumPy and the other packages that CI installs.
    Python,
    /// The rights of root.
    Root,
    /// A server with the interface of S3, of the Python package moto.
    S3,
    /// Slurm and munge.
    Slurm,
    /// The kernel's look-up of the user behind a socket.
    Sockets,
    /// Python with PyTorch Geometric.
    Torch,
}

impl Need {
    /// Returns true if a test that lacks this must fail.
    pub fn is_required(self) -> bool {
        let may_lack = std::env::var("EDGECUT_MAY_LACK").unwrap_or_default();
        let name = format!("{self:?}").to_lowercase();
        std::env::var_os("EDGECUT_REQUIRE").is_some() && may_lack.split(',').all(|lacking| lacking.trim() != name)
    }
}

/// Prints that a test is skipped.
///
/// # Panics
/// If the environment requires the test.
pub fn skip(need: Need, test: &str, why: impl Display) {
    assert!(!need.is_required(), "{test} must run here (EDGECUT_REQUIRE is set), but lacks {need:?}: {why:#}");
    // The test harness hides the output of `eprintln!` in tests that pass.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why:#}");
}

/// Returns the output of a program, which must have succeeded.
///
/// # Panics
/// With the standard error, if the program has failed.
#[track_caller]
pub fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Checks that a text, such as an error, has all of these words.
///
/// # Panics
/// With the text, if it lacks some of them.
#[track_caller]
pub fn assert_has(text: impl AsRef<str>, words: &[&str]) {
    let text = text.as_ref();
    for word in words {
        assert!(text.contains(word), "{text}, expected {word}");
    }
}

/// Returns true if `python` runs `import` followed by `modules`. Otherwise reports that the test is skipped.
pub fn python_has(mut python: Command, modules: &str, test: &str) -> bool {
    let imports = python.args(["-c", &format!("import {modules}")]).output();
    let found = imports.is_ok_and(|output| output.status.success());
    if !found {
        let need = if modules.contains("torch") { Need::Torch } else { Need::Python };
        skip(need, test, format!("{} cannot import {modules}", python.get_program().display()));
    }
    found
}

/// Returns true if there is a C compiler. Otherwise reports that the test is skipped.
pub fn has_c_compiler(test: &str) -> bool {
    let found = Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        skip(Need::Compiler, test, "no C compiler (cc) makes the stubs of libraries");
    }
    found
}

/// Returns the folder of the real dataset `name`. Without it, reports that the test is skipped.
pub fn dataset(name: &str, test: &str) -> Option<PathBuf> {
    let data = std::env::var_os("EDGECUT_DATA").map(PathBuf::from);
    let data = data.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"));
    let folder = data.join(name);
    if !folder.is_dir() {
        skip(Need::Data, test, format!("{} does not exist", folder.display()));
        return None;
    }
    Some(folder)
}

/// Returns the names of the entries of a folder, sorted.
///
/// # Panics
/// If the folder cannot be read, or a name is not UTF-8.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("list {dir:?}: {error}"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")).collect();
    names.sort();
    names
}

/// Writes an executable file with the bytes `content`, in a folder that exists.
///
/// Another process writes it. If this process did, a test on another thread could start a child at that moment, the child
/// would have the file open for writing until it runs its own program, and the kernel refuses to run such a file.
///
/// # Panics
/// If the file cannot be written.
pub fn write_executable(path: &Path, content: &[u8]) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022 && rm -f \"$0\" && cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.spawn().expect("start sh");
    shell.stdin.take().expect("a pipe").write_all(content).unwrap_or_else(|error| panic!("write {path:?}: {error}"));
    let status = shell.wait().expect("wait for sh");
    assert!(status.success(), "write {path:?}: {status}");
}

/// Copies the program `from` to `to`, as [`write_executable`] writes it.
///
/// # Panics
/// If `from` cannot be read or `to` cannot be written.
pub fn copy_executable(from: &Path, to: &Path) {
    let content = std::fs::read(from).unwrap_or_else(|error| panic!("read {from:?}: {error}"));
    write_executable(to, &content);
}

/// Returns a TCP port at which no process listens, as [`free_ports`] does.
pub fn free_port() -> u16 {
    free_ports(1)[0]
}

/// Returns `count` successive TCP ports at which no process listens. Until this process ends, no other call in any process
/// returns them, so programs that a test starts later can listen there.
///
/// The port of a listener that was closed is not free for long: the system may give it to the next socket that asks for
/// any port, or to an outgoing connection. The ports here are below the ones that Linux gives to such sockets, and below the
/// ones of the guide's commands, which run beside the tests. A UDP socket with the same number reserves a port among tests.
///
/// A listener would not be the right probe: a process that another test starts at that moment has a copy of it until it
/// runs its own program, and the port would be in use so long. A socket that is bound, and does not listen, does no harm.
///
/// # Panics
/// If there are no such ports.
pub fn free_ports(count: usize) -> Vec<u16> {
    free_ports_from(20_000, 9_000, count)
}

/// Returns ports as [`free_ports`] does, out of the `num_ports` ports from `first` on.
///
/// # Panics
/// If there are no such ports.
pub fn free_ports_from(first: u16, num_ports: u16, count: usize) -> Vec<u16> {
    static RESERVED: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    // Processes start at different ports, so that few of their attempts meet.
    let start = (std::process::id().wrapping_mul(97) % u32::from(num_ports)) as u16;
    let mut found = Vec::new();
    for offset in 0..num_ports {
        let port = first + (start + offset) % num_ports;
        if found.last().is_some_and(|(last, _)| last + 1 != port) {
            found.clear();
        }
        match UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(socket) if is_free(port) => found.push((port, socket)),
            _ => found.clear(),
        }
        if found.len() == count {
            let (ports, sockets): (Vec<u16>, Vec<UdpSocket>) = found.into_iter().unzip();
            reserved.extend(sockets);
            return ports;
        }
    }
    panic!("no {count} successive ports from {first} on are free")
}

/// Returns true if no process listens at the TCP port `port`.
fn is_free(port: u16) -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("make a socket");
    socket.set_reuse_address(true).expect("set SO_REUSEADDR");
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn free_ports_are_given_once_and_stay_free() {
        let of_threads = std::thread::scope(|threads| {
            let threads: Vec<_> = (0..4).map(|_| threads.spawn(|| [(); 20].map(|()| free_ports(3)))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(of_threads.iter().all(|ports| ports[0] + 1 == ports[1] && ports[1] + 1 == ports[2]));
        let ports: BTreeSet<u16> = of_threads.into_iter().flatten().collect();
        assert_eq!(ports.len(), 4 * 20 * 3);
        // Sockets that ask for any port do not get them, whether they listen or connect.
        let others: Vec<TcpListener> = (0..200).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        let streams = others.iter().map(|other| TcpStream::connect(other.local_addr().unwrap()).unwrap());
        let streams: Vec<TcpStream> = streams.collect();
        let taken =
            others.iter().map(|other| other.local_addr()).chain(streams.iter().map(|stream| stream.local_addr()));
        assert!(taken.into_iter().all(|addr| !ports.contains(&addr.unwrap().port())));
        for port in ports {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        }
    }

    #[test]
    fn ports_of_listeners_are_not_free() {
        for addr in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let listener = TcpListener::bind((addr, free_port())).unwrap();
            assert!(!is_free(listener.local_addr().unwrap().port()));
        }
    }

    #[test]
    fn free_ports_are_free_while_other_threads_start_processes() {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..200 {
                    assert!(Command::new("true").status().unwrap().success());
                }
            });
            for _ in 0..300 {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, free_port())).unwrap();
            }
        });
    }

    #[test]
    fn executables_run_while_other_threads_start_processes() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for thread in 0..4 {
                let script = folder.path().join(thread.to_string());
                threads.spawn(move || {
                    for round in 0..50 {
                        write_executable(&script, format!("#!/bin/sh\nexit {round}").as_bytes());
                        assert_eq!(Command::new(&script).status().unwrap().code(), Some(round));
                    }
                });
            }
        });
    }
}

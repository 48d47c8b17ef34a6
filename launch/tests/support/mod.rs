//! Hosts of a cluster on this machine: network namespaces with an address, a file system view and a real SSH server
//! each, or, if namespaces are not available, SSH servers on loopback ports.

#![allow(dead_code, reason = "not every test file uses all of it")]

use anyhow::{Context, bail};
use edgecut_testing::{Process, free_port};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const SSHD: &str = "/usr/sbin/sshd";
const SUBNET: &str = "10.99.0";

static LABS: AtomicU32 = AtomicU32::new(0);

/// Reports that a test is skipped.
pub(crate) fn skip(test: &str, why: impl Display) {
    edgecut_testing::skip(edgecut_testing::Need::Namespaces, test, why);
}

/// Runs a command, and returns its output if it succeeds.
pub(crate) fn run(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let done = Command::new(program).args(args).stdin(Stdio::null()).output();
    let done = done.with_context(|| program.to_owned())?;
    if done.status.success() {
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    } else {
        bail!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim())
    }
}

/// A host of the lab.
pub(crate) struct Host {
    /// The address.
    pub(crate) addr: String,
    /// The network namespace.
    namespace: Option<String>,
    port: u16,
    /// The host's content of [`Lab::workspace`].
    pub(crate) files: PathBuf,
    sshd: Option<Child>,
}

/// Hosts that reach each other, and a place from which to launch.
pub(crate) struct Lab {
    dir: TempDir,
    name: String,
    pub(crate) hosts: Vec<Host>,
    launcher: Option<String>,
    /// The folder in which jobs run, on every host.
    pub(crate) workspace: PathBuf,
    /// The configuration of the SSH client.
    pub(crate) ssh_config: PathBuf,
    /// The variable that all processes of the lab's jobs have.
    pub(crate) mark: String,
    /// The port on which rank 0 listens.
    pub(crate) master_port: u16,
    /// True if the hosts share a home directory.
    shared_home: bool,
}

impl Lab {
    /// Creates hosts in network namespaces. The error tells what is missing.
    pub(crate) fn namespaces(count: usize) -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("network namespaces need root");
        }
        let mut lab = Self::empty()?;
        let launcher = format!("{}l", lab.name);
        run("ip", &["netns", "add", &launcher])?;
        lab.launcher = Some(launcher.clone());
        let ip = |args: &str| run("ip", &args.split(' ').collect::<Vec<_>>());
        ip(&format!("-n {launcher} link add name lan type bridge"))?;
        ip(&format!("-n {launcher} addr add {SUBNET}.100/24 dev lan"))?;
        ip(&format!("-n {launcher} link set lan up"))?;
        ip(&format!("-n {launcher} link set lo up"))?;
        for number in 0..count {
            let namespace = format!("{}h{number}", lab.name);
            let addr = format!("{SUBNET}.{}", number + 1);
            ip(&format!("netns add {namespace}"))?;
            let files = lab.dir.path().join(format!("host-{number}"));
            fs::create_dir(&files)?;
            lab.hosts.push(Host {
                addr: addr.clone(),
                namespace: Some(namespace.clone()),
                port: 22,
                files,
                sshd: None,
            });
            ip(&format!("-n {launcher} link add v{number} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("-n {launcher} link set v{number} master lan up"))?;
            ip(&format!("-n {namespace} addr add {addr}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
            lab.start_sshd(number, "")?;
        }
        lab.trust_all()?;
        Ok(lab)
    }

    /// Creates hosts in network namespaces. Reports that the test is skipped if they are not available.
    pub(crate) fn namespaces_for(test: &str, count: usize) -> Option<Self> {
        Self::namespaces(count).inspect_err(|why| skip(test, why)).ok()
    }

    /// Starts SSH servers on ports of this machine, for the user who runs the tests.
    pub(crate) fn loopback(count: usize) -> anyhow::Result<Self> {
        let mut lab = Self::empty()?;
        // All loopback labs share this machine's ports.
        lab.master_port = free_port();
        for _ in 0..count {
            let port = free_port();
            let files = lab.workspace.clone();
            lab.hosts.push(Host { addr: "127.0.0.1".into(), namespace: None, port, files, sshd: None });
            lab.start_sshd(lab.hosts.len() - 1, "")?;
        }
        lab.trust_all()?;
        Ok(lab)
    }

    fn empty() -> anyhow::Result<Self> {
        if !Path::new(SSHD).exists() {
            bail!("{SSHD} is missing: install openssh-server");
        }
        let dir = tempfile::tempdir()?;
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let name = format!("ec{}x{number}", std::process::id());
        let workspace = dir.path().join("workspace");
        let ssh_config = dir.path().join("ssh_config");
        for folder in [&workspace, &PathBuf::from("/run/sshd")] {
            let _ = fs::create_dir(folder);
        }
        let path = |file: &str| dir.path().join(file).display().to_string();
        for key in ["user_key", "host_key"] {
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])?;
        }
        fs::copy(path("user_key.pub"), path("authorized_keys"))?;
        let config = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\nUser {}\n",
            path("user_key"),
            path("known_hosts"),
            run("id", &["-un"])?.trim(),
        );
        fs::write(&ssh_config, config)?;
        let mark = format!("LAB_MARK={name}");
        Ok(Self {
            dir,
            name,
            hosts: Vec::new(),
            launcher: None,
            workspace,
            ssh_config,
            mark,
            master_port: 11111,
            shared_home: false,
        })
    }

    /// Starts a host's SSH server, with additional lines of configuration.
    pub(crate) fn start_sshd(&mut self, number: usize, more: &str) -> anyhow::Result<()> {
        let dir = self.dir.path().to_owned();
        let path = |file: &str| dir.join(file).display().to_string();
        let host = &self.hosts[number];
        let cache = path(&format!("cache-{}", if self.shared_home { 0 } else { number }));
        let config = format!(
            "{more}\nListenAddress {}\nPort {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n\
             MaxStartups 100\nSetEnv XDG_CACHE_HOME={cache} LAB_HOST={number}\n",
            host.addr,
            host.port,
            path("host_key"),
            path("authorized_keys"),
        );
        let file = path(&format!("sshd_config-{number}"));
        fs::write(&file, config)?;
        let log = fs::File::create(path(&format!("sshd-{number}.log")))?;
        let mut command = match &host.namespace {
            // The host's own view of the workspace, as if it had its own disk.
            Some(namespace) => {
                let mut command = Command::new("ip");
                let view = format!(
                    "mount --bind '{}' '{}' && exec {SSHD} -D -e -f '{file}'",
                    host.files.display(),
                    self.workspace.display()
                );
                command.args(["netns", "exec", namespace, "unshare", "-m", "sh", "-c", &view]);
                command
            }
            None => {
                let mut command = Command::new(SSHD);
                command.args(["-D", "-e", "-f", &file]);
                command
            }
        };
        let sshd = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let addr = host.addr.clone();
        let port = host.port;
        let namespace = host.namespace.clone();
        self.hosts[number].sshd = Some(sshd.context("start sshd")?);
        let listens = || match &namespace {
            Some(namespace) => {
                let listening = run("ip", &["netns", "exec", namespace, "cat", "/proc/net/tcp"]);
                listening.is_ok_and(|table| table.contains(":0016 00000000:0000 0A"))
            }
            None => TcpStream::connect((addr.as_str(), port)).is_ok(),
        };
        if wait_until(listens) {
            Ok(())
        } else {
            bail!("sshd does not start: {}", read(path(&format!("sshd-{number}.log"))))
        }
    }

    /// Gives the hosts a shared home directory, as many clusters have.
    pub(crate) fn share_home(&mut self) {
        self.shared_home = true;
        for number in 0..self.hosts.len() {
            self.stop_sshd(number);
            self.start_sshd(number, "").unwrap();
        }
    }

    /// Ends a host's SSH server. Its sessions continue.
    pub(crate) fn stop_sshd(&mut self, number: usize) {
        if let Some(mut sshd) = self.hosts[number].sshd.take() {
            let _ = sshd.kill();
            let _ = sshd.wait();
        }
    }

    /// Adds the hosts' keys to the known hosts.
    pub(crate) fn trust_all(&self) -> anyhow::Result<()> {
        let key = read(self.dir.path().join("host_key.pub"));
        let key: Vec<&str> = key.split_whitespace().take(2).collect();
        let line = |host: &Host| match host.port {
            22 => format!("{} {}\n", host.addr, key.join(" ")),
            port => format!("[{}]:{port} {}\n", host.addr, key.join(" ")),
        };
        let lines: String = self.hosts.iter().map(line).collect();
        self.write_known_hosts(&lines);
        Ok(())
    }

    pub(crate) fn write_known_hosts(&self, lines: &str) {
        fs::write(self.dir.path().join("known_hosts"), lines).unwrap();
    }

    /// Changes a host's key, as if the machine had been replaced.
    pub(crate) fn replace_host_key(&mut self, number: usize) {
        let path = self.dir.path().join("host_key");
        for file in [path.clone(), path.with_extension("pub")] {
            fs::remove_file(file).unwrap();
        }
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &path.display().to_string()]).unwrap();
        self.stop_sshd(number);
        self.start_sshd(number, "").unwrap();
    }

    /// Writes an `ip_config.yaml` of the hosts.
    pub(crate) fn ip_config(&self, processes: usize) -> PathBuf {
        let host =
            |host: &Host| format!("  - {{address: {}, ssh_port: {}, processes: {processes}}}\n", host.addr, host.port);
        let hosts: String = self.hosts.iter().map(host).collect();
        self.write_ip_config(&format!("master_port: {}\nhosts:\n{hosts}", self.master_port))
    }

    /// Writes an `ip_config.yaml` in which each host has a role, with more settings after it if given.
    pub(crate) fn roles_config(&self, roles: &[&str]) -> PathBuf {
        let host = |(host, role): (&Host, &&str)| {
            format!("  - {{address: {}, ssh_port: {}, role: {role}}}\n", host.addr, host.port)
        };
        let hosts: String = self.hosts.iter().zip(roles).map(host).collect();
        self.write_ip_config(&format!("server_port: {}\nhosts:\n{hosts}", self.master_port))
    }

    pub(crate) fn write_ip_config(&self, text: &str) -> PathBuf {
        let path = self.dir.path().join("ip_config.yaml");
        fs::write(&path, text).unwrap();
        path
    }

    /// Returns a path in the folder of the launching side.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes an executable script to every host's workspace.
    pub(crate) fn script(&self, name: &str, text: &str) {
        self.hosts.iter().for_each(|host| write_script(&host.files.join(name), text));
    }

    /// Returns `launch` with the given flags, to be run in the launcher's namespace.
    pub(crate) fn launch(&self, flags: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_launch");
        let mut command = match &self.launcher {
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace, program]);
                command
            }
            None => Command::new(program),
        };
        command.args(["--ssh-config", &self.ssh_config.display().to_string(), "--extra-envs", &self.mark]);
        command.args(["--workspace", &self.workspace.display().to_string()]).args(flags);
        command.stdin(Stdio::null()).current_dir(self.dir.path()).env_remove("EDGECUT_TOKEN");
        command
    }

    /// Runs `launch` to its end.
    pub(crate) fn run(&self, flags: &[&str]) -> Run {
        let child = self.spawn(flags);
        child.finish()
    }

    /// Starts `launch`.
    pub(crate) fn spawn(&self, flags: &[&str]) -> Running {
        let mut command = self.launch(flags);
        Running::new(Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped())))
    }

    /// Returns the live processes of the lab's jobs, on all hosts.
    pub(crate) fn job_processes(&self) -> Vec<i32> {
        processes_with(&self.mark)
    }

    /// Returns the process of a rank of the lab's jobs.
    pub(crate) fn rank(&self, rank: usize) -> i32 {
        let marked = format!("\0RANK={rank}\0");
        let ranks = self.job_processes();
        let found = ranks.into_iter().find(|pid| read(format!("/proc/{pid}/environ")).contains(&marked));
        found.expect("a rank that runs")
    }

    /// Writes a file with the secret of servers and trainers, and returns its path.
    pub(crate) fn token(&self) -> String {
        let token = self.path("token");
        fs::write(&token, "a secret of more than 16 bytes\n").unwrap();
        fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        arg(&token)
    }

    /// Waits until no process of the lab's jobs is left.
    pub(crate) fn wait_until_all_are_gone(&self) {
        assert!(wait_until(|| self.job_processes().is_empty()), "still there: {:?}", self.describe());
    }

    fn describe(&self) -> Vec<String> {
        self.job_processes()
            .into_iter()
            .map(|pid| format!("{pid} {}", read(format!("/proc/{pid}/cmdline")).replace('\0', " ")))
            .collect()
    }

    /// Takes a host off the network, or puts it back.
    pub(crate) fn cut(&self, number: usize, cut: bool) {
        let launcher = self.launcher.as_deref().unwrap();
        let device = format!("v{number}");
        let end = if cut { vec!["nomaster"] } else { vec!["master", "lan"] };
        run("ip", &[&["-n", launcher, "link", "set", &device], end.as_slice()].concat()).unwrap();
    }

    /// Runs a command on a host, outside of its SSH server.
    pub(crate) fn on_host(&self, number: usize, command: &str) -> anyhow::Result<String> {
        let namespace = self.hosts[number].namespace.as_deref().unwrap();
        run("ip", &[&["netns", "exec", namespace], command.split(' ').collect::<Vec<_>>().as_slice()].concat())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for number in 0..self.hosts.len() {
            self.stop_sshd(number);
        }
        // Ends what a failed test has left, by namespace or by mark, so that only the lab's own processes are ended.
        let namespaces: Vec<&String> =
            self.hosts.iter().filter_map(|h| h.namespace.as_ref()).chain(&self.launcher).collect();
        let mut left = self.job_processes();
        for namespace in &namespaces {
            let pids = run("ip", &["netns", "pids", namespace]).unwrap_or_default();
            left.extend(pids.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        left.into_iter().for_each(|pid| signal(pid, Signal::KILL));
        for namespace in namespaces {
            let _ = run("ip", &["netns", "del", namespace]);
        }
    }
}

/// A running `launch`.
pub(crate) struct Running {
    pub(crate) child: Process,
    out: std::thread::JoinHandle<String>,
    err: std::thread::JoinHandle<String>,
    seen: std::sync::Arc<std::sync::Mutex<String>>,
}

/// The result of a `launch` that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    fn new(mut child: Process) -> Self {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let reader = |mut pipe: Box<dyn Read + Send>| {
            let seen = seen.clone();
            std::thread::spawn(move || {
                let mut all = Vec::new();
                let mut block = [0; 4096];
                while let Ok(read @ 1..) = pipe.read(&mut block) {
                    all.extend_from_slice(&block[..read]);
                    seen.lock().unwrap().push_str(&String::from_utf8_lossy(&block[..read]));
                }
                String::from_utf8_lossy(&all).into_owned()
            })
        };
        let out = reader(Box::new(child.stdout.take().unwrap()));
        let err = reader(Box::new(child.stderr.take().unwrap()));
        Self { child, out, err, seen }
    }

    /// Waits until the output contains `text` at least `times` times.
    pub(crate) fn wait_for(&self, text: &str, times: usize) {
        let found = || self.seen.lock().unwrap().matches(text).count() >= times;
        assert!(wait_until(found), "{text:?} is not {times} times in:\n{}", self.seen.lock().unwrap());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.child.signal(signal);
    }

    pub(crate) fn finish(mut self) -> Run {
        let ended = wait_until(|| self.child.try_wait().unwrap().is_some());
        if !ended {
            let _ = self.child.kill();
        }
        let status = self.child.wait().unwrap();
        let run = Run { status, out: self.out.join().unwrap(), err: self.err.join().unwrap() };
        assert!(ended, "launch does not end: {run:#?}");
        run
    }
}

/// Returns the processes whose environment has the variable. `launch` itself has it only on its command line.
pub(crate) fn processes_with(variable: &str) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == variable.as_bytes())
    };
    pids.filter(has).collect()
}

/// Sends a signal to a process, which may have ended.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// Returns the process that has started another one.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let status = read(format!("/proc/{pid}/status"));
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    holds()
}

/// Returns a path as an argument.
pub(crate) fn arg(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

pub(crate) fn write_script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    edgecut_testing::write_executable(path, format!("#!/bin/sh\n{text}").as_bytes());
}

/// Returns the output of a command, if it succeeded.
pub(crate) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

//! A Slurm cluster with two nodes on this machine, with its own files and ports. Dropping the value stops it.

use crate::programs::*;
use edgecut_testing::free_port;
use std::fmt::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The names of the nodes. They are loopback addresses, so every machine resolves them.
const NODES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
/// The folder of Debian's system programs.
const SYSTEM_BIN: &str = "/usr/sbin";
/// The number of jobs whose ports must be free when the cluster starts.
const JOBS: u16 = 8;

pub(crate) struct SlurmCluster {
    dir: Folder,
    daemons: Vec<Process>,
}

impl SlurmCluster {
    /// Starts the daemons and waits until both nodes accept jobs.
    ///
    /// # Errors
    /// The reason why Slurm cannot run here, or the errors of its daemons.
    pub(crate) fn start() -> Result<Self, String> {
        if !rustix::process::getuid().is_root() {
            return Err("only root can start Slurm's daemons".to_owned());
        }
        for program in ["munged", "slurmctld", "slurmd", "srun", "sbatch"] {
            if find(program).is_none() {
                return Err(format!("no {program}: apt-get install slurm-wlm munge"));
            }
        }
        let dir = Folder::new();
        let mut slurm = Self { dir, daemons: Vec::new() };
        slurm.write_key();
        std::fs::create_dir(slurm.path("state")).expect("create a folder");
        std::fs::write(slurm.path("slurm.conf"), slurm.configuration()).expect("write slurm.conf");
        let options = ["socket", "key-file", "pid-file", "log-file", "seed-file"];
        let options = options.map(|option| format!("--{option}={}", slurm.path(&format!("munge.{option}")).display()));
        slurm.daemon("munged", options.iter().map(String::as_str).chain(["--foreground", "--force"]));
        let socket = slurm.path("munge.socket");
        slurm.wait("munged has not started", |_| socket.exists())?;
        slurm.daemon("slurmctld", ["-D"]);
        for node in NODES {
            slurm.daemon("slurmd", ["-D", "-N", node]);
        }
        slurm.wait("the nodes take no jobs", |slurm| {
            let state = end(Process::start(slurm.command("sinfo").args(["-h", "-N", "-o", "%T"])));
            String::from_utf8_lossy(&state.stdout).lines().filter(|line| *line == "idle").count() == NODES.len()
        })?;
        Ok(slurm)
    }

    /// Returns a command of Slurm that uses this cluster.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program).expect("a program of Slurm"));
        unplace(&mut command);
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn write_key(&self) {
        let key: String = std::iter::repeat_n("not a secret: it serves one run of a test. ", 4).collect();
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(self.path("munge.key-file"));
        std::io::Write::write_all(&mut file.expect("create the key"), key.as_bytes()).expect("write the key");
    }

    fn configuration(&self) -> String {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("this machine's name");
        let host = host.trim().split('.').next().unwrap_or_default();
        let dir = self.dir.path().display();
        let [controller, first, second] = [(); 3].map(|()| free_port());
        let mut text = format!(
            "ClusterName=edgecut-test\n\
             SlurmctldHost={host}(127.0.0.1)\n\
             SlurmctldPort={controller}\n\
             SlurmUser=root\n\
             AuthType=auth/munge\n\
             AuthInfo=socket={dir}/munge.socket\n\
             ProctrackType=proctrack/pgid\n\
             TaskPlugin=task/none\n\
             SelectType=select/cons_tres\n\
             SelectTypeParameters=CR_Core\n\
             AccountingStorageType=accounting_storage/none\n\
             JobAcctGatherType=jobacct_gather/none\n\
             MpiDefault=none\n\
             ReturnToService=2\n\
             SlurmdParameters=config_overrides\n\
             StateSaveLocation={dir}/state\n\
             SlurmctldPidFile={dir}/slurmctld.pid\n\
             SlurmctldLogFile={dir}/slurmctld.log\n\
             SlurmdPidFile={dir}/slurmd-%n.pid\n\
             SlurmdLogFile={dir}/slurmd-%n.log\n\
             SlurmdSpoolDir={dir}/spool-%n\n\
             FirstJobId={}\n\
             PartitionName=main Nodes=ALL Default=YES State=UP\n",
            first_job()
        );
        for (node, port) in NODES.iter().zip([first, second]) {
            let own = format!("NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}");
            writeln!(text, "{own} CPUs=4 RealMemory=64").expect("write to a string");
        }
        text
    }

    fn daemon<'a>(&mut self, program: &str, flags: impl IntoIterator<Item = &'a str>) {
        let log = std::fs::File::create(self.path(&format!("{program}-{}.out", self.daemons.len())));
        let log = log.expect("create a log file");
        let mut command = self.command(program);
        command.args(flags).stdout(log.try_clone().expect("a second handle")).stderr(log);
        self.daemons.push(Process::start(&mut command));
    }

    /// Waits until `is_done` is true. Fails at a timeout or if a daemon ends.
    fn wait(&mut self, what: &str, mut is_done: impl FnMut(&Self) -> bool) -> Result<(), String> {
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            let ended = self.daemons.iter_mut().any(|daemon| daemon.try_wait().expect("ask for a daemon").is_some());
            if ended || Instant::now() > deadline {
                return Err(format!("{what}\n{}", self.complaints()));
            }
            if is_done(self) {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Returns the error lines in the logs of the daemons.
    fn complaints(&self) -> String {
        let files = std::fs::read_dir(self.dir.path()).expect("the cluster's folder").flatten().map(|file| file.path());
        let logs = files.filter(|path| path.extension().is_some_and(|ext| ext == "out"));
        let text: String = logs.map(|path| std::fs::read_to_string(path).unwrap_or_default()).collect();
        let is_bad = |line: &&str| line.contains("error") || line.contains("fatal") || line.contains("Error");
        text.lines().filter(is_bad).collect::<Vec<_>>().join("\n")
    }

    /// Cancels the jobs that a failed test left behind.
    fn cancel_jobs(&self) {
        let cancelled = end(Process::start(self.command("scancel").args(["--user", "root"])));
        if !cancelled.status.success() {
            eprintln!("scancel: {}", stderr(&cancelled));
        }
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        if std::thread::panicking() && self.daemons.len() > 1 {
            self.cancel_jobs();
        }
        // The daemons stop in reverse order: the nodes first, and munged, which all others need, last.
        for mut daemon in self.daemons.drain(..).rev() {
            if let Some(pid) = rustix::process::Pid::from_raw(daemon.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
            let deadline = Instant::now() + ENDS_WITHIN;
            while daemon.try_wait().is_ok_and(|status| status.is_none()) {
                if Instant::now() > deadline {
                    let _ = daemon.kill();
                    let _ = daemon.wait();
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
        }
    }
}

/// Returns the path of a program in the folders of `PATH` or in [`SYSTEM_BIN`].
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain([Path::new(SYSTEM_BIN).to_owned()]);
    dirs.map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Returns a number for the first job such that the ports derived from the next [`JOBS`] job numbers are free.
fn first_job() -> u16 {
    let free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
    let start = 10_001 + std::process::id() as u16 % 5000;
    let first = (start..20_000 - JOBS).find(|&first| (first..first + JOBS).all(free)).expect("free ports");
    first - 10_000
}

//! A network that drops all packets from one rank to another: the job ends, and the error names both ranks.
//!
//! The ranks run in network namespaces. The tests need root and the program `ip`.

mod support;

use edgecut_testing::{Need, skip};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use edgecut_cluster::Token;
use support::worker::{Place, Worker, run_if_started};

const WORLD_SIZE: usize = 3;
const SUBNET: &str = "10.98.0";
const PORT: u16 = 29_500;
/// Far more time than a job needs to start, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest time that a job may take to end after a cut.
const LONGEST: Duration = Duration::from_secs(60);

/// The worker process of the other tests. As a test of its own it does nothing.
#[test]
fn worker_process() {
    run_if_started();
}

fn ip(args: &str) -> Result<(), String> {
    let done = Command::new("ip").args(args.split(' ')).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("ip: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("ip {args}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}

/// A network of one machine per rank: network namespaces that are connected by a bridge. Each has permanent neighbor
/// entries for the others, so that a test can direct the packets for one of them to a MAC address that does not exist.
struct Net {
    name: String,
}

impl Net {
    fn new(number: usize) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let name = format!("ecc{}x{number}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let net = Self { name };
        let name = &net.name;
        ip(&format!("-n {name} link add name lan type bridge"))?;
        ip(&format!("-n {name} link set lan up"))?;
        for rank in 0..WORLD_SIZE {
            let host = net.host(rank);
            ip(&format!("netns add {host}"))?;
            ip(&format!("-n {name} link add v{rank} type veth peer name eth0 netns {host}"))?;
            ip(&format!("-n {name} link set v{rank} master lan up"))?;
            ip(&format!("-n {host} link set eth0 address {}", mac(rank)))?;
            ip(&format!("-n {host} addr add {}/24 dev eth0", addr(rank)))?;
            ip(&format!("-n {host} link set eth0 up"))?;
            ip(&format!("-n {host} link set lo up"))?;
        }
        for from in 0..WORLD_SIZE {
            for to in (0..WORLD_SIZE).filter(|&to| to != from) {
                net.send_to(from, to, &mac(to))?;
            }
        }
        Ok(net)
    }

    fn host(&self, rank: usize) -> String {
        format!("{}h{rank}", self.name)
    }

    /// Makes a rank send its packets for another rank to a MAC address.
    fn send_to(&self, from: usize, to: usize, mac: &str) -> Result<(), String> {
        ip(&format!("-n {} neigh replace {} lladdr {mac} dev eth0 nud permanent", self.host(from), addr(to)))
    }

    /// Cuts the network from one rank to another, in this direction only.
    fn cut(&self, from: usize, to: usize) {
        self.send_to(from, to, "02:00:00:00:00:ff").unwrap();
    }

    fn command(&self, rank: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(rank)]);
        command
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for rank in 0..WORLD_SIZE {
            let _ = ip(&format!("netns del {}", self.host(rank)));
        }
        let _ = ip(&format!("netns del {}", self.name));
    }
}

fn addr(rank: usize) -> String {
    format!("{SUBNET}.{}", rank + 1)
}

fn mac(rank: usize) -> String {
    format!("02:00:00:00:00:{:02x}", rank + 1)
}

/// Runs a job, cuts the network from one rank to another, and returns the last line of each rank.
fn run_and_cut(number: usize, from: usize, to: usize) -> Result<Vec<String>, String> {
    let net = Net::new(number)?;
    let token = Token::random().unwrap();
    let start = |rank| {
        let place = Place {
            rank,
            world_size: WORLD_SIZE,
            master_addr: addr(0),
            master_port: PORT,
            heartbeat_timeout_ms: 4_000,
        };
        Worker::start(net.command(rank), &place, Some(token.to_env_value()))
    };
    let workers: Vec<Worker> = (0..WORLD_SIZE).map(start).collect();
    workers.iter().for_each(|worker| worker.wait_until_running(PATIENCE));
    net.cut(from, to);
    let deadline = Instant::now() + LONGEST;
    Ok(workers.iter().map(|worker| worker.end(deadline.saturating_duration_since(Instant::now()))).collect())
}

#[test]
fn every_cut_link_ends_the_job_and_is_named_by_all_ranks() {
    let pairs = (0..WORLD_SIZE).flat_map(|from| (0..WORLD_SIZE).map(move |to| (from, to)));
    let pairs: Vec<(usize, usize)> = pairs.filter(|(from, to)| from != to).collect();
    // The jobs wait for timeouts, so all of them run at the same time.
    let jobs: Vec<_> = std::thread::scope(|threads| {
        let cuts = pairs.iter().enumerate();
        let jobs: Vec<_> =
            cuts.map(|(number, &(from, to))| threads.spawn(move || run_and_cut(number, from, to))).collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    for ((from, to), job) in pairs.into_iter().zip(jobs) {
        let ends = match job {
            Ok(ends) => ends,
            Err(why) => return skip(Need::Namespaces, "every_cut_link_ends_the_job_and_is_named_by_all_ranks", why),
        };
        for (rank, end) in ends.iter().enumerate() {
            println!("cut {from} -> {to}, rank {rank}: {end}");
            for named in [from, to] {
                assert!(end.contains(&format!("rank {named}")), "cut {from} -> {to}, rank {rank}: {end}");
            }
            assert!(end.contains("no data reached rank"), "cut {from} -> {to}, rank {rank}: {end}");
            if from > 0 && to > 0 {
                assert!(end.starts_with("OTHER the connection between rank"), "cut {from} -> {to}, rank {rank}: {end}");
            }
        }
    }
}

//! Jobs on real hosts: their processes, their output, and their end. Hosts are network namespaces with an SSH server
//! each, or two SSH servers on loopback if namespaces are not available.

mod support;

use edgecut_testing::Need;
use rustix::process::Signal;
use std::time::Duration;
use support::{Lab, Run, Running, arg, parent, read, signal, skip, wait_until};

/// The seconds without a sign of life after which a job ends, where a test waits for them. A busy machine lets processes
/// that run give a sign of life within them.
const SILENCE: u64 = 6;

/// Returns two hosts of any kind.
fn lab(test: &str) -> Option<Lab> {
    match Lab::namespaces(2) {
        Ok(lab) => return Some(lab),
        Err(why) if Need::Namespaces.is_required() => {
            panic!("{test} must not be skipped, but: {why:#}")
        }
        Err(_) => {}
    }
    Lab::loopback(2).inspect_err(|why| skip(test, why)).ok()
}

/// Starts `launch` with a number of processes on each host.
fn spawn_on(lab: &Lab, processes: usize, flags: &[&str]) -> Running {
    lab.spawn(&[&["--ip-config", &arg(&lab.ip_config(processes))][..], flags].concat())
}

/// Runs `launch` with a number of processes on each host.
fn run_on(lab: &Lab, processes: usize, flags: &[&str]) -> Run {
    spawn_on(lab, processes, flags).finish()
}

#[test]
fn every_process_knows_its_place_and_is_shown_line_by_line() {
    let Some(lab) = lab("places") else { return };
    lab.script(
        "place",
        "echo \"$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK of $MASTER_ADDR:$MASTER_PORT\"\n\
         echo \"to stderr with $1 and $TASTE\" >&2\n\
         printf 'no newline at the end'\n",
    );
    let config = arg(&lab.ip_config(2));
    let logs = arg(&lab.path("logs"));
    let flags = ["--ip_config", &config, "--extra_envs", "TASTE=sweet and sour", "--log_dir", &logs];
    let run = lab.run(&[&flags[..], &["--", "./place", "a b"]].concat());
    assert!(run.status.success(), "{run:#?}");
    for (rank, local, node) in [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)] {
        let label = format!("[{}:{rank}]", lab.hosts[node].addr);
        let master = &lab.hosts[0].addr;
        let line = format!("{label} {rank}/4 local {local}/2 node {node} of {master}:{}\n", lab.master_port);
        assert!(run.out.contains(&line), "{line} {run:#?}");
        assert!(run.out.contains(&format!("{label} no newline at the end\n")), "{run:#?}");
        assert!(run.err.contains(&format!("{label} to stderr with a b and sweet and sour\n")), "{run:#?}");
        let log = read(lab.path(&format!("logs/rank-{rank}.log")));
        assert_eq!(log.lines().count(), 3, "{log}");
    }
    assert!(lab.job_processes().is_empty());
}

#[test]
fn loopback_servers_do_where_there_are_no_namespaces() {
    let lab = match Lab::loopback(2) {
        Ok(lab) => lab,
        Err(why) => return skip("two SSH servers on loopback", &why),
    };
    lab.script("place", "echo rank $RANK of $WORLD_SIZE");
    let run = run_on(&lab, 1, &["./place"]);
    assert!(
        run.status.success() && run.out.contains(":0] rank 0 of 2") && run.out.contains(":1] rank 1 of 2"),
        "{run:#?}"
    );
}

#[test]
fn the_first_failure_decides_and_its_last_lines_come_again() {
    let Some(lab) = lab("failures") else { return };
    // Rank 3 fails, and rank 0 fails because of it. The others would run for ever.
    lab.script(
        "fail",
        "case $RANK in\n\
         3) echo 'about to fail' >&2; sleep 1; exit 7;;\n\
         0) trap 'echo ending; exit 3' TERM; sleep 1000 & wait;;\n\
         *) sleep 1000;;\n\
         esac\n",
    );
    let run = run_on(&lab, 2, &["./fail"]);
    assert_eq!(run.status.code(), Some(7), "{run:#?}");
    let host = &lab.hosts[1].addr;
    let end = format!("launch: rank 3 on {host} ended with exit status 7; its last lines:\n[{host}:3] about to fail\n");
    assert!(run.err.ends_with(&end), "{run:#?}");
    assert!(lab.job_processes().is_empty());
}

#[test]
fn an_error_of_all_ranks_is_shown_once() {
    let Some(lab) = lab("equal errors") else { return };
    lab.script("refuse", "printf 'error: no such flag\\n\\nUsage: refuse\\n\\nSee --help.\\n' >&2; sleep 1; exit 2\n");
    let run = run_on(&lab, 2, &["./refuse"]);
    assert_eq!(run.status.code(), Some(2), "{run:#?}");
    for line in ["error: no such flag", "Usage: refuse", "See --help."] {
        assert_eq!(run.err.matches(line).count(), 1, "{run:#?}");
    }
    assert!(run.err.ends_with("ended with exit status 2\n"), "{run:#?}");
}

/// A script that ignores requests to end, and leaves processes in other sessions.
const STUBBORN: &str = "trap '' TERM INT HUP\n\
     setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.2; done' &\n\
     echo running\n\
     while :; do sleep 0.2; done\n";

#[test]
fn ctrl_c_ends_all_of_a_job_and_nothing_of_another() {
    let (Some(lab), Some(other)) = (lab("Ctrl-C"), lab("another job")) else { return };
    for lab in [&lab, &other] {
        lab.script("stubborn", STUBBORN);
    }
    let job = spawn_on(&lab, 2, &["./stubborn"]);
    let bystander = spawn_on(&other, 1, &["./stubborn"]);
    job.wait_for("running", 4);
    bystander.wait_for("running", 2);
    let others = other.job_processes();
    job.signal(Signal::INT);
    lab.wait_until_all_are_gone();
    let run = job.finish();
    assert_eq!(run.status.code(), Some(130), "{run:#?}");
    assert!(run.err.ends_with("launch: interrupted: all processes have ended\n"), "{run:#?}");
    let alive = other.job_processes();
    assert!(others.iter().filter(|pid| alive.contains(pid)).count() >= 4, "{others:?} {alive:?}");
    bystander.signal(Signal::TERM);
    other.wait_until_all_are_gone();
    assert_eq!(bystander.finish().status.code(), Some(130));
}

#[test]
fn a_killed_launcher_or_agent_leaves_nothing() {
    let Some(lab) = lab("kill -9") else { return };
    lab.script("stubborn", STUBBORN);
    let job = spawn_on(&lab, 2, &["./stubborn"]);
    job.wait_for("running", 4);
    job.signal(Signal::KILL);
    lab.wait_until_all_are_gone();
    job.finish();

    // The agent of the second host is killed: its ranks die with it, another agent ends their children, and the
    // launcher ends the other host's ranks.
    lab.script("meek", "echo running\nsleep 1000 &\nsleep 1000\n");
    let job = spawn_on(&lab, 2, &["./meek"]);
    job.wait_for("running", 4);
    signal(parent(lab.rank(3)).unwrap(), Signal::KILL);
    lab.wait_until_all_are_gone();
    let run = job.finish();
    assert_eq!(run.status.code(), Some(1), "{run:#?}");
    assert!(run.err.contains("is lost"), "{run:#?}");
}

#[test]
fn a_host_that_is_cut_off_ends_its_processes_and_the_job() {
    let Some(lab) = Lab::namespaces_for("a cut network", 3) else { return };
    lab.script("stubborn", STUBBORN);
    let job = spawn_on(&lab, 2, &["./stubborn"]);
    job.wait_for("running", 6);
    lab.cut(1, true);
    lab.wait_until_all_are_gone();
    let run = job.finish();
    assert_eq!(run.status.code(), Some(1), "{run:#?}");
    assert!(run.err.contains("10.99.0.2 (node 1) is lost"), "{run:#?}");
}

#[test]
fn a_pause_of_the_launcher_alone_ends_the_job_and_is_named_as_the_cause() {
    let Some(lab) = lab("a suspended launcher") else { return };
    lab.script("meek", "echo running\nexec sleep 1000\n");
    let job = spawn_on(&lab, 1, &["--silence", &SILENCE.to_string(), "./meek"]);
    job.wait_for("running", 2);
    job.signal(Signal::STOP);
    lab.wait_until_all_are_gone();
    job.signal(Signal::CONT);
    let run = job.finish();
    assert_eq!(run.status.code(), Some(1), "{run:#?}");
    assert!(run.err.contains(&format!("it has heard nothing from this program for {SILENCE} s")), "{run:#?}");
    let last = run.err.lines().last().unwrap_or_default();
    assert!(last.starts_with("launch: this program stood still for"), "{run:#?}");
    assert!(last.contains(&format!("the nodes ended the job after {SILENCE} s without a sign of life")), "{run:#?}");
    assert!(!run.err.contains("is lost"), "no node is blamed: {run:#?}");
}

#[test]
fn a_pause_of_all_of_a_job_ends_nothing() {
    let Some(lab) = lab("a suspended job") else { return };
    lab.script("wait", "echo running\nwhile [ ! -e go ]; do sleep 0.1; done\necho done\n");
    let job = spawn_on(&lab, 1, &["--silence", &SILENCE.to_string(), "./wait"]);
    job.wait_for("running", 2);
    let ranks = lab.job_processes();
    let agents: Vec<i32> = ranks.iter().filter_map(|&pid| agent_of(pid)).collect();
    assert!(!agents.is_empty());
    ranks.iter().chain(&agents).for_each(|&pid| signal(pid, Signal::STOP));
    job.signal(Signal::STOP);
    // Longer than either side waits for the other.
    std::thread::sleep(Duration::from_secs(SILENCE * 2));
    agents.iter().chain(&ranks).for_each(|&pid| signal(pid, Signal::CONT));
    job.signal(Signal::CONT);
    job.wait_for("this program stood still", 1);
    lab.hosts.iter().for_each(|host| std::fs::write(host.files.join("go"), "").unwrap());
    let run = job.finish();
    assert!(run.status.success(), "{run:#?}");
    assert_eq!(run.out.matches("done").count(), 2, "{run:#?}");
}

/// Returns the agent that has started a rank.
fn agent_of(rank: i32) -> Option<i32> {
    parent(rank).filter(|parent| read(format!("/proc/{parent}/cmdline")).contains("__agent"))
}

/// Runs a job whose second rank fails twice, each time once all ranks are running.
fn run_flaky(lab: &Lab, flags: &[&str]) -> Run {
    for host in &lab.hosts {
        for name in ["secret-0", "secret-1", "fail-0", "fail-1"] {
            let _ = std::fs::remove_file(host.files.join(name));
        }
    }
    let job = lab.spawn(flags);
    for attempt in 0..2 {
        job.wait_for(&format!("attempt {attempt}"), 2);
        lab.hosts.iter().for_each(|host| std::fs::write(host.files.join(format!("fail-{attempt}")), "").unwrap());
    }
    job.finish()
}

#[test]
fn a_job_starts_again_under_another_name_and_secret() {
    let Some(lab) = lab("restarts") else { return };
    lab.script(
        "flaky",
        "echo \"$EDGECUT_JOB_ID $EDGECUT_TOKEN\" >> \"secret-$RANK\"\n\
         echo \"attempt $EDGECUT_RESTART_COUNT\"\n\
         [ \"$EDGECUT_RESTART_COUNT\" -lt 2 ] || exit 0\n\
         until [ -e \"fail-$EDGECUT_RESTART_COUNT\" ]; do sleep 0.1; done\n\
         [ \"$RANK\" = 1 ] && exit 9\n\
         sleep 1000\n",
    );
    let config = arg(&lab.ip_config(1));
    let logs = arg(&lab.path("logs"));
    let run = run_flaky(&lab, &["--ip-config", &config, "--max-restarts", "1", "--log-dir", &logs, "./flaky"]);
    assert_eq!(run.status.code(), Some(9), "{run:#?}");
    let run = run_flaky(&lab, &["--ip-config", &config, "--max-restarts", "2", "--log-dir", &logs, "./flaky"]);
    assert!(run.status.success(), "{run:#?}");
    assert!(run.err.contains("restarting the whole job (2 of 2)"), "{run:#?}");
    let secrets = read(lab.hosts[0].files.join("secret-0"));
    let words: std::collections::BTreeSet<&str> = secrets.split_whitespace().collect();
    assert_eq!(words.len(), 6, "an id and a secret per attempt: {secrets}");
    assert_eq!(secrets, read(lab.hosts[1].files.join("secret-1")), "the same on all ranks");
    let logs: String =
        ["", ".restart-1", ".restart-2"].map(|n| read(lab.path(&format!("logs/rank-0{n}.log")))).concat();
    assert_eq!(logs, "attempt 0\nattempt 1\nattempt 2\n");
    for secret in secrets.lines().filter_map(|line| line.split(' ').nth(1)) {
        assert!(!run.out.contains(secret) && !run.err.contains(secret) && !logs.contains(secret));
    }
}

#[test]
fn a_server_starts_again_alone() {
    let Some(lab) = lab("single restarts") else { return };
    lab.script(
        "serve",
        "echo \"rank $RANK attempt $EDGECUT_RESTART_COUNT\"\n\
         [ \"$RANK\" = 0 ] || [ \"$EDGECUT_RESTART_COUNT\" -ge ${1:-2} ] || { sleep 0.5; kill -9 $$; }\n\
         until [ -e done ]; do sleep 0.1; done\n",
    );
    let servers = lab.roles_config(&["server", "server"]);
    let token = lab.token();
    let flags = ["--ip-config", &arg(&servers), "--role", "server", "--token-file", &token, "--max-restarts", "2"];
    let job = lab.spawn(&[flags.as_slice(), &["./serve"]].concat());
    job.wait_for("rank 1 attempt 2", 1);
    lab.hosts.iter().for_each(|host| std::fs::write(host.files.join("done"), "").unwrap());
    let run = job.finish();
    assert!(run.status.success(), "{run:#?}");
    // The other server was not disturbed.
    assert_eq!(
        (run.out.matches("rank 0 attempt").count(), run.out.matches("rank 1 attempt").count()),
        (1, 3),
        "{run:#?}"
    );
    let said = "was ended by signal 9; starting it again (2 of 2)";
    assert!(run.err.contains(said) && !run.err.contains("whole job"), "{run:#?}");
    lab.hosts.iter().for_each(|host| std::fs::remove_file(host.files.join("done")).unwrap());

    // A server that fails too often ends all servers.
    let run = lab.run(&[flags.as_slice(), &["./serve", "9"]].concat());
    assert_eq!(run.status.code(), Some(137), "{run:#?}");
    assert_eq!(run.out.matches("rank 1 attempt").count(), 3, "{run:#?}");
    assert!(lab.job_processes().is_empty());

    // An interrupt between two restarts ends the job.
    let flags = ["--ip-config", &arg(&servers), "--role", "server", "--token-file", &token, "--max-restarts", "1000"];
    let job = lab.spawn(&[flags.as_slice(), &["./serve", "1000"]].concat());
    job.wait_for("rank 1 attempt 1", 1);
    job.signal(Signal::INT);
    assert_eq!(job.finish().status.code(), Some(130));
    assert!(lab.job_processes().is_empty());
}

#[test]
fn the_secret_is_on_no_command_line_and_a_closed_terminal_ends_the_job() {
    let Some(lab) = lab("the secret") else { return };
    lab.script("tell", "echo \"$EDGECUT_TOKEN\" > secret\necho running\nsleep 1000\n");
    let job = spawn_on(&lab, 1, &["./tell"]);
    job.wait_for("running", 2);
    let secret = read(lab.hosts[0].files.join("secret"));
    assert!(secret.trim().len() >= 32, "{secret}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.map(|process| read(process.path().join("cmdline")));
    assert!(!commands.collect::<String>().contains(secret.trim()));
    job.signal(Signal::HUP);
    lab.wait_until_all_are_gone();
    assert_eq!(job.finish().status.code(), Some(130));
}

#[test]
fn a_dry_run_shows_everything_and_connects_to_nothing() {
    let lab = match Lab::loopback(2) {
        Ok(lab) => lab,
        Err(why) => return skip("a dry run", &why),
    };
    let config = arg(&lab.write_ip_config("node-1.invalid 29500\nnode-2.invalid\n"));
    let flags = ["--ip-config", &config, "--num-training-procs", "2", "--ssh-port", "2222", "--dry-run"];
    let run = lab.run(&[&flags[..], &["train node --lr 1"]].concat());
    assert!(run.status.success(), "{run:#?}");
    assert!(run.out.contains("-p 2222") && run.out.contains("node-2.invalid"), "{run:#?}");
    assert!(
        run.out.contains("ranks 2 to 3, EDGECUT_TOKEN=(secret)") && run.out.contains("train node --lr 1"),
        "{run:#?}"
    );
    assert!(run.out.contains("MASTER_ADDR=node-1.invalid MASTER_PORT=29500"), "{run:#?}");
}

#[test]
fn ctrl_c_ends_a_job_whose_output_nobody_reads() {
    use std::process::Stdio;
    let Some(lab) = lab("a terminal that stands still") else { return };
    lab.script(
        "flood",
        "while :; do echo 0123456789012345678901234567890123456789012345678901234567890123456789; done\n",
    );
    let config = arg(&lab.ip_config(2));
    let mut command = lab.launch(&["--ip-config", &config, "./flood"]);
    let mut job = edgecut_testing::Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    assert!(wait_until(|| lab.job_processes().len() >= 4));
    // Processes sleep only once the pipe and all queues are full.
    assert!(wait_until(|| read(format!("/proc/{}/stat", job_pid(&lab))).contains(") S ")));
    job.signal(Signal::INT);
    lab.wait_until_all_are_gone();
    assert!(wait_until(|| job.try_wait().unwrap().is_some()), "launch does not end");
    assert_eq!(job.wait().unwrap().code(), Some(130));
}

/// Returns the id of a rank's process.
fn job_pid(lab: &Lab) -> i32 {
    lab.job_processes().first().copied().unwrap_or_default()
}

#[test]
fn a_talkative_child_in_a_session_of_its_own_does_not_keep_a_job_alive() {
    let Some(lab) = lab("a talkative child") else { return };
    lab.script("leave", "setsid sh -c 'while :; do echo chatter; sleep 0.1; done' &\necho the last line of $RANK\n");
    let run = run_on(&lab, 1, &["./leave"]);
    assert!(run.status.success(), "{run:#?}");
    assert!(run.out.contains("the last line of 0") && run.out.contains("the last line of 1"), "{run:#?}");
    assert!(lab.job_processes().is_empty());
}

#[test]
fn many_lines_arrive_whole_and_in_order() {
    let Some(lab) = lab("much output") else { return };
    lab.script("talk", "i=0\nwhile [ $i -lt 3000 ]; do echo \"line $i\"; i=$((i+1)); done\n");
    let run = run_on(&lab, 2, &["./talk"]);
    assert!(run.status.success());
    for (rank, host) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let label = format!("[{}:{rank}] ", lab.hosts[host].addr);
        let lines: Vec<&str> = run.out.lines().filter_map(|line| line.strip_prefix(&label)).collect();
        let expected: Vec<String> = (0..3000).map(|i| format!("line {i}")).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn an_argument_that_is_not_utf8_is_a_usage_error() {
    use std::os::unix::ffi::OsStrExt;
    let word = std::ffi::OsStr::from_bytes(b"--workspace=/data/\xff");
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_launch")).arg(word).output().unwrap();
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{text}");
    assert!(text.contains("is not valid UTF-8") && !text.contains("panicked"), "{text}");
}

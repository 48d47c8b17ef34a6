//! The launcher: connects to the nodes, prepares them, and runs a job on them, with restarts after failures.

use crate::args::Args;
use crate::checksum;
use crate::hosts::agent_connection::{Event, Link, Receivers, Source};
use crate::hosts::copy::{PartsCopy, copy_parts};
use crate::hosts::parallel::for_each_node;
use crate::messages::{Checked, Order, Report};
use crate::output::printer::Printer;
use crate::output::screen::Screen;
use crate::parts::PartsMeta;
use crate::plan::Plan;
use crate::standstill::Standstill;
use crate::timeouts::{
    CLOCK_INTERVAL, JOB_RESTART_INTERVAL, LAST_LINES_TIMEOUT, NODE_CHECK_TIMEOUT, NODE_LOSS_INTERVAL,
    NODE_RETURN_TIMEOUT, RESTART_CHECK_TIMEOUT,
};
use anyhow::{Context, bail};
use edgecut_cli::{PrintError, counted, find_on_path, is_url, message, result, with_near_argument};
use edgecut_cluster::on_interrupt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The exit status for wrong flags and files.
const USAGE: u8 = 2;
/// The exit status after an interrupt.
const INTERRUPTED: u8 = 130;
/// Characters of a checksum in the name of a copied program.
const NAME_LEN: usize = 32;

/// Runs the job that the arguments describe, and returns the launcher's exit status.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut plan = match Plan::new(args) {
        Ok(plan) => plan,
        Err(error) => {
            message!("error: {}", with_near_argument(format!("{error:#}")));
            return Ok(ExitCode::from(USAGE));
        }
    };
    if args.dry_run {
        show(&plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let source = args.copy_parts.as_ref().map(|source| parts_source(source.as_deref(), &plan)).transpose()?;
    let program = args.sync_binary.then(|| Copy::of(&plan.program.name)).transpose()?;
    plan.program.copied = program.as_ref().map(|program| program.name.clone());
    let screen = Screen::new(args.log_dir.as_deref())?;
    let (events, waiting) = mpsc::channel();
    let started = Arc::new(AtomicBool::new(false));
    catch_interrupts(events.clone(), started.clone())?;
    let write_errors = events.clone();
    let printer = Printer::start(screen, move |error| drop(write_errors.send(Event::Unwritten(error))));
    let agent = checksum::of_file("/proc/self/exe".as_ref()).context("read this program's file")?;
    let mut launcher = Launcher {
        agent_name: format!("launch-{}", &agent[..NAME_LEN]),
        links: plan.nodes.iter().map(|_| None).collect(),
        plan,
        started,
        rounds: 0,
        connections: 0,
        ears: Receivers { events, printer },
        waiting,
        standstill: Standstill::new(Duration::from_secs(args.silence)),
        stood_still: None,
        source,
        allow_fewer_nodes: args.allow_fewer_nodes,
    };
    let done = launcher.prepare(program.as_ref()).and_then(|()| {
        launcher.started.store(true, Ordering::SeqCst);
        launcher.run(args.max_restarts)
    });
    let interrupted = done.as_ref().is_err_and(|error| error.is::<Interrupted>());
    if interrupted {
        launcher.printer().note(Interrupted);
    }
    let printed = launcher.flush(done.as_ref().is_ok_and(|code| *code != ExitCode::from(INTERRUPTED)));
    match done {
        Err(_) if interrupted => Ok(ExitCode::from(INTERRUPTED)),
        Ok(code) => printed.map(|()| code),
        failed => failed,
    }
}

/// Installs the handler of Ctrl-C. Before a job has started, an interrupt ends the launcher and its connections; after
/// that it is an event.
fn catch_interrupts(events: mpsc::Sender<Event>, started: Arc<AtomicBool>) -> anyhow::Result<()> {
    on_interrupt(move || {
        if !started.load(Ordering::SeqCst) {
            message!("launch: {Interrupted}");
            std::process::exit(i32::from(INTERRUPTED));
        }
        let _ = events.send(Event::Interrupt);
    })?;
    Ok(())
}

/// A program to copy to the nodes.
struct Copy {
    path: PathBuf,
    /// The name in the nodes' cache, which contains a checksum of the content.
    name: String,
}

impl Copy {
    /// Finds a program on this machine, and reads its checksum.
    fn of(program: &str) -> anyhow::Result<Self> {
        let path =
            find(program).with_context(|| format!("--sync-binary: there is no program {program} on this machine"))?;
        let hash = checksum::of_file(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self { path, name: format!("program-{}", &hash[..NAME_LEN]) })
    }
}

/// Returns the path of a program on this machine, given as a path or as a name in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| program.into());
    }
    find_on_path(program)
}

/// Returns the folder to copy the parts from, and its metadata.
fn parts_source(given: Option<&Path>, plan: &Plan) -> anyhow::Result<(PathBuf, PartsMeta)> {
    let Some(dir) = &plan.dataset_dir else {
        bail!("--copy-parts needs --dataset-root-dir in the command, which names the folder to copy the parts to");
    };
    if is_url(dir) {
        bail!("--copy-parts: {dir} is in an object store, from which each node fetches its parts: leave the flag out");
    }
    let source = given.map_or_else(|| PathBuf::from(dir), Into::into);
    let meta = PartsMeta::read(&source)?;
    Ok((source, meta))
}

/// Prints what would run on each node.
fn show(plan: &Plan) -> Result<(), PrintError> {
    for (number, node) in plan.nodes.iter().enumerate() {
        let args: Vec<String> = node.target.args("AGENT").iter().map(|arg| shell_words::quote(arg).into()).collect();
        result!("node {number}: ssh {}", args.join(" "))?;
        let command = std::iter::once(&plan.program.name).chain(&plan.args);
        result!("  in {}: {}", plan.workspace, shell_words::join(command))?;
        let env = plan.shown_env(number);
        result!("  ranks {} to {}, EDGECUT_TOKEN=(secret) {env}", node.ranks.start, node.ranks.end - 1)?;
    }
    Ok(())
}

/// A job, and the connections to its nodes.
pub(crate) struct Launcher {
    pub(crate) plan: Plan,
    pub(crate) agent_name: String,
    pub(crate) links: Vec<Option<Link>>,
    /// True while something runs that an interrupt must end before the launcher exits.
    started: Arc<AtomicBool>,
    /// The numbers of connections and of questions so far. Answers to earlier ones are ignored.
    connections: u64,
    rounds: u64,
    pub(crate) ears: Receivers,
    waiting: mpsc::Receiver<Event>,
    pub(crate) standstill: Standstill,
    /// The time for which this program stood still before the last event, if it did.
    pub(crate) stood_still: Option<Duration>,
    /// The folder from which parts are copied, and its metadata.
    source: Option<(PathBuf, PartsMeta)>,
    /// True if a restart may leave out nodes that are lost.
    allow_fewer_nodes: bool,
}

impl Launcher {
    pub(crate) fn printer(&self) -> &Printer {
        &self.ears.printer
    }

    /// Connects to the nodes, and copies the program and the parts to them.
    fn prepare(&mut self, program: Option<&Copy>) -> anyhow::Result<()> {
        self.connect()?;
        if let Some(program) = program {
            self.on_all_nodes(|node| self.plan.nodes[node].target.put(&program.name, &program.path))?;
        }
        self.copy_parts()
    }

    /// Copies the parts to the nodes, if `--copy-parts` was given.
    fn copy_parts(&self) -> anyhow::Result<()> {
        self.source.as_ref().map_or(Ok(()), |(source, meta)| self.copy(source, meta))
    }

    /// Waits until everything is printed: without limit if the job has ended by itself (`patient`) until an interrupt,
    /// else for at most [`LAST_LINES_TIMEOUT`].
    fn flush(&self, patient: bool) -> anyhow::Result<()> {
        let printed = self.printer().flush();
        let deadline = Instant::now() + LAST_LINES_TIMEOUT;
        while printed.recv_timeout(CLOCK_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
            match self.waiting.try_recv() {
                Ok(Event::Interrupt) => break,
                Ok(Event::Unwritten(error)) => return Err(error),
                _ if !patient && Instant::now() > deadline => break,
                _ => {}
            }
        }
        let unwritten = self.waiting.try_iter().find_map(|event| match event {
            Event::Unwritten(error) => Some(error),
            _ => None,
        });
        unwritten.map_or(Ok(()), Err)
    }

    /// Connects to all nodes that are not connected.
    fn connect(&mut self) -> anyhow::Result<()> {
        self.connections += 1;
        let connection = self.connections;
        let missing: Vec<usize> = (0..self.links.len()).filter(|&node| self.links[node].is_none()).collect();
        let plan = &self.plan;
        let name = &self.agent_name;
        let ears = self.ears.clone();
        let made = for_each_node(&missing, |node| {
            Link::connect(Source { node, connection }, &plan.nodes[node].target, name, &ears.clone())
        });
        let mut problems = Vec::new();
        for (node, link) in missing.into_iter().zip(made) {
            match link {
                Ok(link) => self.links[node] = Some(link),
                Err(problem) => problems.push((node, problem)),
            }
        }
        self.fail_if_any(problems)
    }

    /// Does `work` for all nodes in parallel, and fails with all problems.
    fn on_all_nodes(&self, work: impl Fn(usize) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
        let all: Vec<usize> = (0..self.links.len()).collect();
        let done = for_each_node(&all, work);
        self.fail_if_any(all.into_iter().zip(done).filter_map(|(node, done)| Some((node, done.err()?))).collect())
    }

    /// Copies to each node the parts of its ranks, and prints a line per node.
    fn copy(&self, source: &Path, meta: &PartsMeta) -> anyhow::Result<()> {
        let plan = &self.plan;
        let agent_name = &self.agent_name;
        let dir = plan.dataset_dir.as_deref().unwrap_or_default();
        let copied = std::sync::Mutex::new(Vec::new());
        let done = self.on_all_nodes(|node| {
            let target = &plan.nodes[node].target;
            let ranks = &plan.nodes[node].ranks;
            let parts = meta.parts_of(ranks, plan.world_size);
            let copy = PartsCopy { source, meta, parts: &parts, workspace: &plan.workspace, dir };
            let done = copy_parts(target, agent_name, &copy)?;
            let names: Vec<String> = parts.iter().map(|part| format!("part_{part}")).collect();
            let line = format!(
                "{}: {}: copied {}, {:.1} MB, in {:.1} s; {} were up to date",
                target.host,
                names.join(", "),
                counted(done.files, "file", "files"),
                done.bytes as f64 / 1e6,
                done.seconds,
                done.there_already
            );
            copied.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((node, line));
            Ok(())
        });
        let mut copied = copied.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        copied.sort();
        copied.iter().for_each(|(_, line)| self.printer().note(line));
        done
    }

    /// Fails with a list of the problems by node, if there are any.
    fn fail_if_any(&self, problems: Vec<(usize, anyhow::Error)>) -> anyhow::Result<()> {
        if problems.is_empty() {
            return Ok(());
        }
        let unfit: std::collections::BTreeSet<usize> = problems.iter().map(|(node, _)| *node).collect();
        let mut text = format!("nothing was started: {} of {} nodes are not ready", unfit.len(), self.links.len());
        for (node, problem) in &problems {
            text += &format!("\n  {} (node {node}): {problem:#}", self.plan.nodes[*node].target.host);
        }
        bail!(text)
    }

    /// Lets all nodes check themselves, compares their answers with node 0's, and checks that all nodes reach the
    /// master.
    fn check(&mut self) -> anyhow::Result<()> {
        self.rounds += 1;
        let round = self.rounds;
        let all: Vec<usize> = (0..self.links.len()).collect();
        let orders = all.iter().map(|&node| Order::Check { check: self.plan.check(node), round }).collect();
        let answers = self.ask(&all, orders, |report| match report {
            Report::Checked { checked, round: of } if of == round => Some(checked),
            _ => None,
        })?;
        let mut problems = Vec::new();
        for (node, checked) in answers.iter().enumerate() {
            let found = checked.problems.iter().cloned().chain(difference(&answers[0], checked));
            problems.extend(found.map(|problem| (node, anyhow::Error::msg(problem))));
        }
        self.fail_if_any(problems)?;
        self.plan.master_listens_at(answers[0].listen_addr);
        if self.plan.is_servers {
            // Servers are in no job, so none of them is a master.
            return Ok(());
        }
        // Node 0 holds the master's port since its check, so that the others can connect to it before rank 0 runs.
        let others: Vec<usize> = all.into_iter().skip(1).collect();
        let probe = Order::Probe { host: self.plan.master_addr.clone(), port: self.plan.master_port, round };
        let answers = self.ask(&others, vec![probe; others.len()], |report| match report {
            Report::Probed { problem, round: of } if of == round => Some(problem),
            _ => None,
        })?;
        let problems = others.into_iter().zip(answers);
        self.fail_if_any(problems.filter_map(|(node, problem)| Some((node, anyhow::Error::msg(problem?)))).collect())
    }

    /// Sends an order to each of `nodes`, and waits for the answers of all.
    fn ask<T>(
        &mut self,
        nodes: &[usize],
        orders: Vec<Order>,
        answer: impl Fn(Report) -> Option<T>,
    ) -> anyhow::Result<Vec<T>> {
        for (&node, order) in nodes.iter().zip(orders) {
            self.send(node, order);
        }
        let mut answers: Vec<Option<T>> = nodes.iter().map(|_| None).collect();
        let deadline = Instant::now() + NODE_CHECK_TIMEOUT;
        self.standstill.restart();
        while answers.iter().any(Option::is_none) {
            match self.next_event() {
                Some(Event::Interrupt) => bail!(Interrupted),
                Some(Event::Unwritten(error)) => return Err(error),
                Some(Event::Report { from, report }) => {
                    if let (Some(position), Some(found)) = (nodes.iter().position(|&n| n == from.node), answer(report))
                    {
                        answers[position] = Some(found);
                    }
                }
                Some(Event::Closed { from }) => {
                    let why = self.links[from.node].take().map(|mut link| link.explain()).unwrap_or_default();
                    self.fail_if_any(vec![(from.node, anyhow::Error::msg(why))])?;
                }
                None => {}
            }
            let late = Instant::now() > deadline;
            let why = if late { "it does not answer".to_owned() } else { self.no_sign_of_life() };
            let mut lost = Vec::new();
            for (&node, answer) in nodes.iter().zip(&answers) {
                let is_silent = self.links[node].as_ref().is_none_or(Link::is_silent);
                if answer.is_none() && (late || is_silent) {
                    lost.push((node, anyhow::Error::msg(why.clone())));
                    // The next attempt connects to it anew.
                    self.links[node] = None;
                }
            }
            self.fail_if_any(lost)?;
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Runs the job, and restarts it after failures.
    fn run(&mut self, max_restarts: u32) -> anyhow::Result<ExitCode> {
        let mut restarts = 0;
        self.check()?;
        loop {
            let watch = self.attempt(restarts, max_restarts)?;
            if self.plan.is_servers {
                restarts = max_restarts - watch.restarts_left();
            }
            if watch.is_interrupted() {
                self.printer().note("interrupted: all processes have ended");
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let Some(failure) = watch.failure() else { return Ok(ExitCode::SUCCESS) };
            let pause = watch.fatal_pause();
            let what = match pause {
                Some(pause) => self.fatal_pause(pause),
                None => format!("rank {} on {} {}", failure.rank, self.host_of(failure.rank), failure.ending),
            };
            if restarts == max_restarts {
                if pause.is_some() {
                    self.printer().note(what);
                    return Ok(ExitCode::FAILURE);
                }
                self.printer().failure(failure.rank, what);
                return Ok(ExitCode::from(failure.ending.code()));
            }
            restarts += 1;
            let again = format!("{what}; restarting the whole job ({restarts} of {max_restarts})");
            self.printer().note(again);
            // A lost node ends its processes only after the silence and the grace period; until then they may hold
            // ports.
            let lost = self.links.iter().any(Option::is_none);
            let after_loss = self.plan.silence + self.plan.grace + NODE_LOSS_INTERVAL;
            self.get_ready_again(if lost { after_loss } else { JOB_RESTART_INTERVAL })?;
        }
    }

    /// Reconnects to lost nodes and repeats the checks, until they succeed or [`RESTART_CHECK_TIMEOUT`] has passed. If fewer nodes
    /// are allowed, goes on without those that cannot be connected to for [`NODE_RETURN_TIMEOUT`]. Both times begin anew then.
    fn get_ready_again(&mut self, pause: Duration) -> anyhow::Result<()> {
        self.pause(pause)?;
        let mut start = Instant::now();
        loop {
            // Nothing runs now, so an interrupt may end the launcher at once.
            self.started.store(false, Ordering::SeqCst);
            let mut connected = self.connect();
            let are_left = self.allow_fewer_nodes && self.links.iter().any(Option::is_some);
            if connected.is_err() && are_left && start.elapsed() > NODE_RETURN_TIMEOUT {
                connected = self.go_on_without_lost_nodes();
                start = Instant::now();
            }
            self.started.store(true, Ordering::SeqCst);
            match connected.and_then(|()| self.check()) {
                Err(error) if start.elapsed() > RESTART_CHECK_TIMEOUT || error.is::<Interrupted>() => {
                    return Err(error);
                }
                Err(_) => self.pause(JOB_RESTART_INTERVAL)?,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Leaves out the nodes that are not connected, gives their ranks' parts to the others, and connects anew.
    fn go_on_without_lost_nodes(&mut self) -> anyhow::Result<()> {
        let is_lost: Vec<bool> = self.links.iter().map(Option::is_none).collect();
        let lost = self.plan.nodes.iter().zip(&is_lost).filter(|(_, is_lost)| **is_lost);
        let lost: Vec<String> = lost.map(|(node, _)| node.target.host.clone()).collect();
        self.plan.leave_out(&is_lost)?;
        let what = format!(
            "going on with {} of {} nodes and {} processes: {} cannot be reached",
            self.plan.nodes.len(),
            is_lost.len(),
            self.plan.world_size,
            lost.join(", ")
        );
        self.printer().note(what);
        // Connections know the numbers of their nodes, which have changed.
        self.links = self.plan.nodes.iter().map(|_| None).collect();
        self.connect()?;
        self.copy_parts()
    }

    /// Waits for `pause`, and fails on an interrupt.
    fn pause(&mut self, pause: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + pause;
        self.standstill.restart();
        while Instant::now() < end {
            match self.next_event() {
                Some(Event::Interrupt) => bail!(Interrupted),
                Some(Event::Unwritten(error)) => return Err(error),
                Some(Event::Closed { from }) => self.links[from.node] = None,
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits up to [`CLOCK_INTERVAL`] for the next event, and drops events of connections that are no longer in use.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let event = self.waiting.recv_timeout(CLOCK_INTERVAL).ok();
        // After a standstill the nodes' messages are still unread, so their silence proves nothing.
        if let Some(pause) = self.standstill.look() {
            self.stood_still = Some(pause);
            self.links.iter().flatten().for_each(Link::restart_clock);
        }
        let event = event?;
        match event {
            Event::Report { from, .. } | Event::Closed { from } => {
                let link = self.links.get(from.node).and_then(Option::as_ref);
                let current = link.is_some_and(|link| link.is(from));
                current.then_some(event)
            }
            event => Some(event),
        }
    }

    pub(crate) fn send(&self, node: usize, order: Order) {
        if let Some(link) = &self.links[node] {
            link.send(order);
        }
    }

    pub(crate) fn no_sign_of_life(&self) -> String {
        format!("no sign of life for {} s", self.plan.silence.as_secs())
    }

    /// Explains the end of a job that a standstill of this program has caused.
    fn fatal_pause(&self, pause: Duration) -> String {
        format!(
            "this program stood still for {} s (it was suspended, or its machine slept), and the nodes ended the job \
             after {} s without a sign of life: run it where it is not suspended, or give a longer --silence",
            pause.as_secs(),
            self.plan.silence.as_secs()
        )
    }

    pub(crate) fn host_of(&self, rank: usize) -> &str {
        &self.plan.nodes[self.plan.node_of(rank)].target.host
    }
}

/// An interrupt before the job, or its next attempt, was started.
#[derive(Debug)]
struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: nothing is running")
    }
}

impl std::error::Error for Interrupted {}

/// Returns true if both values are known and differ.
fn differ(a: &Option<String>, b: &Option<String>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if a != b)
}

/// Returns the difference that keeps a node from working with the first one.
fn difference(first: &Checked, other: &Checked) -> Option<String> {
    if differ(&first.meta, &other.meta) {
        return Some(
            "its parts are of another partitioning than node 0's: copy them again, or give --copy-parts".into(),
        );
    }
    // Builds for different processors have different checksums even for the same version, so they are not compared.
    if first.machine == other.machine && differ(&first.program, &other.program) {
        return Some("its program is not the same as node 0's: install the same version, or give --sync-binary".into());
    }
    None
}

//! Connects, checks, starts, watches and ends a job.

use crate::args::Args;
use crate::checksum;
use crate::copy::copy_parts;
use crate::link::{Event, Link};
use crate::messages::{Checked, Order, Report, SILENCE};
use crate::parts::PartsMeta;
use crate::plan::Plan;
use crate::screen::{Screen, note};
use crate::ssh::Target;
use crate::watch::{Action, Watch};
use anyhow::{Context, bail};
use edgecut_cluster::Token;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// The exit status after an interrupt.
const INTERRUPTED: u8 = 130;
/// What a node gets for its checks: a checksum of the program, a look at files, a connection.
const CHECKING: Duration = Duration::from_secs(60);
/// How often clocks are looked at.
const TICK: Duration = Duration::from_millis(200);
/// Reports of nodes that wait to be printed; beyond them the nodes wait.
const MAX_EVENTS: usize = 1024;
/// The pause before a job starts again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long nodes are waited for before that: what is left of the last attempt may still hold the master's port.
const RESTARTING: Duration = Duration::from_secs(60);
/// Characters of a checksum in the name of a copied program.
const NAME_LEN: usize = 32;

/// Runs a job.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut plan = Plan::new(args)?;
    if args.dry_run {
        show(&plan);
        return Ok(ExitCode::SUCCESS);
    }
    let labels = (0..plan.world_size).map(|rank| plan.label(rank)).collect();
    let screen = Screen::new(labels, args.log_dir.as_deref())?;
    let source = args.copy_parts.as_ref().map(|source| parts_source(source.as_deref(), &plan)).transpose()?;
    let program = args.sync_binary.then(|| Copy::of(&plan.program.name)).transpose()?;
    let (events, waiting) = mpsc::sync_channel(MAX_EVENTS);
    let (interrupts, started) = (events.clone(), Arc::new(AtomicBool::new(false)));
    let running = started.clone();
    ctrlc::set_handler(move || {
        if !running.load(Ordering::SeqCst) {
            note("interrupted: nothing was started");
            std::process::exit(i32::from(INTERRUPTED));
        }
        let _ = interrupts.send(Event::Interrupt);
    })
    .context("catch interrupts")?;
    let agent = checksum::of_file("/proc/self/exe".as_ref()).context("read this program's file")?;
    let agent_name = format!("launch-{}", &agent[..NAME_LEN]);
    plan.program.copied = program.as_ref().map(|program| program.name.clone());
    let links = plan.nodes.iter().map(|_| None).collect();
    let mut launcher = Launcher { plan, agent_name, links, connections: 0, events, waiting, screen };
    launcher.connect()?;
    if let Some(program) = &program {
        launcher.on_all_nodes(|_, target| target.put(&program.name, &program.path))?;
    }
    if let Some((source, meta)) = &source {
        launcher.copy(source, meta)?;
    }
    started.store(true, Ordering::SeqCst);
    match launcher.run(args.max_restarts) {
        Err(error) if error.is::<Interrupted>() => {
            note(error);
            Ok(ExitCode::from(INTERRUPTED))
        }
        done => done,
    }
}

/// A program that is copied to the nodes.
struct Copy {
    path: PathBuf,
    /// Tells its content.
    name: String,
}

impl Copy {
    fn of(program: &str) -> anyhow::Result<Self> {
        let path = find(program).with_context(|| format!("--sync-binary: there is no program {program} here"))?;
        let hash = checksum::of_file(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self { path, name: format!("program-{}", &hash[..NAME_LEN]) })
    }
}

/// A program of this machine: a path, or a name that is looked for in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).is_file().then(|| program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Where the parts are copied from.
fn parts_source(given: Option<&Path>, plan: &Plan) -> anyhow::Result<(PathBuf, PartsMeta)> {
    let Some(dir) = &plan.dataset_dir else {
        bail!("--copy-parts: the command names no --dataset-root-dir, so nobody knows where the parts go");
    };
    let source = given.map_or_else(|| PathBuf::from(dir), Into::into);
    let meta = PartsMeta::read(&source).map_err(anyhow::Error::msg)?;
    meta.check_layout(plan.nodes.len(), plan.world_size).map_err(anyhow::Error::msg)?;
    Ok((source, meta))
}

/// What would run where.
fn show(plan: &Plan) {
    for (number, node) in plan.nodes.iter().enumerate() {
        let args: Vec<String> = node.target.args("AGENT").iter().map(|arg| shell_words::quote(arg).into()).collect();
        println!("node {number}: ssh {}", args.join(" "));
        let env: Vec<String> = plan.env(number).iter().map(|(name, value)| format!("{name}={value}")).collect();
        let command = std::iter::once(&plan.program.name).chain(&plan.args);
        println!("  in {}: {}", plan.workspace, shell_words::join(command));
        println!("  ranks {} to {}, EDGECUT_TOKEN=(secret) {}", node.ranks.start, node.ranks.end - 1, env.join(" "));
    }
}

struct Launcher {
    plan: Plan,
    agent_name: String,
    links: Vec<Option<Link>>,
    /// Connections made so far.
    connections: u64,
    events: mpsc::SyncSender<Event>,
    waiting: mpsc::Receiver<Event>,
    screen: Screen,
}

impl Launcher {
    /// Connects to all nodes that are not connected.
    fn connect(&mut self) -> anyhow::Result<()> {
        self.connections += 1;
        let (connection, name, events) = (self.connections, &self.agent_name, &self.events);
        let missing: Vec<usize> = (0..self.links.len()).filter(|&node| self.links[node].is_none()).collect();
        let plan = &self.plan;
        let made = std::thread::scope(|scope| {
            let connect = |&node: &usize| {
                let target = &plan.nodes[node].target;
                (node, scope.spawn(move || Link::connect(node, connection, target, name, events)))
            };
            let threads: Vec<_> = missing.iter().map(connect).collect();
            threads.into_iter().map(|(node, thread)| (node, joined(thread.join()))).collect::<Vec<_>>()
        });
        let mut problems = Vec::new();
        for (node, link) in made {
            match link {
                Ok(link) => self.links[node] = Some(link),
                Err(problem) => problems.push((node, problem)),
            }
        }
        self.fail_if_any(problems)
    }

    /// Does the same for all nodes at once.
    fn on_all_nodes(&self, work: impl Fn(usize, &Target) -> Result<(), String> + Sync) -> anyhow::Result<()> {
        let (work, nodes) = (&work, &self.plan.nodes);
        let problems = std::thread::scope(|scope| {
            let threads = nodes.iter().enumerate();
            let threads: Vec<_> = threads.map(|(n, node)| (n, scope.spawn(move || work(n, &node.target)))).collect();
            let done = threads.into_iter().map(|(node, thread)| (node, joined(thread.join())));
            done.filter_map(|(node, done)| Some((node, done.err()?))).collect()
        });
        self.fail_if_any(problems)
    }

    fn copy(&self, source: &Path, meta: &PartsMeta) -> anyhow::Result<()> {
        let plan = &self.plan;
        let (dir, agent_name) = (plan.dataset_dir.as_deref().unwrap_or_default(), &self.agent_name);
        self.on_all_nodes(|node, target| {
            let parts = meta.parts_of(&plan.nodes[node].ranks, plan.world_size);
            let copied = copy_parts(target, agent_name, source, meta, &parts, &plan.workspace, dir)?;
            let names: Vec<String> = parts.iter().map(|part| format!("part_{part}")).collect();
            note(format!(
                "{}: {}: copied {} files, {:.1} MB, in {:.1} s; {} were there",
                target.host,
                names.join(", "),
                copied.files,
                copied.bytes as f64 / 1e6,
                copied.seconds,
                copied.there_already
            ));
            Ok(())
        })
    }

    /// An error that lists what is wrong, by node.
    fn fail_if_any(&self, problems: Vec<(usize, String)>) -> anyhow::Result<()> {
        if problems.is_empty() {
            return Ok(());
        }
        let unfit: std::collections::BTreeSet<usize> = problems.iter().map(|(node, _)| *node).collect();
        let mut text = format!("nothing was started: {} of {} nodes are not ready", unfit.len(), self.links.len());
        for (node, problem) in &problems {
            text += &format!("\n  {} (node {node}): {problem}", self.plan.nodes[*node].target.host);
        }
        bail!(text)
    }

    /// Lets all nodes check themselves, and compares them.
    fn check(&mut self) -> anyhow::Result<()> {
        let all: Vec<usize> = (0..self.links.len()).collect();
        let orders = all.iter().map(|&node| Order::Check(self.plan.check(node))).collect();
        let answers = self.ask(&all, orders, |report| match report {
            Report::Checked(checked) => Some(checked),
            _ => None,
        })?;
        let mut problems = Vec::new();
        for (node, checked) in answers.iter().enumerate() {
            problems.extend(checked.problems.iter().map(|problem| (node, problem.clone())));
            problems.extend(difference(&answers[0], checked).map(|problem| (node, problem)));
        }
        self.fail_if_any(problems)?;
        let others: Vec<usize> = all.into_iter().skip(1).collect();
        let probe = Order::Probe { host: self.plan.master_addr.clone(), port: self.plan.master_port };
        let answers = self.ask(&others, vec![probe; others.len()], |report| match report {
            Report::Probed { problem } => Some(problem),
            _ => None,
        })?;
        self.fail_if_any(others.into_iter().zip(answers).filter_map(|(node, problem)| Some((node, problem?))).collect())
    }

    /// Gives some nodes an order each, and waits for the answers of all.
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
        let deadline = Instant::now() + CHECKING;
        while answers.iter().any(Option::is_none) {
            let missing = nodes.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(&node, _)| node);
            let missing: Vec<usize> = missing.collect();
            match self.next_event() {
                Some(Event::Interrupt) => bail!(Interrupted),
                Some(Event::Report { node, report }) => {
                    if let (Some(position), Some(found)) = (nodes.iter().position(|&n| n == node), answer(report)) {
                        answers[position] = Some(found);
                    }
                }
                Some(Event::Closed { node, .. }) => {
                    let why = self.links[node].take().map(|mut link| link.explain()).unwrap_or_default();
                    self.fail_if_any(vec![(node, why)])?;
                }
                None if Instant::now() > deadline => {
                    let text = format!("no answer for {} s", CHECKING.as_secs());
                    self.fail_if_any(missing.into_iter().map(|node| (node, text.clone())).collect())?;
                }
                None => {
                    let silent = |node: &usize| self.links[*node].as_ref().is_none_or(Link::is_silent);
                    let silent: Vec<usize> = missing.into_iter().filter(silent).collect();
                    self.fail_if_any(silent.into_iter().map(|node| (node, no_sign_of_life())).collect())?;
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// Runs the job, and again after failures.
    fn run(&mut self, max_restarts: u32) -> anyhow::Result<ExitCode> {
        let mut restarts = 0;
        self.check()?;
        loop {
            let watch = self.attempt(restarts)?;
            if watch.is_interrupted() {
                note("interrupted: all processes have ended");
                return Ok(ExitCode::from(INTERRUPTED));
            }
            let Some(failure) = watch.failure() else { return Ok(ExitCode::SUCCESS) };
            let what = format!("rank {} on {} {}", failure.rank, self.host_of(failure.rank), failure.ending);
            if restarts == max_restarts {
                if self.screen.has_lines(failure.rank) {
                    note(format!("{what}; its last lines:"));
                    self.screen.repeat(failure.rank);
                } else {
                    note(what);
                }
                return Ok(ExitCode::from(failure.ending.code()));
            }
            restarts += 1;
            note(format!("{what}; starting all of the job again ({restarts} of {max_restarts})"));
            self.get_ready_again()?;
        }
    }

    /// Connects to nodes that were lost, and checks all, until all is well or time is up.
    fn get_ready_again(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + RESTARTING;
        loop {
            std::thread::sleep(RESTART_PAUSE);
            match self.connect().and_then(|()| self.check()) {
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(_) => {}
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Runs the job once, until nothing of it is left.
    fn attempt(&mut self, restarts: u32) -> anyhow::Result<Watch> {
        self.screen.begin(restarts)?;
        // A process of an earlier attempt that is late knows another secret, and is turned away.
        let (job_id, token) = (Token::random()?, Token::random()?);
        for node in 0..self.links.len() {
            let start = self.plan.start(node, &job_id.to_env_value()[..32], &token, restarts);
            self.send(node, Order::Start(start));
        }
        let mut watch = Watch::new(self.plan.nodes.iter().map(|node| node.ranks.clone()).collect());
        while !watch.is_done() {
            match self.next_event() {
                Some(Event::Report { report: Report::Line { rank, stream, text }, .. }) => {
                    self.screen.line(rank, stream, &text)?;
                }
                Some(Event::Report { report: Report::Ended { rank, ending }, .. }) => {
                    watch.ended(rank, ending, Instant::now());
                }
                Some(Event::Report { .. }) => {}
                Some(Event::Closed { node, .. }) => {
                    let why = self.links[node].take().map(|mut link| link.explain()).unwrap_or_default();
                    self.lose(&mut watch, node, &why);
                }
                Some(Event::Interrupt) => {
                    let action = watch.interrupt(Instant::now());
                    note("interrupted: ending all processes (again to kill them at once)");
                    self.act(&mut watch, action);
                }
                None => {
                    let silent = |node: &usize| self.links[*node].as_ref().is_some_and(Link::is_silent);
                    for node in (0..self.links.len()).filter(silent).collect::<Vec<_>>() {
                        self.lose(&mut watch, node, &no_sign_of_life());
                    }
                }
            }
            if let Some(action) = watch.tick(Instant::now()) {
                self.act(&mut watch, action);
            }
        }
        Ok(watch)
    }

    fn act(&mut self, watch: &mut Watch, action: Action) {
        match action {
            Action::Stop => (0..self.links.len()).for_each(|node| self.send(node, Order::Stop)),
            Action::Kill => (0..self.links.len()).for_each(|node| self.send(node, Order::Kill)),
            Action::GiveUp(nodes) => {
                for node in nodes {
                    self.lose(watch, node, "it does not say that its processes have ended");
                }
            }
        }
    }

    /// Closes the connection to a node; its agent ends its ranks when it notices.
    fn lose(&mut self, watch: &mut Watch, node: usize, why: &str) {
        self.links[node] = None;
        if watch.is_running(node) {
            note(format!("{} (node {node}) is lost: {why}", self.plan.nodes[node].target.host));
        }
        watch.lost(node, why, Instant::now());
    }

    /// The next event of a connection that is still in use.
    fn next_event(&self) -> Option<Event> {
        let event = self.waiting.recv_timeout(TICK).ok()?;
        match event {
            Event::Closed { node, connection } => {
                let current = self.links[node].as_ref().is_some_and(|link| link.connection == connection);
                if current { Some(event) } else { None }
            }
            event => Some(event),
        }
    }

    fn send(&self, node: usize, order: Order) {
        if let Some(link) = &self.links[node] {
            link.send(order);
        }
    }

    fn host_of(&self, rank: usize) -> &str {
        let node = self.plan.nodes.iter().find(|node| node.ranks.contains(&rank));
        node.map_or("?", |node| &node.target.host)
    }
}

fn no_sign_of_life() -> String {
    format!("no sign of life for {} s", SILENCE.as_secs())
}

/// What a thread has found; a panic is an error like others.
fn joined<T>(result: std::thread::Result<Result<T, String>>) -> Result<T, String> {
    result.unwrap_or_else(|_| Err("the launcher's thread for it panicked".into()))
}

/// Somebody wants to end before anything was started.
#[derive(Debug)]
struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted: nothing was started")
    }
}

impl std::error::Error for Interrupted {}

/// What makes a node unfit to work with the first one.
fn difference(first: &Checked, other: &Checked) -> Option<String> {
    let differs = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
    if differs(&first.meta, &other.meta) {
        return Some(
            "its parts are of another partitioning than node 0's: copy them again, or give --copy-parts".into(),
        );
    }
    // Builds for another kind of processor cannot be compared.
    if first.machine == other.machine && differs(&first.program, &other.program) {
        return Some("its program is not the same as node 0's: install the same version, or give --sync-binary".into());
    }
    None
}

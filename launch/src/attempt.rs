//! One attempt at a job: from the start of its processes until none of them is left.

use crate::launcher::{Launcher, TICK};
use crate::link::{Event, Link};
use crate::messages::{Order, Report, SWEEP_ROLE};
use crate::ssh::{Target, cached, in_shell};
use crate::watch::{Action, Watch};
use anyhow::bail;
use edgecut_cluster::Token;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a node gets to end what its lost agent has left.
const SWEEPING: Duration = Duration::from_secs(5);
/// Characters of a job's id.
const ID_LEN: usize = 32;

impl Launcher {
    /// Runs the job once, until nothing of it is left.
    pub(crate) fn attempt(&mut self, restarts: u32) -> anyhow::Result<Watch> {
        self.printer().begin(restarts).map_err(anyhow::Error::msg)?;
        // A process of an earlier attempt that is late knows another secret, and is turned away.
        let (job_id, token) = (Token::random()?, Token::random()?);
        let job_id = &job_id.to_env_value()[..ID_LEN];
        for node in 0..self.links.len() {
            self.send(node, Order::Start(self.plan.start(node, job_id, &token, restarts)));
        }
        let mut watch = Watch::new(self.plan.nodes.iter().map(|node| node.ranks.clone()).collect());
        let mut sweeps: Vec<JoinHandle<()>> = Vec::new();
        let mut looked = Instant::now();
        self.standstill.restart();
        // A pause before the attempt explains nothing that happens in it.
        self.stood_still = None;
        while !watch.is_done() {
            let event = self.next_event();
            if let Some(pause) = self.stood_still.take() {
                watch.stood_still(pause, Instant::now());
                self.printer().note(format!("this program stood still for {} s", pause.as_secs()));
            }
            match event {
                Some(Event::Report { from, report: Report::Ended { rank, ending } })
                    if self.plan.nodes[from.node].ranks.contains(&rank) =>
                {
                    watch.ended(rank, ending, Instant::now());
                }
                Some(Event::Report { from, report: Report::Silenced { silence_ms } }) => {
                    watch.silenced();
                    let host = &self.plan.nodes[from.node].target.host;
                    let seconds = silence_ms / 1000;
                    self.printer().note(format!(
                        "{host} (node {}) ends its processes: it has heard nothing from this program for {seconds} s",
                        from.node
                    ));
                }
                Some(Event::Report { .. }) | None => {}
                Some(Event::Closed { from }) => {
                    let why = self.links[from.node].take().map(|mut link| link.explain()).unwrap_or_default();
                    sweeps.extend(watch.is_running(from.node).then(|| self.sweep(from.node, job_id)));
                    self.lose(&mut watch, from.node, &why);
                }
                Some(Event::Interrupt) => {
                    let action = watch.interrupt(Instant::now());
                    self.printer().note("interrupted: ending all processes (again to kill them at once)");
                    self.act(&mut watch, action);
                }
                // The connections close with the launcher, and the agents end the job.
                Some(Event::Unwritten(problem)) => bail!(problem),
            }
            if looked.elapsed() > TICK {
                looked = Instant::now();
                let silent = |node: &usize| self.links[*node].as_ref().is_some_and(Link::is_silent);
                for node in (0..self.links.len()).filter(silent).collect::<Vec<_>>() {
                    self.lose(&mut watch, node, &self.no_sign_of_life());
                }
            }
            if let Some(action) = watch.tick(Instant::now()) {
                self.act(&mut watch, action);
            }
        }
        let deadline = Instant::now() + SWEEPING;
        while sweeps.iter().any(|sweep| !sweep.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(TICK / 4);
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
            let host = &self.plan.nodes[node].target.host;
            self.printer().note(format!("{host} (node {node}) is lost: {why}"));
        }
        watch.lost(node, why, Instant::now());
    }

    /// If the agent of a node was killed, its ranks were as well, but not what these had started: a new one ends that.
    fn sweep(&self, node: usize, job_id: &str) -> JoinHandle<()> {
        let target: Target = self.plan.nodes[node].target.clone();
        let remote = in_shell(&format!("exec \"{}\" {SWEEP_ROLE} {job_id}", cached(&self.agent_name)));
        std::thread::spawn(move || {
            let Ok(mut session) = target.spawn(&remote) else { return };
            let deadline = Instant::now() + SWEEPING;
            while Instant::now() < deadline && matches!(session.child.try_wait(), Ok(None)) {
                std::thread::sleep(TICK / 4);
            }
        })
    }
}

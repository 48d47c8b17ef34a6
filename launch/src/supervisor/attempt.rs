//! One attempt at a job: from the start of its processes until all of them have ended.

use super::launcher::Launcher;
use super::watch::{Action, Failure, Watch};
use crate::hosts::agent_connection::{Event, Link};
use crate::hosts::ssh::{Target, cached, in_shell};
use crate::messages::{Order, Report, SWEEP_ROLE};
use crate::timeouts::{CLEANUP_TIMEOUT, CLOCK_INTERVAL};
use edgecut_cluster::Token;
use std::thread::JoinHandle;
use std::time::Instant;

/// Characters of a job's id.
const ID_LEN: usize = 32;

impl Launcher {
    /// Runs the job once, until all its processes have ended or are lost. `restarts` counts the restarts so far.
    pub(crate) fn attempt(&mut self, restarts: u32, max_restarts: u32) -> anyhow::Result<Watch> {
        self.printer().begin(restarts, (0..self.plan.world_size).map(|rank| self.plan.label(rank)).collect())?;
        // Each attempt has a new secret, unless the user gives one, so a late process of an earlier attempt is rejected.
        let job_id = Token::random()?;
        let token = self.plan.token()?;
        let job_id = &job_id.to_env_value()[..ID_LEN];
        for node in 0..self.links.len() {
            self.send(node, Order::Start(self.plan.start(node, job_id, &token, restarts)));
        }
        let mut watch = Watch::new(self.plan.nodes.iter().map(|node| node.ranks.clone()).collect(), self.plan.grace);
        if self.plan.is_servers {
            // Servers connect to each other anew, so each one can be started again alone.
            watch = watch.with_restarts(max_restarts - restarts);
        }
        let mut sweeps: Vec<JoinHandle<()>> = Vec::new();
        let mut looked = Instant::now();
        self.standstill.restart();
        // A pause before this attempt cannot be the cause of anything that happens in it.
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
                // Output cannot be written. Returning closes the connections, and the agents then end the job.
                Some(Event::Unwritten(error)) => return Err(error),
            }
            if looked.elapsed() > CLOCK_INTERVAL {
                looked = Instant::now();
                for node in 0..self.links.len() {
                    if self.links[node].as_ref().is_some_and(Link::is_silent) {
                        self.lose(&mut watch, node, &self.no_sign_of_life());
                    }
                }
            }
            if let Some(failure) = watch.restart_due(Instant::now()) {
                let Failure { rank, ending } = &failure;
                let done = max_restarts - watch.restarts_left();
                let host = self.host_of(*rank);
                self.printer()
                    .note(format!("rank {rank} on {host} {ending}; starting it again ({done} of {max_restarts})"));
                let node = self.plan.node_of(*rank);
                let mut start = self.plan.start(node, job_id, &token, done);
                start.ranks.retain(|start| start.rank == *rank);
                self.send(node, Order::StartAgain(start));
            }
            if let Some(action) = watch.tick(Instant::now()) {
                self.act(&mut watch, action);
            }
        }
        let deadline = Instant::now() + CLEANUP_TIMEOUT;
        while sweeps.iter().any(|sweep| !sweep.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(CLOCK_INTERVAL / 4);
        }
        Ok(watch)
    }

    /// Carries out a decision of the watch.
    fn act(&mut self, watch: &mut Watch, action: Action) {
        match action {
            Action::Stop => (0..self.links.len()).for_each(|node| self.send(node, Order::Stop)),
            Action::Kill => (0..self.links.len()).for_each(|node| self.send(node, Order::Kill)),
            Action::GiveUp(nodes) => {
                for node in nodes {
                    self.lose(watch, node, "it did not report the end of its processes");
                }
            }
        }
    }

    /// Closes the connection to a node. Its agent ends its ranks when it notices.
    fn lose(&mut self, watch: &mut Watch, node: usize, why: &str) {
        self.links[node] = None;
        if watch.is_running(node) {
            let host = &self.plan.nodes[node].target.host;
            self.printer().note(format!("{host} (node {node}) is lost: {why}"));
        }
        watch.lost(node, why, Instant::now());
    }

    /// Starts a process on the node that kills what a killed agent's ranks had started. The ranks themselves died with
    /// the agent.
    fn sweep(&self, node: usize, job_id: &str) -> JoinHandle<()> {
        let target: Target = self.plan.nodes[node].target.clone();
        let remote = in_shell(&format!("exec \"{}\" {SWEEP_ROLE} {job_id}", cached(&self.agent_name)));
        std::thread::spawn(move || {
            let Ok(mut session) = target.spawn(&remote) else { return };
            let deadline = Instant::now() + CLEANUP_TIMEOUT;
            while Instant::now() < deadline && matches!(session.child.try_wait(), Ok(None)) {
                std::thread::sleep(CLOCK_INTERVAL / 4);
            }
        })
    }
}

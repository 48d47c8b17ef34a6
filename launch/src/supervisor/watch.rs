//! Decisions on the ends of ranks, on lost nodes and on Ctrl-C. This module only decides; the launcher acts.

use crate::messages::Ending;
use crate::timeouts::{OTHER_RANKS_TIMEOUT, REPORT_TIMEOUT, SERVER_RESTART_INTERVAL, STANDSTILL_BLAME_TIMEOUT};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The exit status of a rank that ended because another one failed, as `train --help` documents it.
const OTHER_RANK_FAILED: Ending = Ending::Code(3);

/// The next action of the launcher.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell all agents to stop their ranks.
    Stop,
    /// Tell all agents to kill their ranks.
    Kill,
    /// Close the connections of these nodes, which no longer answer.
    GiveUp(Vec<usize>),
}

/// A rank that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) rank: usize,
    pub(crate) ending: Ending,
}

/// A standstill of this program.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    until: Instant,
}

/// The state of one attempt at a job.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The ranks of each node.
    nodes: Vec<Range<usize>>,
    grace: Duration,
    /// The end of each rank, if it has ended.
    endings: Vec<Option<Ending>>,
    /// The number of single ranks that may still be started again.
    restarts_left: u32,
    /// The ranks to start again, and the time of each.
    waiting: Vec<(Failure, Instant)>,
    /// The failure that is reported as the cause.
    failure: Option<Failure>,
    /// The time at which the other ranks are to be stopped.
    stop_at: Option<Instant>,
    /// The time at which the ranks were told to stop.
    stopped_at: Option<Instant>,
    interrupts: usize,
    /// The last pause of this program while all ranks ran.
    pause: Option<Pause>,
    /// True if the pause has made an agent end its ranks, or has ended a connection.
    ended_by_pause: bool,
}

impl Watch {
    /// Creates a watch over ranks that all run. `nodes` are the ranks of each node, and `grace` is the time between asking
    /// them to end and killing them.
    pub(crate) fn new(nodes: Vec<Range<usize>>, grace: Duration) -> Self {
        let ranks = nodes.iter().map(Range::len).sum();
        let endings = vec![None; ranks];
        Self {
            nodes,
            grace,
            endings,
            restarts_left: 0,
            waiting: Vec::new(),
            failure: None,
            stop_at: None,
            stopped_at: None,
            interrupts: 0,
            pause: None,
            ended_by_pause: false,
        }
    }

    /// Lets up to `restarts` ranks that fail be started again alone, for ranks that do not depend on each other.
    pub(crate) fn with_restarts(self, restarts: u32) -> Self {
        Self { restarts_left: restarts, ..self }
    }

    /// Returns the number of single ranks that may still be started again.
    pub(crate) fn restarts_left(&self) -> u32 {
        self.restarts_left
    }

    /// Notes the end of a rank.
    pub(crate) fn ended(&mut self, rank: usize, ending: Ending, now: Instant) {
        let has_failed = matches!(ending, Ending::Code(1..) | Ending::Signal(_));
        if has_failed && self.restarts_left > 0 && self.stop_at.is_none() && self.stopped_at.is_none() {
            self.restarts_left -= 1;
            self.waiting.push((Failure { rank, ending }, now + SERVER_RESTART_INTERVAL));
            return;
        }
        if !ending.is_success() {
            // A stopped rank fails because it was stopped. A rank that failed by itself is the cause, even if others
            // ended first.
            let is_cause = self.failure.as_ref().is_none_or(|first| first.ending == OTHER_RANK_FAILED);
            if self.stopped_at.is_none() && is_cause {
                self.failure = Some(Failure { rank, ending: ending.clone() });
            }
            self.stop_at.get_or_insert(now + OTHER_RANKS_TIMEOUT);
            self.cancel_restarts();
        }
        self.endings[rank] = Some(ending);
    }

    /// Counts ranks that wait for their restart as ended.
    fn cancel_restarts(&mut self) {
        for (Failure { rank, ending }, _) in std::mem::take(&mut self.waiting) {
            self.endings[rank] = Some(ending);
        }
    }

    /// Notes that this program stood still for `length` until now: it was suspended, or its machine slept.
    pub(crate) fn stood_still(&mut self, length: Duration, now: Instant) {
        if self.is_undisturbed() {
            self.pause = Some(Pause { length, until: now });
        }
        if let Some(at) = &mut self.stopped_at {
            // The nodes' reports of the meantime are still unread, so they get their time again.
            *at = now;
        }
    }

    /// Notes that the agent of a node ends its ranks because it has heard nothing from this program.
    pub(crate) fn silenced(&mut self) {
        self.ended_by_pause |= self.pause.is_some() && self.is_undisturbed();
    }

    /// Returns true if no rank has failed by itself, and nothing was stopped.
    fn is_undisturbed(&self) -> bool {
        let failed = self.failure.as_ref().is_some_and(|first| first.ending != OTHER_RANK_FAILED);
        !failed && self.stopped_at.is_none()
    }

    /// Returns the length of the pause of this program that has ended the job, if one has.
    pub(crate) fn fatal_pause(&self) -> Option<Duration> {
        self.pause.filter(|_| self.ended_by_pause).map(|pause| pause.length)
    }

    /// Notes the loss of a node. Its agent ends its ranks. The node has been silent for a while, so the others are
    /// stopped at once.
    pub(crate) fn lost(&mut self, node: usize, why: &str, now: Instant) {
        if self.is_running(node) {
            self.stop_at = Some(now);
            let is_aftermath =
                self.pause.is_some_and(|pause| now.saturating_duration_since(pause.until) < STANDSTILL_BLAME_TIMEOUT);
            self.ended_by_pause |= is_aftermath && self.is_undisturbed();
        }
        self.waiting.retain(|(failure, _)| !self.nodes[node].contains(&failure.rank));
        for rank in self.nodes[node].clone() {
            if self.endings[rank].is_none() {
                self.ended(rank, Ending::Lost(why.into()), now);
            }
        }
    }

    /// Returns true if any rank of a node still runs.
    pub(crate) fn is_running(&self, node: usize) -> bool {
        self.nodes[node].clone().any(|rank| self.endings[rank].is_none())
    }

    /// Handles an interrupt: the first one stops the ranks, the second one kills them.
    pub(crate) fn interrupt(&mut self, now: Instant) -> Action {
        self.interrupts += 1;
        self.cancel_restarts();
        self.stopped_at.get_or_insert(now);
        if self.interrupts == 1 { Action::Stop } else { Action::Kill }
    }

    /// Returns the action that is due at `now`.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Action> {
        if self.is_done() {
            return None;
        }
        if self.stopped_at.is_none() && self.stop_at.is_some_and(|at| now >= at) {
            self.stopped_at = Some(now);
            return Some(Action::Stop);
        }
        if self.stopped_at.is_some_and(|at| now - at > self.grace + REPORT_TIMEOUT) {
            let silent = (0..self.nodes.len()).filter(|&node| self.is_running(node)).collect();
            return Some(Action::GiveUp(silent));
        }
        None
    }

    /// Returns the failure of a rank that is to be started again at `now`.
    pub(crate) fn restart_due(&mut self, now: Instant) -> Option<Failure> {
        let at = self.waiting.iter().position(|&(_, at)| now >= at)?;
        Some(self.waiting.swap_remove(at).0)
    }

    /// Returns true if nothing runs any more.
    pub(crate) fn is_done(&self) -> bool {
        self.endings.iter().all(Option::is_some)
    }

    /// Returns true if the job was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupts > 0
    }

    /// Returns the failure that caused the others.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeouts::{CLOCK_INTERVAL, HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT, TERMINATION_TIMEOUT};

    fn watch() -> (Watch, Instant) {
        (Watch::new(vec![0..2, 2..4], TERMINATION_TIMEOUT), Instant::now())
    }

    #[test]
    fn it_is_done_when_all_have_ended() {
        let (mut watch, now) = watch();
        (0..4).for_each(|rank| {
            assert!(!watch.is_done());
            watch.ended(rank, Ending::Code(0), now);
        });
        assert!(watch.is_done() && watch.failure().is_none());
        assert_eq!(watch.tick(now + OTHER_RANKS_TIMEOUT * 9), None);
    }

    #[test]
    fn the_rank_that_failed_itself_is_the_cause_whoever_ended_first() {
        let (mut watch, now) = watch();
        watch.ended(3, Ending::Code(3), now);
        watch.ended(1, Ending::Signal(9), now);
        watch.ended(0, Ending::Code(1), now);
        assert_eq!(watch.failure(), Some(&Failure { rank: 1, ending: Ending::Signal(9) }));
        assert_eq!(watch.failure().unwrap().ending.code(), 137);
    }

    #[test]
    fn the_others_may_end_by_themselves_and_are_stopped_then() {
        let (mut watch, now) = watch();
        watch.ended(3, Ending::Code(7), now);
        assert_eq!(watch.tick(now + OTHER_RANKS_TIMEOUT / 2), None);
        assert_eq!(watch.tick(now + OTHER_RANKS_TIMEOUT * 2), Some(Action::Stop));
        assert_eq!(watch.tick(now + OTHER_RANKS_TIMEOUT * 2), None);
        watch.ended(0, Ending::Signal(15), now + OTHER_RANKS_TIMEOUT * 2);
        assert_eq!(watch.failure().unwrap().rank, 3, "what is stopped is no failure");
        let late = now + OTHER_RANKS_TIMEOUT * 2 + TERMINATION_TIMEOUT + REPORT_TIMEOUT * 2;
        assert_eq!(watch.tick(late), Some(Action::GiveUp(vec![0, 1])));
        watch.lost(0, "silent", late);
        watch.lost(1, "silent", late);
        assert!(watch.is_done());
    }

    #[test]
    fn a_server_is_started_again_alone_as_often_as_is_allowed() {
        let (watch, now) = watch();
        let mut watch = watch.with_restarts(2);
        watch.ended(1, Ending::Signal(9), now);
        assert!(watch.failure().is_none() && watch.is_running(0));
        assert_eq!(watch.restart_due(now), None);
        let killed = Failure { rank: 1, ending: Ending::Signal(9) };
        let later = now + SERVER_RESTART_INTERVAL;
        assert_eq!(watch.restart_due(later), Some(killed));
        assert_eq!((watch.restart_due(later), watch.tick(later), watch.restarts_left()), (None, None, 1));
        // A server that ends by itself is done.
        watch.ended(0, Ending::Code(0), later);
        assert_eq!((watch.restart_due(later), watch.tick(later), watch.restarts_left()), (None, None, 1));
        watch.ended(2, Ending::Code(1), later);
        watch.ended(1, Ending::Code(2), later);
        // The last failure ends the job, and the restart that waits is off.
        assert_eq!(watch.failure(), Some(&Failure { rank: 1, ending: Ending::Code(2) }));
        assert_eq!(watch.tick(later + OTHER_RANKS_TIMEOUT), Some(Action::Stop));
        watch.ended(3, Ending::Signal(15), later + OTHER_RANKS_TIMEOUT);
        assert!(watch.is_done());
    }

    #[test]
    fn nothing_is_started_again_after_an_interrupt_or_on_a_lost_node() {
        let (watch, now) = watch();
        let mut watch = watch.with_restarts(9);
        watch.ended(0, Ending::Code(1), now);
        watch.interrupt(now);
        (1..4).for_each(|rank| watch.ended(rank, Ending::Signal(15), now));
        assert!(watch.is_done());
        let (watch, now) = self::watch();
        let mut watch = watch.with_restarts(9);
        watch.ended(2, Ending::Code(1), now);
        watch.lost(1, "no sign of life", now);
        assert_eq!(watch.failure().unwrap().rank, 2);
        assert_eq!(watch.restart_due(now + SERVER_RESTART_INTERVAL), None);
        assert_eq!(watch.tick(now + SERVER_RESTART_INTERVAL), Some(Action::Stop));
    }

    #[test]
    fn a_lost_node_is_a_failure_of_its_ranks_that_ran() {
        let (mut watch, now) = watch();
        watch.ended(2, Ending::Code(0), now);
        watch.lost(1, "no sign of life", now);
        assert_eq!(watch.failure().unwrap().rank, 3);
        assert!(!watch.is_running(1) && watch.is_running(0));
        assert_eq!(watch.tick(now), Some(Action::Stop), "its silence has taken long enough");
    }

    #[test]
    fn a_pause_of_this_program_is_blamed_for_what_it_ends_and_nothing_else() {
        let pause = Duration::from_secs(60);
        // The agents have ended their ranks meanwhile.
        let (mut watch, now) = self::watch();
        watch.stood_still(pause, now);
        watch.ended(0, Ending::Code(3), now);
        watch.silenced();
        watch.ended(2, Ending::Signal(15), now);
        assert_eq!((watch.fatal_pause(), watch.failure().unwrap().rank), (Some(pause), 2));
        // The connection did not outlive it.
        let (mut watch, now) = self::watch();
        watch.stood_still(pause, now);
        watch.lost(1, "closed", now + STANDSTILL_BLAME_TIMEOUT / 2);
        assert_eq!(watch.fatal_pause(), Some(pause));
        // A rank had failed before, a node is cut off much later, nothing happens at all.
        let (mut watch, now) = self::watch();
        watch.ended(0, Ending::Code(1), now);
        watch.stood_still(pause, now);
        watch.silenced();
        assert_eq!(watch.fatal_pause(), None);
        let (mut watch, now) = self::watch();
        watch.stood_still(pause, now);
        assert_eq!(watch.fatal_pause(), None);
        watch.lost(1, "no sign of life", now + STANDSTILL_BLAME_TIMEOUT * 2);
        assert_eq!(watch.fatal_pause(), None);
        // Without a pause the network was cut in one direction.
        let (mut watch, _) = self::watch();
        watch.silenced();
        assert_eq!(watch.fatal_pause(), None);
    }

    #[test]
    fn a_stopped_node_may_report_after_a_pause() {
        let (mut watch, now) = watch();
        watch.interrupt(now);
        let later = now + (TERMINATION_TIMEOUT + REPORT_TIMEOUT) * 3;
        watch.stood_still(later - now, later);
        assert_eq!(watch.tick(later), None);
    }

    #[test]
    fn a_second_interrupt_kills() {
        let (mut watch, now) = watch();
        assert_eq!(watch.interrupt(now), Action::Stop);
        assert_eq!(watch.interrupt(now), Action::Kill);
        watch.lost(0, "x", now);
        watch.ended(2, Ending::Signal(9), now);
        watch.ended(3, Ending::Signal(9), now);
        assert!(watch.is_done() && watch.is_interrupted() && watch.failure().is_none());
    }

    #[test]
    fn a_job_is_over_within_ten_seconds_of_a_failure() {
        // On both sides clocks are looked at now and then, and what is killed has to be reaped.
        let looks = 2 * CLOCK_INTERVAL + HEARTBEAT_INTERVAL + Duration::from_secs(1);
        assert!(OTHER_RANKS_TIMEOUT + TERMINATION_TIMEOUT + looks < Duration::from_secs(10));
        assert!(HEARTBEAT_TIMEOUT + TERMINATION_TIMEOUT + looks < Duration::from_secs(10));
    }
}

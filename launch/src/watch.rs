//! Decides what happens when ranks end, nodes are lost and somebody presses Ctrl-C. It acts on nothing itself.

use crate::messages::{Ending, GRACE, SILENCE};
use std::ops::Range;
use std::time::{Duration, Instant};

/// After the first failure the other ranks may end by themselves for so long: they say what they know.
const FOLLOW: Duration = Duration::from_secs(3);
/// What a stopped node gets beyond the grace of its processes.
const REPORTING: Duration = SILENCE;
/// A connection that ends so soon after this program stood still has ended because of that: `ssh` needs some seconds to
/// notice.
const AFTERMATH: Duration = Duration::from_secs(30);
/// The exit status of a rank that ended because another one failed (`train` documents it).
const OTHER_RANK_FAILED: Ending = Ending::Code(3);

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Tell all agents to stop their ranks.
    Stop,
    /// Tell all agents to kill their ranks.
    Kill,
    /// Close the connections of these nodes, which do not answer any more.
    GiveUp(Vec<usize>),
}

/// A rank that did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) rank: usize,
    pub(crate) ending: Ending,
}

/// A time in which this program did nothing.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: Duration,
    until: Instant,
}

/// One attempt at a job.
#[derive(Debug)]
pub(crate) struct Watch {
    nodes: Vec<Range<usize>>,
    endings: Vec<Option<Ending>>,
    failure: Option<Failure>,
    /// When the others are to be stopped.
    stop_at: Option<Instant>,
    stopped_at: Option<Instant>,
    interrupts: usize,
    /// The last pause of this program while all ranks ran.
    pause: Option<Pause>,
    /// True if an agent has ended its ranks, or a connection has ended, because of it.
    ended_by_pause: bool,
}

impl Watch {
    /// All ranks run; `nodes` says where.
    pub(crate) fn new(nodes: Vec<Range<usize>>) -> Self {
        let ranks = nodes.iter().map(Range::len).sum();
        let endings = vec![None; ranks];
        Self {
            nodes,
            endings,
            failure: None,
            stop_at: None,
            stopped_at: None,
            interrupts: 0,
            pause: None,
            ended_by_pause: false,
        }
    }

    /// A rank has ended.
    pub(crate) fn ended(&mut self, rank: usize, ending: Ending, now: Instant) {
        if !ending.is_success() {
            // What is stopped fails as it was told to. A rank that failed itself is the cause, whoever ended first.
            let is_cause = self.failure.as_ref().is_none_or(|first| first.ending == OTHER_RANK_FAILED);
            if self.stopped_at.is_none() && is_cause {
                self.failure = Some(Failure { rank, ending: ending.clone() });
            }
            self.stop_at.get_or_insert(now + FOLLOW);
        }
        self.endings[rank] = Some(ending);
    }

    /// This program stood still until now: it was suspended, or its machine slept.
    pub(crate) fn stood_still(&mut self, length: Duration, now: Instant) {
        if self.is_undisturbed() {
            self.pause = Some(Pause { length, until: now });
        }
        if let Some(at) = &mut self.stopped_at {
            // What the nodes have reported meanwhile is still to be read.
            *at = now;
        }
    }

    /// The agent of a node ends its ranks because it has heard nothing from this program.
    pub(crate) fn silenced(&mut self) {
        self.ended_by_pause |= self.pause.is_some() && self.is_undisturbed();
    }

    /// Returns whether nothing has failed but what another failure explains, and nothing was stopped.
    fn is_undisturbed(&self) -> bool {
        let failed = self.failure.as_ref().is_some_and(|first| first.ending != OTHER_RANK_FAILED);
        !failed && self.stopped_at.is_none()
    }

    /// Returns the time for which this program stood still, if that has ended the job.
    pub(crate) fn fatal_pause(&self) -> Option<Duration> {
        self.pause.filter(|_| self.ended_by_pause).map(|pause| pause.length)
    }

    /// A node cannot be reached any more. Its ranks end by themselves; its silence has taken time already, so the others
    /// are stopped at once.
    pub(crate) fn lost(&mut self, node: usize, why: &str, now: Instant) {
        if self.is_running(node) {
            self.stop_at = Some(now);
            let is_aftermath = self.pause.is_some_and(|pause| now.saturating_duration_since(pause.until) < AFTERMATH);
            self.ended_by_pause |= is_aftermath && self.is_undisturbed();
        }
        for rank in self.nodes[node].clone() {
            if self.endings[rank].is_none() {
                self.ended(rank, Ending::Lost(why.into()), now);
            }
        }
    }

    /// Whether any rank of a node still runs.
    pub(crate) fn is_running(&self, node: usize) -> bool {
        self.nodes[node].clone().any(|rank| self.endings[rank].is_none())
    }

    /// Somebody wants the job to end: politely the first time.
    pub(crate) fn interrupt(&mut self, now: Instant) -> Action {
        self.interrupts += 1;
        self.stopped_at.get_or_insert(now);
        if self.interrupts == 1 { Action::Stop } else { Action::Kill }
    }

    /// What the time that has passed calls for.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Action> {
        if self.is_done() {
            return None;
        }
        if self.stopped_at.is_none() && self.stop_at.is_some_and(|at| now >= at) {
            self.stopped_at = Some(now);
            return Some(Action::Stop);
        }
        if self.stopped_at.is_some_and(|at| now - at > GRACE + REPORTING) {
            let silent = (0..self.nodes.len()).filter(|&node| self.is_running(node)).collect();
            return Some(Action::GiveUp(silent));
        }
        None
    }

    /// Whether nothing runs any more.
    pub(crate) fn is_done(&self) -> bool {
        self.endings.iter().all(Option::is_some)
    }

    /// Whether somebody wanted it to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupts > 0
    }

    /// What went wrong first.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::TICK;
    use crate::messages::BEAT;

    fn watch() -> (Watch, Instant) {
        (Watch::new(vec![0..2, 2..4]), Instant::now())
    }

    #[test]
    fn it_is_done_when_all_have_ended() {
        let (mut watch, now) = watch();
        (0..4).for_each(|rank| {
            assert!(!watch.is_done());
            watch.ended(rank, Ending::Code(0), now);
        });
        assert!(watch.is_done() && watch.failure().is_none());
        assert_eq!(watch.tick(now + FOLLOW * 9), None);
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
        assert_eq!(watch.tick(now + FOLLOW / 2), None);
        assert_eq!(watch.tick(now + FOLLOW * 2), Some(Action::Stop));
        assert_eq!(watch.tick(now + FOLLOW * 2), None);
        watch.ended(0, Ending::Signal(15), now + FOLLOW * 2);
        assert_eq!(watch.failure().unwrap().rank, 3, "what is stopped is no failure");
        let late = now + FOLLOW * 2 + GRACE + REPORTING * 2;
        assert_eq!(watch.tick(late), Some(Action::GiveUp(vec![0, 1])));
        watch.lost(0, "silent", late);
        watch.lost(1, "silent", late);
        assert!(watch.is_done());
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
        watch.lost(1, "closed", now + AFTERMATH / 2);
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
        watch.lost(1, "no sign of life", now + AFTERMATH * 2);
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
        let later = now + (GRACE + REPORTING) * 3;
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
        let looks = 2 * TICK + BEAT + Duration::from_secs(1);
        assert!(FOLLOW + GRACE + looks < Duration::from_secs(10));
        assert!(SILENCE + GRACE + looks < Duration::from_secs(10));
    }
}

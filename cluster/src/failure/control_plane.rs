//! The decisions of the control plane, without sockets: events in, actions out.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::error::Failure;
use crate::failure::messages::Message;

/// An action for the control thread to execute.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Print a failure where all ranks print to the same terminal, before anything else.
    Print(Failure, Printing),
    /// Send to a rank, if the connection is still open.
    Send(usize, Message),
    /// Record the failure for this process.
    Record(Failure),
    /// Find out which ranks this rank waits for, and pass the answer to [`ControlPlane::on_waits`]. The rank may be
    /// this one.
    Ask(usize),
    /// Tell rank 0 which ranks this rank waits for.
    TellWaits,
    /// Finish: all ranks are done, and nothing that follows is a failure.
    Finish,
}

/// The rank that prints a failure which no rank has reported as its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Printing {
    /// This rank, which decides on the failure.
    Here,
    /// The first rank that is left. Rank 0, which decides otherwise, cannot be heard.
    FirstLeft,
}

/// The control plane of one rank. Rank 0 is the hub: it alone decides which failure was the first.
pub(crate) struct ControlPlane {
    rank: usize,
    roster: Vec<SocketAddr>,
    // The ranks that are done. Only rank 0 knows them all.
    leaving: BTreeSet<usize>,
    state: State,
    search: Option<BlameSearch>,
}

/// The search of rank 0 for the rank that holds up the others. One rank has waited too long for a second one, which may
/// itself wait for a third, and so on. The last rank in that chain is to blame.
struct BlameSearch {
    // The report that started the search.
    suspicion: Failure,
    // The ranks asked so far; the last one has not answered yet.
    asked: Vec<usize>,
}

#[derive(PartialEq, Eq)]
enum State {
    Running,
    Failed,
    Finished,
}

impl ControlPlane {
    pub(crate) fn new(rank: usize, roster: Vec<SocketAddr>) -> Self {
        Self { rank, roster, leaving: BTreeSet::new(), state: State::Running, search: None }
    }

    /// Handles a message from the rank `from`.
    pub(crate) fn on_message(&mut self, from: usize, message: Message) -> Vec<Action> {
        match message {
            Message::Heartbeat => Vec::new(),
            Message::Failed(failure) if self.exists(&failure) => {
                let failure = self.as_seen_here(failure);
                // Rank 0 has printed what it tells.
                if self.rank == 0 { self.fail(failure) } else { self.end(failure, None) }
            }
            Message::Suspected(failure) if self.rank == 0 && failure.rank < self.roster.len() => {
                let failure = self.as_seen_here(failure);
                self.on_suspicion(failure)
            }
            // Ignore a suspicion of a rank that does not exist.
            Message::Suspected(_) if self.rank == 0 => Vec::new(),
            Message::Waits(ranks) if self.rank == 0 => self.on_waits(from, &ranks),
            Message::AskWaits if self.rank != 0 => vec![Action::TellWaits],
            Message::Leaving if self.rank == 0 => self.leave(from),
            Message::Goodbye if self.rank != 0 => self.finish(),
            _ => self.on_lost(from, "it sent an unexpected control message".to_owned()),
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Returns whether the ranks that a failure names exist in the job.
    fn exists(&self, failure: &Failure) -> bool {
        failure.rank < self.roster.len() && failure.link_to.is_none_or(|rank| rank < self.roster.len())
    }

    /// Returns the failure of the connection between this rank and `rank`, neither of them rank 0; `None` if there is
    /// no such rank.
    pub(crate) fn lost_connection(&self, rank: usize, reason: &str) -> Option<Failure> {
        let addr = *self.roster.get(rank)?;
        Some(Failure { rank, addr, reason: reason.to_owned(), link_to: Some(self.rank), is_own: false })
    }

    /// Handles the end of the connection to `from`, or its silence.
    pub(crate) fn on_lost(&mut self, from: usize, reason: String) -> Vec<Action> {
        match self.roster.get(from) {
            Some(&addr) => self.fail(Failure { rank: from, addr, reason, link_to: None, is_own: false }),
            None => Vec::new(),
        }
    }

    /// Handles the failure of the connection to rank 0 when this rank can still report it, but not hear the answer.
    pub(crate) fn on_lost_hub(&mut self, reason: &str) -> Vec<Action> {
        self.lost_connection(0, reason).map_or_else(Vec::new, |failure| self.fail(failure))
    }

    /// Handles a failure that this process reports: its own or that of a neighbor.
    pub(crate) fn on_report(&mut self, failure: Failure) -> Vec<Action> {
        if self.rank == 0 {
            return self.fail(failure);
        }
        // Rank 0 may know of an earlier failure. Its answer is the same for all ranks, so this rank records only that.
        vec![Action::Send(0, Message::Failed(failure))]
    }

    /// Handles a suspicion: a rank has waited too long for another one.
    pub(crate) fn on_suspicion(&mut self, suspicion: Failure) -> Vec<Action> {
        if self.rank != 0 {
            return vec![Action::Send(0, Message::Suspected(suspicion))];
        }
        // One search at a time: each search ends with a failure of the job, so further suspicions change nothing.
        if self.search.is_some() || self.state != State::Running {
            return Vec::new();
        }
        let first = suspicion.rank;
        self.search = Some(BlameSearch { suspicion, asked: vec![first] });
        vec![Action::Ask(first)]
    }

    /// Handles the answer of a rank: the ranks that it waits for.
    pub(crate) fn on_waits(&mut self, from: usize, ranks: &[usize]) -> Vec<Action> {
        // Only the answer of the rank that was asked last counts.
        let Some(mut search) = self.search.take_if(|search| search.asked.last() == Some(&from)) else {
            return Vec::new();
        };
        if ranks.is_empty() {
            return self.conclude(search.suspicion, from);
        }
        let known = ranks.iter().find(|rank| **rank < self.roster.len() && !search.asked.contains(rank));
        let Some(&next) = known else {
            // The ranks wait for each other in a cycle, through several groups. All of them are equally to blame, so
            // the first suspicion stands.
            return self.fail(search.suspicion);
        };
        search.asked.push(next);
        self.search = Some(search);
        vec![Action::Ask(next)]
    }

    /// Replaces the address in a failure by the one that this rank knows. Ranks may reach the same rank at different
    /// addresses, and rank 0 may know itself only by a loopback address.
    fn as_seen_here(&self, failure: Failure) -> Failure {
        let addr = self.roster.get(failure.rank).copied().unwrap_or(failure.addr);
        Failure { addr, ..failure }
    }

    /// Ends a search that led to `culprit`.
    fn conclude(&mut self, suspicion: Failure, culprit: usize) -> Vec<Action> {
        if suspicion.rank == culprit {
            return self.fail(suspicion);
        }
        self.on_lost(culprit, format!("other ranks wait for it, and it does not wait for any: {}", suspicion.reason))
    }

    /// Handles the end of this process's work.
    pub(crate) fn on_leave(&mut self) -> Vec<Action> {
        if self.rank == 0 { self.leave(0) } else { vec![Action::Send(0, Message::Leaving)] }
    }

    /// Returns the ranks that are not done yet. Meaningful on rank 0 only.
    pub(crate) fn unfinished(&self) -> Vec<usize> {
        (0..self.roster.len()).filter(|rank| !self.leaving.contains(rank)).collect()
    }

    /// Ends the job by a failure that this rank has found, or that rank 0 was told.
    fn fail(&mut self, failure: Failure) -> Vec<Action> {
        let printing = match (failure.is_own, self.rank) {
            (true, _) => None,
            (false, 0) => Some(Printing::Here),
            (false, _) => Some(Printing::FirstLeft),
        };
        self.end(failure, printing)
    }

    fn end(&mut self, failure: Failure, printing: Option<Printing>) -> Vec<Action> {
        if self.state != State::Running {
            return Vec::new();
        }
        self.state = State::Failed;
        let mut actions = Vec::new();
        if let Some(printing) = printing {
            actions.push(Action::Print(failure.clone(), printing));
        }
        actions.extend(self.to_others(&Message::Failed(failure.clone())));
        actions.push(Action::Record(failure));
        actions
    }

    fn leave(&mut self, rank: usize) -> Vec<Action> {
        self.leaving.insert(rank);
        if self.leaving.len() < self.roster.len() { Vec::new() } else { self.finish() }
    }

    fn finish(&mut self) -> Vec<Action> {
        if self.state != State::Running {
            return Vec::new();
        }
        self.state = State::Finished;
        let mut actions = self.to_others(&Message::Goodbye);
        actions.push(Action::Finish);
        actions
    }

    /// Returns the actions that send a message to all other ranks; none unless this is rank 0.
    fn to_others(&self, message: &Message) -> Vec<Action> {
        if self.rank != 0 {
            return Vec::new();
        }
        (1..self.roster.len()).map(|rank| Action::Send(rank, message.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control_plane(rank: usize) -> ControlPlane {
        ControlPlane::new(rank, (0..3).map(|port| ([127, 0, 0, 1], port).into()).collect())
    }

    fn failure(rank: usize) -> Failure {
        Failure {
            rank,
            addr: ([127, 0, 0, 1], rank as u16).into(),
            reason: "x".to_owned(),
            link_to: None,
            is_own: false,
        }
    }

    #[test]
    fn rank_0_tells_everyone_of_the_first_failure_only() {
        let mut hub = control_plane(0);
        let told = Message::Failed(failure(2));
        let printed = Action::Print(failure(2), Printing::Here);
        let expected = vec![printed, Action::Send(1, told.clone()), Action::Send(2, told), Action::Record(failure(2))];
        assert_eq!(hub.on_lost(2, "x".to_owned()), expected);
        assert_eq!(hub.on_lost(1, "y".to_owned()), []);
        assert_eq!(hub.on_message(1, Message::Failed(failure(0))), []);
        assert_eq!(hub.on_leave(), []);
    }

    #[test]
    fn another_rank_leaves_the_decision_to_rank_0() {
        let mut rank = control_plane(1);
        assert_eq!(rank.on_report(failure(2)), [Action::Send(0, Message::Failed(failure(2)))]);
        assert_eq!(rank.on_message(0, Message::Failed(failure(1))), [Action::Record(failure(1))]);
    }

    #[test]
    fn a_rank_prints_its_own_failure_itself() {
        let own = Failure { is_own: true, ..failure(1) };
        let told = Message::Failed(own.clone());
        let expected = [Action::Send(1, told.clone()), Action::Send(2, told.clone()), Action::Record(own)];
        assert_eq!(control_plane(0).on_message(1, told), expected);
    }

    #[test]
    fn a_failure_carries_the_address_that_is_known_here() {
        let elsewhere = |rank| Failure { addr: ([10, 0, 0, 9], 9).into(), ..failure(rank) };
        assert_eq!(control_plane(1).on_message(0, Message::Failed(elsewhere(0))), [Action::Record(failure(0))]);
        let mut hub = control_plane(0);
        hub.on_message(1, Message::Suspected(elsewhere(2)));
        assert_eq!(hub.on_message(2, Message::Waits(vec![])).last(), Some(&Action::Record(failure(2))));
    }

    #[test]
    fn ranks_that_do_not_exist_are_not_blamed() {
        let mut hub = control_plane(0);
        assert_eq!(hub.on_message(1, Message::Suspected(failure(3))), []);
        assert_eq!(hub.on_message(1, Message::Suspected(failure(2))), [Action::Ask(2)], "no search is going on");
        let blamed = hub.on_message(1, Message::Failed(failure(3)));
        assert!(matches!(blamed.last(), Some(Action::Record(f)) if f.rank == 1), "{blamed:?}");
    }

    #[test]
    fn the_death_of_rank_0_is_seen_by_each_rank() {
        let printed = Action::Print(failure(0), Printing::FirstLeft);
        assert_eq!(control_plane(1).on_lost(0, "x".to_owned()), [printed, Action::Record(failure(0))]);
    }

    #[test]
    fn the_job_is_finished_when_all_ranks_are() {
        let mut hub = control_plane(0);
        assert_eq!(hub.on_message(2, Message::Leaving), []);
        assert_eq!(hub.on_leave(), []);
        assert_eq!(hub.unfinished(), [1]);
        let goodbye = |rank| Action::Send(rank, Message::Goodbye);
        assert_eq!(hub.on_message(1, Message::Leaving), [goodbye(1), goodbye(2), Action::Finish]);
        assert_eq!(hub.on_lost(1, "closed".to_owned()), [], "a connection may close after the goodbye");
    }

    #[test]
    fn a_rank_that_dies_while_others_still_work_has_failed() {
        let mut hub = control_plane(0);
        hub.on_message(2, Message::Leaving);
        assert!(hub.on_lost(2, "x".to_owned()).contains(&Action::Record(failure(2))));
    }

    #[test]
    fn a_goodbye_ends_a_rank_quietly() {
        let mut rank = control_plane(1);
        assert_eq!(rank.on_leave(), [Action::Send(0, Message::Leaving)]);
        assert_eq!(rank.on_message(0, Message::Goodbye), [Action::Finish]);
        assert_eq!(rank.on_lost(0, "closed".to_owned()), []);
    }

    #[test]
    fn a_suspicion_leads_to_the_rank_that_holds_up_the_others() {
        let mut hub = control_plane(0);
        assert_eq!(hub.on_message(1, Message::Suspected(failure(2))), [Action::Ask(2)]);
        assert_eq!(hub.on_suspicion(failure(1)), [], "one search at a time");
        assert_eq!(hub.on_message(1, Message::Waits(vec![])), [], "it was not asked");
        assert_eq!(hub.on_message(2, Message::Waits(vec![0])), [Action::Ask(0)]);
        match hub.on_waits(0, &[]).last() {
            Some(Action::Record(failure)) => {
                assert_eq!(failure.rank, 0);
                assert!(failure.reason.ends_with("does not wait for any: x"), "{failure}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranks_that_wait_for_each_other_end_with_the_first_suspicion() {
        let mut hub = control_plane(0);
        hub.on_suspicion(failure(2));
        assert_eq!(hub.on_message(2, Message::Waits(vec![9, 1])), [Action::Ask(1)]);
        assert_eq!(hub.on_message(1, Message::Waits(vec![2])).last(), Some(&Action::Record(failure(2))));
    }

    #[test]
    fn another_rank_answers_and_asks_rank_0() {
        let mut rank = control_plane(1);
        assert_eq!(rank.on_suspicion(failure(2)), [Action::Send(0, Message::Suspected(failure(2)))]);
        assert_eq!(rank.on_message(0, Message::AskWaits), [Action::TellWaits]);
    }

    #[test]
    fn a_message_in_the_wrong_direction_is_a_failure() {
        assert!(
            matches!(control_plane(0).on_message(1, Message::Goodbye).last(), Some(Action::Record(f)) if f.rank == 1)
        );
        assert!(
            matches!(control_plane(1).on_message(0, Message::Leaving).last(), Some(Action::Record(f)) if f.rank == 0)
        );
    }
}

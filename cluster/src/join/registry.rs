//! The decisions of the rendezvous, without sockets: the ranks that have joined, and the checks of each new one.

use crate::timeouts::MAX_START_DIFFERENCE;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::address::{check_given, is_loopback};
use crate::config::ClusterConfig;
use crate::error::seconds;
use crate::join::messages::{Register, RunName, Seat};

/// The number of characters at which fingerprints and names of jobs are cut in messages.
const SHOWN_CHARACTERS: usize = 64;
/// The most rejected connections that the error of a missing rank mentions.
const SHOWN_REJECTIONS: usize = 4;

/// The ranks that rank 0 knows of during the rendezvous.
pub(crate) struct Registry<'a> {
    config: &'a ClusterConfig,
    // By rank; `None` for ranks that have not joined.
    members: Vec<Option<Member>>,
    rejections: Vec<String>,
    started: Instant,
}

#[derive(Clone, Copy)]
struct Member {
    listen: SocketAddr,
    // The remote address of the control connection.
    peer: SocketAddr,
    seat: Seat,
    started: Instant,
}

/// A rank that asks to join.
pub(crate) struct Candidate<'a> {
    pub(crate) register: &'a Register,
    /// The remote address of its control connection.
    pub(crate) peer: SocketAddr,
    /// The time when the process began to join.
    pub(crate) started: Instant,
}

/// The outcome for a rank that is admitted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// The first process of its rank.
    New,
    /// Replaces an older process of the same rank, which must be rejected with this reason.
    InPlaceOf(String),
}

/// The outcome for a rank that is not admitted, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The process may be left over from an earlier attempt. The rendezvous goes on without it.
    Leftover(String),
    /// The rendezvous fails.
    Fatal(String),
}

impl<'a> Registry<'a> {
    /// Creates a registry in which rank 0 has joined, with the listening address `own`.
    pub(crate) fn new(config: &'a ClusterConfig, own: SocketAddr) -> Self {
        let mut members = vec![None; config.world_size];
        let started = Instant::now();
        if let Some(first) = members.first_mut() {
            *first = Some(Member { listen: own, peer: own, seat: Seat::of(config), started });
        }
        Self { config, members, rejections: Vec::new(), started }
    }

    /// Admits a rank, or returns why it cannot join.
    pub(crate) fn admit(&mut self, new: &Candidate<'_>) -> Result<Admitted, Rejection> {
        let Candidate { register, peer, started } = *new;
        let rank = register.rank;
        if let Some(reason) = self.other_run(rank, &register.run, peer) {
            return Err(Rejection::Leftover(reason));
        }
        if let Some(reason) = self.problem(register, peer) {
            // A misconfigured process that started with this job fails the rendezvous. An older one may belong to
            // another job.
            let is_older = started + MAX_START_DIFFERENCE < self.started;
            return Err(if is_older { Rejection::Leftover(reason) } else { Rejection::Fatal(reason) });
        }
        let member = Member { listen: register.listen, peer, seat: register.seat, started };
        let Some(place) = self.members.get_mut(rank) else {
            let world_size = self.config.world_size;
            return Err(Rejection::Fatal(format!("a process at {peer} claims rank {rank} of {world_size}")));
        };
        let Some(first) = place else {
            *place = Some(member);
            return Ok(Admitted::New);
        };
        let reason = format!("two processes claim rank {rank}: one at {}, one at {peer}", first.peer);
        if rank > 0 && first.started + MAX_START_DIFFERENCE < started {
            *place = Some(member);
            return Ok(Admitted::InPlaceOf(format!("{reason}, which has started later and takes its place")));
        }
        let is_older = started + MAX_START_DIFFERENCE < first.started;
        Err(if is_older { Rejection::Leftover(reason) } else { Rejection::Fatal(reason) })
    }

    /// Returns why a process cannot join if it belongs to another job, or to another attempt at this one; `None` if it
    /// belongs to this attempt.
    pub(crate) fn other_run(&self, rank: usize, run: &RunName, peer: SocketAddr) -> Option<String> {
        let RunName { job, attempt } = run;
        let own = self.config.attempt;
        if *job != self.config.job {
            return Some(format!(
                "rank {rank} at {peer} belongs to {}, rank 0 to {}: give each job a port of its own (--master-port, \
                 MASTER_PORT), and all ranks of a job the same EDGECUT_RUN_ID or none",
                named(job.as_deref()),
                named(self.config.job.as_deref())
            ));
        }
        if *attempt != own {
            return Some(format!(
                "rank {rank} at {peer} belongs to the attempt after {attempt} restarts, rank 0 to that after {own}"
            ));
        }
        None
    }

    /// Returns what is wrong with the settings of a rank; `None` if nothing is.
    fn problem(&self, new: &Register, peer: SocketAddr) -> Option<String> {
        let rank = new.rank;
        let world_size = self.config.world_size;
        if new.world_size != world_size {
            return Some(format!(
                "rank {rank} at {peer} was started with a world size of {}, rank 0 with {world_size}",
                new.world_size
            ));
        }
        if new.protection != self.config.protection {
            return Some(format!(
                "rank {rank} at {peer} was started {}, rank 0 {}: give all ranks the same protection (--encrypt, \
                 --check-traffic)",
                new.protection, self.config.protection
            ));
        }
        if new.fingerprint != self.config.fingerprint {
            return Some(format!(
                "rank {rank} at {peer} holds parts of another partitioning, or has other run parameters: \
                 its fingerprint is {}, rank 0's is {}",
                shown(&new.fingerprint),
                shown(&self.config.fingerprint)
            ));
        }
        let reason = check_given(self.config, new.listen).err()?;
        Some(format!("rank {rank} at {peer} gives {} as its listening address: {reason:#}", new.listen))
    }

    /// Remembers a rejected connection. It may have come from a rank that is missing later.
    pub(crate) fn remember_rejection(&mut self, rejection: &str) {
        if self.rejections.len() < SHOWN_REJECTIONS {
            self.rejections.push(rejection.to_owned());
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.members.iter().all(Option::is_some)
    }

    pub(crate) fn peer_of(&self, rank: usize) -> Option<SocketAddr> {
        self.members.get(rank).copied().flatten().map(|member| member.peer)
    }

    /// Returns the error for a rendezvous that has timed out. `strangers` describes connections without a valid
    /// handshake.
    pub(crate) fn timeout_reason(&self, waited: Duration, strangers: Option<String>) -> String {
        let (joined, missing): (Vec<usize>, Vec<usize>) =
            (0..self.members.len()).partition(|&rank| self.members[rank].is_some());
        let subject = if missing.len() == 1 { "rank" } else { "ranks" };
        let verb = if missing.len() == 1 { "has" } else { "have" };
        let mut reason = format!(
            "{subject} {} {verb} not joined within {} (joined: {})",
            list(&missing),
            seconds(waited),
            list(&joined)
        );
        if !self.rejections.is_empty() {
            reason += &format!("; turned away: {}", self.rejections.join("; "));
        }
        if let Some(strangers) = strangers {
            reason += &format!("; {strangers}");
        }
        reason
    }

    /// Returns the listening address of each rank, once all have joined.
    ///
    /// # Errors
    /// A node whose ranks are not consecutive, or a rank that listens on loopback while others are on other machines.
    pub(crate) fn roster(&self) -> Result<Vec<SocketAddr>, String> {
        let seats: Vec<Seat> = self.members.iter().flatten().map(|member| member.seat).collect();
        check_nodes(&seats)?;
        let listen: Vec<_> = self.members.iter().flatten().map(|member| member.listen).collect();
        let is_spread = listen.iter().skip(1).any(|addr| !is_loopback(addr.ip()));
        // Rank 0's entry is skipped: each rank replaces it by the address at which it has reached rank 0.
        match listen.iter().enumerate().skip(1).find(|(_, addr)| is_spread && is_loopback(addr.ip())) {
            Some((rank, addr)) => Err(format!(
                "rank {rank} listens on {addr}, where ranks on other machines cannot reach it; give it a listening \
                 address, or name the master by an address that is the same on all machines"
            )),
            None => Ok(listen),
        }
    }
}

/// Checks that the ranks of each node are consecutive. A rank computes from its own seat which ranks are on its node, and
/// the nodes of a job divide work and files by that.
///
/// # Errors
/// The first rank that is not on the node on which another rank expects it.
fn check_nodes(seats: &[Seat]) -> Result<(), String> {
    let mut rank = 0;
    while let Some(&first) = seats.get(rank) {
        for local_rank in 0..first.local_world_size.max(1) {
            let expected = Seat { local_rank, ..first };
            let found = seats.get(rank + local_rank);
            if found == Some(&expected) {
                continue;
            }
            let found = found.map_or("absent".to_owned(), Seat::to_string);
            return Err(format!(
                "the ranks of a node are not consecutive: rank {rank} is {first} of its node, so rank {} must be \
                 {expected}, but it is {found}: assign ranks node by node (mpirun --map-by slot, srun --distribution=block), \
                 or correct RANK, LOCAL_RANK and LOCAL_WORLD_SIZE",
                rank + local_rank
            ));
        }
        rank += first.local_world_size.max(1);
    }
    Ok(())
}

/// Formats a list of ranks, cut after the first 16.
pub(crate) fn list(ranks: &[usize]) -> String {
    const SHOWN: usize = 16;
    let mut text = ranks.iter().take(SHOWN).map(usize::to_string).collect::<Vec<_>>().join(", ");
    if ranks.len() > SHOWN {
        text += &format!(" and {} more", ranks.len() - SHOWN);
    }
    text
}

/// Formats the name of a job.
fn named(job: Option<&str>) -> String {
    match job {
        Some(name) => format!("the job {:?}", shown(name)),
        None => "a job without a name".to_owned(),
    }
}

/// Cuts the text of a peer for a message.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::protection::Protection;
    use edgecut_testing::assert_has;

    fn addr(last: u8, port: u16) -> SocketAddr {
        ([10, 0, 0, last], port).into()
    }

    fn member(rank: usize) -> Register {
        Register {
            rank,
            run: RunName { job: None, attempt: 0 },
            world_size: 3,
            seat: Seat { local_rank: 0, local_world_size: 1 },
            fingerprint: "abc".to_owned(),
            protection: Protection::default(),
            listen: addr(rank as u8, 5000),
            waited_ms: 0,
        }
    }

    fn admit(registry: &mut Registry<'_>, register: &Register, peer: SocketAddr) -> Result<Admitted, Rejection> {
        registry.admit(&Candidate { register, peer, started: Instant::now() })
    }

    /// Returns the reason of an outcome that must be fatal.
    fn fatal(outcome: Result<Admitted, Rejection>) -> String {
        match outcome {
            Err(Rejection::Fatal(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Returns a configuration with a secret, which addresses other than loopback need.
    fn config() -> ClusterConfig {
        let mut config = ClusterConfig::new(0, 3, "10.0.0.0", 29500);
        config.fingerprint = "abc".to_owned();
        config.token = Some(crate::Token::random().unwrap());
        config
    }

    fn registry(config: &ClusterConfig) -> Registry<'_> {
        Registry::new(config, addr(0, 29500))
    }

    #[test]
    fn a_full_house_has_a_roster() {
        let config = config();
        let mut registry = registry(&config);
        admit(&mut registry, &member(2), addr(2, 1)).unwrap();
        assert!(!registry.is_complete());
        admit(&mut registry, &member(1), addr(1, 1)).unwrap();
        assert!(registry.is_complete());
        assert_eq!(registry.roster().unwrap(), [addr(0, 29500), addr(1, 5000), addr(2, 5000)]);
    }

    #[test]
    fn misfits_are_named() {
        let config = config();
        let mut registry = registry(&config);
        admit(&mut registry, &member(1), addr(1, 7)).unwrap();
        let mut misfit = |change: fn(&mut Register)| {
            let mut register = member(2);
            change(&mut register);
            fatal(admit(&mut registry, &register, addr(9, 8)))
        };
        assert_eq!(misfit(|r| r.rank = 1), "two processes claim rank 1: one at 10.0.0.1:7, one at 10.0.0.9:8");
        assert_eq!(misfit(|r| r.rank = 3), "a process at 10.0.0.9:8 claims rank 3 of 3");
        assert!(misfit(|r| r.listen.set_port(0)).ends_with("10.0.0.2:0 is not an address to connect to"));
        assert!(misfit(|r| r.world_size = 4).contains("a world size of 4, rank 0 with 3"));
        let text = misfit(|r| r.protection = Protection::Encrypted);
        let expected = "was started with encryption, rank 0 without protection: give all ranks the same protection";
        assert!(text.contains(expected), "{text}");
        assert_has(misfit(|r| r.fingerprint = "d".repeat(99)), &[&format!("{}…, rank 0's is abc", "d".repeat(64))]);
    }

    #[test]
    fn without_a_secret_a_listening_address_must_be_loopback() {
        let mut config = config();
        config.token = None;
        let mut registry = registry(&config);
        let text = fatal(admit(&mut registry, &member(1), addr(1, 7)));
        assert!(text.starts_with("rank 1 at 10.0.0.1:7 gives 10.0.0.1:5000 as its listening address"), "{text}");
        assert!(text.contains("without a shared secret"), "{text}");
        admit(&mut registry, &Register { listen: ([127, 0, 0, 1], 5000).into(), ..member(1) }, addr(1, 7)).unwrap();
    }

    #[test]
    fn a_timeout_names_who_is_missing_and_who_was_turned_away() {
        let config = config();
        let mut registry = registry(&config);
        admit(&mut registry, &member(1), addr(1, 1)).unwrap();
        registry.remember_rejection("10.0.0.9:8: its token differs");
        assert_eq!(
            registry.timeout_reason(Duration::from_secs(60), Some("600 strangers".to_owned())),
            "rank 2 has not joined within 60 s (joined: 0, 1); turned away: 10.0.0.9:8: its token differs; 600 strangers"
        );
    }

    #[test]
    fn a_loopback_address_among_others_is_an_error() {
        let config = config();
        let mut registry = registry(&config);
        admit(&mut registry, &member(1), addr(1, 1)).unwrap();
        let register = Register { listen: ([127, 0, 0, 1], 5000).into(), ..member(2) };
        admit(&mut registry, &register, addr(2, 1)).unwrap();
        assert!(registry.roster().unwrap_err().starts_with("rank 2 listens on 127.0.0.1:5000"));
    }

    #[test]
    fn ranks_of_a_node_must_be_consecutive() {
        for (seats, problem) in [
            (&[(0, 2), (1, 2), (0, 1)][..], None),
            (&[(0, 1), (0, 3), (1, 3), (2, 3)], None),
            // Two nodes, whose ranks were assigned in turn.
            (&[(0, 2), (0, 2), (1, 2), (1, 2)], Some("rank 1 must be local rank 1 of 2, but it is local rank 0 of 2")),
            (&[(0, 2), (1, 3)], Some("rank 1 must be local rank 1 of 2, but it is local rank 1 of 3")),
            (&[(1, 2), (0, 2)], Some("rank 0 must be local rank 0 of 2, but it is local rank 1 of 2")),
            (&[(0, 1), (0, 2)], Some("rank 2 must be local rank 1 of 2, but it is absent")),
        ] {
            let seats: Vec<Seat> =
                seats.iter().map(|&(local_rank, local_world_size)| Seat { local_rank, local_world_size }).collect();
            let found = check_nodes(&seats).err();
            assert_eq!(found.is_some(), problem.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(problem.unwrap_or_default()), "{seats:?}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(list(&[1, 2]), "1, 2");
        assert!(list(&(0..20).collect::<Vec<_>>()).ends_with("15 and 4 more"));
    }

    #[test]
    fn a_process_of_another_attempt_is_left_over() {
        let mut config = config();
        config.attempt = 2;
        let mut registry = registry(&config);
        let old = Register { run: RunName { job: None, attempt: 1 }, world_size: 9, ..member(1) };
        match admit(&mut registry, &old, addr(9, 8)) {
            Err(Rejection::Leftover(reason)) => assert!(reason.contains("after 1 restarts, rank 0 to"), "{reason}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(
            admit(&mut registry, &Register { run: RunName { job: None, attempt: 2 }, ..member(1) }, addr(1, 1)),
            Ok(Admitted::New)
        );
    }

    #[test]
    fn of_two_processes_of_a_rank_the_one_that_started_much_later_stays() {
        let config = config();
        let mut registry = registry(&config);
        let start = registry.started + Duration::from_secs(100);
        let mut come = |last, started| {
            registry.admit(&Candidate { register: &member(1), peer: addr(last, 1), started }).map_err(|misfit| {
                match misfit {
                    Rejection::Leftover(_) => "left over",
                    Rejection::Fatal(_) => "fatal",
                }
            })
        };
        assert_eq!(come(1, start), Ok(Admitted::New));
        assert_eq!(come(2, start - Duration::from_secs(6)), Err("left over"));
        assert_eq!(come(3, start + Duration::from_secs(1)), Err("fatal"));
        match come(4, start + Duration::from_secs(6)) {
            Ok(Admitted::InPlaceOf(reason)) => {
                assert!(
                    reason.starts_with("two processes claim rank 1: one at 10.0.0.1:1, one at 10.0.0.4:1"),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(registry.peer_of(1), Some(addr(4, 1)));
    }

    #[test]
    fn a_misfit_that_is_much_older_than_rank_0_is_left_over() {
        let config = config();
        let mut registry = registry(&config);
        let started = registry.started.checked_sub(Duration::from_secs(6)).unwrap();
        let register = Register { fingerprint: "old".to_owned(), ..member(1) };
        let outcome = registry.admit(&Candidate { register: &register, peer: addr(9, 1), started });
        assert!(matches!(outcome, Err(Rejection::Leftover(_))), "{outcome:?}");
    }
}

//! A rank's place in a ring: how it is connected, and whom to blame when the ring stops.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::board::{Board, Waiting};
use crate::cluster::Cluster;
use crate::collective::Header;
use crate::doubling;
use crate::error::{ClusterError, Failure, seconds};
use crate::flow::Flow;
use crate::partners::{Partner, Partners};
use crate::pump::{Halt, Lookout, Merge, Progress, Pump, Side};
use crate::wire::{Hello, Lane, RingKey};

/// From here on a wait is worth telling to others that look for who holds up the ring.
pub(crate) const LONG_WAIT: Duration = Duration::from_millis(50);

/// The ring of one process group, as one of its members sees it.
pub(crate) struct Ring {
    pub(crate) cluster: Cluster,
    pub(crate) name: String,
    pub(crate) members: Vec<usize>,
    pub(crate) position: usize,
    // None where the group has one member, and after an error.
    pump: Option<Pump>,
    partners: Option<Partners>,
}

impl Ring {
    /// Connects to the right neighbor and waits for the left one.
    pub(crate) fn connect(cluster: &Cluster, name: &str, members: &[usize]) -> Result<Self, ClusterError> {
        let position = position_among(cluster, members)?;
        let mut ring = Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
            members: members.to_vec(),
            position,
            pump: None,
            partners: None,
        };
        if members.len() > 1 {
            ring.connect_all()?;
        }
        Ok(ring)
    }

    /// Opens the connections to the right neighbor and to peers above this rank, then waits for those from the left
    /// neighbor and from peers below. All ranks open before they wait, and the door answers meanwhile, so none waits for
    /// a rank that waits for it.
    fn connect_all(&mut self) -> Result<(), ClusterError> {
        let cluster = &self.cluster;
        let ring_key = RingKey {
            name: self.name.clone(),
            members: self.members.clone(),
            instance: cluster.next_instance(&self.name, &self.members),
            from: cluster.rank(),
            lane: Lane::Ring,
        };
        let doubling_key = RingKey { lane: Lane::Doubling, ..ring_key.clone() };
        let size = self.members.len();
        // Smaller groups run no recursive doubling.
        let steps = if size < doubling::MIN_WORLD { Vec::new() } else { doubling::plan(self.position, size) };
        let mut peers: Vec<usize> = steps.iter().map(|step| step.peer).collect();
        peers.sort_unstable();
        peers.dedup();

        let to_right = self.open((self.position + 1) % size, &ring_key)?;
        let mut partners = Vec::with_capacity(peers.len());
        for &peer in peers.iter().filter(|&&peer| peer > self.position) {
            partners.push(Partner { position: peer, stream: self.open(peer, &doubling_key)? });
        }
        let from_left = self.wait_for((self.position + size - 1) % size, &ring_key)?;
        for &peer in peers.iter().filter(|&&peer| peer < self.position) {
            partners.push(Partner { position: peer, stream: self.wait_for(peer, &doubling_key)? });
        }
        self.pump = Some(Pump::new(from_left, to_right));
        self.partners = Some(Partners::new(partners));
        Ok(())
    }

    fn open(&self, position: usize, key: &RingKey) -> Result<TcpStream, ClusterError> {
        let rank = self.members[position];
        let purpose = Hello::Ring { job: self.cluster.door().job().to_owned(), key: key.clone() };
        self.cluster.open_for(&purpose, rank, self.cluster.addr_of(rank)?)
    }

    /// Waits for a connection that another member opens.
    fn wait_for(&self, position: usize, key: &RingKey) -> Result<TcpStream, ClusterError> {
        let cluster = &self.cluster;
        let rank = self.members[position];
        let key = RingKey { from: rank, ..key.clone() };
        let patience = cluster.config().collective_timeout();
        let job_failed = || cluster.board().has_failed();
        // Who asks what holds up the group learns that it is not this rank.
        let _waiting = cluster.board().wait_for_rank(rank);
        let stream = cluster.door().take_ring(&key, patience, job_failed);
        stream.ok_or_else(|| self.missing_neighbor(rank, &seconds(patience)))
    }

    /// Returns the connections of the group; `None` where it has one member, and after an error.
    pub(crate) fn connections(&self) -> Option<(&Pump, &Partners)> {
        self.pump.as_ref().zip(self.partners.as_ref())
    }

    fn missing_neighbor(&self, left: usize, patience: &str) -> ClusterError {
        if let Some(failure) = self.cluster.failure() {
            return ClusterError::RankFailed(failure);
        }
        let reason =
            format!("did not make group {:?} within {patience}, as rank {} did", self.name, self.cluster.rank());
        let own = self.cluster.failure_of(left, &reason);
        self.cluster.suspect(own.clone());
        ClusterError::RankFailed(self.cluster.wait_for_failure().unwrap_or(own))
    }

    /// Runs a flow of a collective, its first one with the header ahead of the data. After an error the ring cannot be
    /// used any more.
    pub(crate) fn run(
        &mut self,
        header: &Header,
        is_first: bool,
        flow: &Flow,
        data: &mut [u8],
        merge: &mut dyn Merge,
    ) -> Result<(), ClusterError> {
        let (left, right) = (self.neighbor(Side::Left).0, self.neighbor(Side::Right).0);
        let Some(pump) = &mut self.pump else { return Ok(()) };
        let mut lookout = Watch { board: self.cluster.board(), left, right, waiting: None };
        let patience = self.cluster.config().collective_timeout();
        let encoded = header.encode();
        let greeting = if is_first { encoded.as_slice() } else { &[] };
        let outcome = pump.run(greeting, flow, data, merge, patience, &mut lookout);
        let outcome = outcome.map_err(|(halt, progress)| self.explain(header, halt, progress));
        // Until here this rank counts as waiting, so that it is not blamed itself.
        drop(lookout);
        if outcome.is_err() {
            self.disconnect();
        }
        outcome
    }

    /// Closes the connections, so that the neighbors do not wait for data that never comes.
    pub(crate) fn disconnect(&mut self) {
        self.pump = None;
        self.partners = None;
    }

    /// Finds out which rank is to blame, which need not be the neighbor that the trouble came from.
    fn explain(&self, header: &Header, halt: Halt, progress: Progress) -> ClusterError {
        let operation = format!("{} #{} of group {:?}", header.kind.name(), header.sequence, self.name);
        let progress = progress.to_string();
        match halt {
            Halt::JobFailed => self.job_failed(),
            Halt::Differs(theirs) => self.mismatch(header, self.neighbor(Side::Left).0, &theirs),
            Halt::Broken(side, cause) => {
                let (rank, addr) = self.neighbor(side);
                self.lost(rank, ClusterError::PeerLost { operation, rank, addr, cause, progress })
            }
            Halt::Silent(side) => {
                let (rank, addr) = self.neighbor(side);
                let silence = seconds(self.cluster.config().collective_timeout());
                let error = ClusterError::PeerSilent { operation, rank, addr, silence, progress };
                self.suspect(rank, error)
            }
        }
    }

    pub(crate) fn job_failed(&self) -> ClusterError {
        match self.cluster.failure() {
            Some(failure) => ClusterError::RankFailed(failure),
            // The pump has just seen that there is one.
            None => ClusterError::Config("the job has failed".to_owned()),
        }
    }

    /// A connection broke. Most likely some rank has died, perhaps one further away, and the control plane says which.
    pub(crate) fn lost(&self, rank: usize, own: ClusterError) -> ClusterError {
        match self.cluster.wait_for_failure() {
            Some(failure) => ClusterError::RankFailed(failure),
            None => self.accuse(rank, own),
        }
    }

    /// A neighbor fell silent. It may itself wait for another rank, which rank 0 finds out.
    pub(crate) fn suspect(&self, rank: usize, own: ClusterError) -> ClusterError {
        self.cluster.suspect(self.suspicion(rank, &own));
        self.settle(rank, own)
    }

    /// A neighbor closed its connection, and nothing else is known to be wrong.
    fn accuse(&self, rank: usize, own: ClusterError) -> ClusterError {
        self.cluster.report(self.suspicion(rank, &own));
        self.settle(rank, own)
    }

    fn suspicion(&self, rank: usize, own: &ClusterError) -> Failure {
        self.cluster.failure_of(rank, &format!("{own} (as seen by rank {})", self.cluster.rank()))
    }

    /// The own error stands unless another rank turns out to be to blame.
    fn settle(&self, rank: usize, own: ClusterError) -> ClusterError {
        match self.cluster.wait_for_failure() {
            Some(failure) if failure.rank != rank => ClusterError::RankFailed(failure),
            _ => own,
        }
    }

    /// The rank `peer` does something else than this rank.
    pub(crate) fn mismatch(&self, header: &Header, peer: usize, theirs: &[u8]) -> ClusterError {
        let error = ClusterError::Mismatch {
            group: self.name.clone(),
            sequence: header.sequence,
            rank: self.cluster.rank(),
            ours: header.describe(),
            peer,
            theirs: header.difference(theirs),
        };
        // Nobody knows which of the two is wrong, so each reports itself; the text names both.
        self.cluster.report(self.cluster.failure_of(self.cluster.rank(), &error.to_string()));
        error
    }

    pub(crate) fn neighbor(&self, side: Side) -> (usize, SocketAddr) {
        let size = self.members.len();
        let step = if side == Side::Right { 1 } else { size - 1 };
        let rank = self.members[(self.position + step) % size];
        (rank, self.cluster.failure_of(rank, "").addr)
    }
}

/// Looks after a flow that waits: whether the job has failed, and that others can ask for whom it waits.
struct Watch<'a> {
    board: &'a Board,
    left: usize,
    right: usize,
    waiting: Option<Waiting<'a>>,
}

impl Lookout for Watch<'_> {
    fn job_failed(&mut self, side: Side, quiet: Duration) -> bool {
        // The short waits of a ring that runs well are not worth a note. An earlier note is dropped in any case.
        let rank = if side == Side::Left { self.left } else { self.right };
        self.waiting = (quiet >= LONG_WAIT).then(|| self.board.wait_for_rank(rank));
        self.board.has_failed()
    }
}

fn position_among(cluster: &Cluster, members: &[usize]) -> Result<usize, ClusterError> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(ClusterError::Config(format!("rank {} is twice among the members of a group", pair[0])));
    }
    if let Some(&last) = sorted.last() {
        cluster.addr_of(last)?;
    }
    let own = cluster.rank();
    let position = members.iter().position(|&member| member == own);
    position.ok_or_else(|| ClusterError::Config(format!("rank {own} cannot make a group that it is not a member of")))
}

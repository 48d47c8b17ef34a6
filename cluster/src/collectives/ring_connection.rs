//! The connections of a rank in a process group, and the attribution of errors in its collectives.

use crate::timeouts::RECORDED_WAIT;
use std::net::SocketAddr;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::collectives::doubling;
use crate::collectives::doubling_exchange::{DoublingPeer, DoublingPeers};
use crate::collectives::header::Header;
use crate::collectives::transfer::{Merge, Side, Transfer, TransferError, TransferObserver};
use crate::collectives::transfer_plan::TransferPlan;
use crate::error::{ClusterError, Failure, seconds};
use crate::failure::job_state::{JobState, Waiting};
use crate::handshake::identity::Purpose;
use crate::join::messages::{RingKey, Topology};
use crate::secure::{SecureStream, is_modified};

/// The connections of a rank to its neighbors in the ring of a process group, and to its peers in recursive doubling.
pub(crate) struct RingConnection {
    pub(crate) cluster: Cluster,
    pub(crate) name: String,
    pub(crate) members: Vec<usize>,
    pub(crate) position: usize,
    // `None` in a group of one member, and after an error.
    connections: Option<GroupConnections>,
}

/// The connections of a rank in a process group of several members.
pub(crate) struct GroupConnections {
    pub(crate) transfer: Transfer,
    pub(crate) doubling_peers: DoublingPeers,
}

impl RingConnection {
    /// Opens the connections of a new group.
    pub(crate) fn connect(cluster: &Cluster, name: &str, members: &[usize]) -> Result<Self, ClusterError> {
        let position = position_among(cluster, members)?;
        let mut ring = Self {
            cluster: cluster.clone(),
            name: name.to_owned(),
            members: members.to_vec(),
            position,
            connections: None,
        };
        if members.len() > 1 {
            ring.connect_all()?;
        }
        Ok(ring)
    }

    /// Opens the connections to the right neighbor and to peers at higher positions, then waits for those from the left
    /// neighbor and from peers at lower positions. There is no deadlock: all ranks open before they wait, and the
    /// accept thread answers meanwhile.
    fn connect_all(&mut self) -> Result<(), ClusterError> {
        let cluster = &self.cluster;
        let ring_key = RingKey {
            name: self.name.clone(),
            members: self.members.clone(),
            instance: cluster.next_instance(&self.name, &self.members),
            from: cluster.rank(),
            lane: Topology::Ring,
        };
        let doubling_key = RingKey { lane: Topology::Doubling, ..ring_key.clone() };
        let size = self.members.len();
        // Smaller groups do not use recursive doubling.
        let steps = if size < doubling::MIN_WORLD { Vec::new() } else { doubling::plan(self.position, size) };
        let mut peers: Vec<usize> = steps.iter().map(|step| step.peer).collect();
        peers.sort_unstable();
        peers.dedup();

        let to_right = self.open((self.position + 1) % size, &ring_key)?;
        let mut doubling_peers = Vec::with_capacity(peers.len());
        for &peer in peers.iter().filter(|&&peer| peer > self.position) {
            doubling_peers.push(DoublingPeer { position: peer, stream: self.open(peer, &doubling_key)? });
        }
        let from_left = self.wait_for((self.position + size - 1) % size, &ring_key)?;
        for &peer in peers.iter().filter(|&&peer| peer < self.position) {
            doubling_peers.push(DoublingPeer { position: peer, stream: self.wait_for(peer, &doubling_key)? });
        }
        self.connections = Some(GroupConnections {
            transfer: Transfer::new(from_left, to_right),
            doubling_peers: DoublingPeers::new(doubling_peers),
        });
        Ok(())
    }

    fn open(&self, position: usize, key: &RingKey) -> Result<SecureStream, ClusterError> {
        let rank = self.members[position];
        self.cluster.open_for(Purpose::Ring, rank, Some(key))
    }

    /// Waits for a connection that another member opens.
    fn wait_for(&self, position: usize, key: &RingKey) -> Result<SecureStream, ClusterError> {
        let cluster = &self.cluster;
        let rank = self.members[position];
        let key = RingKey { from: rank, ..key.clone() };
        let patience = cluster.config().collective_timeout();
        // A rank that searches for the one that holds up the group learns that this rank waits, too.
        let _waiting = cluster.job_state().wait_for_rank(rank);
        let stream = cluster.acceptor().take_ring(&key, patience, || cluster.job_state().has_failed());
        stream.ok_or_else(|| self.missing_neighbor(rank, &seconds(patience)))
    }

    /// Takes the connections of the group for a collective; `None` in a group of one member, and after an error.
    pub(crate) fn take_connections(&mut self) -> Option<GroupConnections> {
        self.connections.take()
    }

    /// Puts the connections back after a collective that has succeeded. After one that has failed they are dropped, so
    /// that the neighbors do not wait for data that never comes.
    pub(crate) fn put_back(&mut self, connections: GroupConnections) {
        self.connections = Some(connections);
    }

    /// Returns the error for a rank that did not open its connection in time.
    fn missing_neighbor(&self, left: usize, patience: &str) -> ClusterError {
        if let Some(failure) = self.cluster.failure() {
            return ClusterError::RankFailed(failure);
        }
        let reason =
            format!("did not create group {:?} within {patience} after rank {} did", self.name, self.cluster.rank());
        let own = self.cluster.failure_of(left, &reason);
        self.cluster.suspect(own.clone());
        ClusterError::RankFailed(self.cluster.wait_for_failure().unwrap_or(own))
    }

    /// Runs a transfer of a collective. The first transfer of a collective sends the header ahead of the data. After an
    /// error the group cannot be used any more.
    pub(crate) fn run(
        &mut self,
        header: &Header,
        is_first: bool,
        plan: &TransferPlan,
        data: &mut [u8],
        merge: &mut dyn Merge,
    ) -> Result<(), ClusterError> {
        let left = self.neighbor(Side::Left);
        let right = self.neighbor(Side::Right);
        let Some(mut connections) = self.take_connections() else { return Ok(()) };
        let mut observer = JobObserver { job_state: self.cluster.job_state(), left, right, waiting: None };
        let patience = self.cluster.config().collective_timeout();
        let encoded = header.encode();
        let sent_header = if is_first { encoded.as_slice() } else { &[] };
        let outcome = connections.transfer.run(sent_header, plan, data, merge, patience, &mut observer);
        let outcome = outcome.map_err(|(error, progress)| {
            self.explain(header, error.at(|side| self.neighbor(side)), progress.to_string())
        });
        // The record that this rank waits lasts until the error is explained, so that this rank is not blamed itself.
        drop(observer);
        outcome?;
        self.put_back(connections);
        Ok(())
    }

    /// Converts the error of a transfer to an error of this crate. Asks the control plane for the rank that is to
    /// blame, which may be another one than the neighbor.
    pub(super) fn explain(&self, header: &Header, error: TransferError<usize>, progress: String) -> ClusterError {
        let operation = format!("{} #{} of group {:?}", header.kind.name(), header.sequence, self.name);
        match error {
            TransferError::JobFailed => self.job_failed(),
            TransferError::Differs(rank, theirs) => self.mismatch(header, rank, &theirs),
            TransferError::Broken(rank, cause) if is_modified(&cause) => {
                self.modified(rank, ClusterError::Modified { operation, cause })
            }
            TransferError::Broken(rank, cause) => {
                let addr = self.addr_of(rank);
                self.lost(rank, ClusterError::PeerLost { operation, rank, addr, cause, progress })
            }
            TransferError::Silent(rank) => {
                let addr = self.addr_of(rank);
                let silence = seconds(self.cluster.config().collective_timeout());
                let what = format!("{operation}: rank {rank} at {addr} was silent for {silence} ({progress})");
                self.suspect(rank, ClusterError::Collective(what))
            }
        }
    }

    /// Returns the failure of the job as an error.
    pub(crate) fn job_failed(&self) -> ClusterError {
        match self.cluster.failure() {
            Some(failure) => ClusterError::RankFailed(failure),
            // This does not happen: the caller has just seen that there is a failure.
            None => ClusterError::Config("the job has failed".to_owned()),
        }
    }

    /// Returns the error for a broken connection. Most likely a rank has died, which need not be the peer. The control
    /// plane names it.
    fn lost(&self, rank: usize, own: ClusterError) -> ClusterError {
        match self.cluster.wait_for_failure() {
            Some(failure) => ClusterError::RankFailed(failure),
            None => self.accuse(rank, own),
        }
    }

    /// Returns the error for a silent peer, after reporting it to rank 0. Rank 0 finds out whether the peer itself
    /// waits for another rank.
    fn suspect(&self, rank: usize, own: ClusterError) -> ClusterError {
        self.cluster.suspect(self.suspicion(rank, &own));
        self.settle(rank, own)
    }

    /// Returns the error for a peer that closed its connection although the job has not failed, after reporting it.
    fn accuse(&self, rank: usize, own: ClusterError) -> ClusterError {
        self.cluster.report(self.suspicion(rank, &own));
        self.settle(rank, own)
    }

    /// Returns the error for a message of a peer that was modified on the way, after reporting the connection.
    fn modified(&self, rank: usize, own: ClusterError) -> ClusterError {
        self.cluster.report_connection(rank, &own.to_string());
        own
    }

    fn suspicion(&self, rank: usize, own: &ClusterError) -> Failure {
        self.cluster.failure_of(rank, &format!("{own:#} (as seen by rank {})", self.cluster.rank()))
    }

    /// Returns the failure of the job if another rank is to blame, else `own`.
    fn settle(&self, rank: usize, own: ClusterError) -> ClusterError {
        match self.cluster.wait_for_failure() {
            Some(failure) if failure.rank != rank => ClusterError::RankFailed(failure),
            _ => own,
        }
    }

    /// Returns the error for a peer that runs another collective than this rank, after reporting it.
    fn mismatch(&self, header: &Header, peer: usize, theirs: &[u8]) -> ClusterError {
        let error = ClusterError::Collective(format!(
            "ranks disagree on collective #{} of group {:?}: {} on rank {}, {} on rank {peer}",
            header.sequence,
            self.name,
            header.describe(),
            self.cluster.rank(),
            header.difference(theirs)
        ));
        // It is unknown which of the two is wrong, so each reports itself. The text names both.
        self.cluster.report(self.cluster.failure_of(self.cluster.rank(), &error.to_string()));
        error
    }

    fn addr_of(&self, rank: usize) -> SocketAddr {
        self.cluster.failure_of(rank, "").addr
    }

    /// Returns the rank of a neighbor in the ring.
    pub(crate) fn neighbor(&self, side: Side) -> usize {
        let size = self.members.len();
        let step = if side == Side::Right { 1 } else { size - 1 };
        self.members[(self.position + step) % size]
    }
}

/// The observer of a waiting transfer. It checks for a failure of the job, and records the neighbor that the transfer
/// waits for.
struct JobObserver<'a> {
    job_state: &'a JobState,
    left: usize,
    right: usize,
    waiting: Option<Waiting<'a>>,
}

impl TransferObserver for JobObserver<'_> {
    fn job_failed(&mut self, side: Side, quiet: Duration) -> bool {
        // Only long waits are recorded. The previous record is dropped in any case.
        let rank = if side == Side::Left { self.left } else { self.right };
        self.waiting = (quiet >= RECORDED_WAIT).then(|| self.job_state.wait_for_rank(rank));
        self.job_state.has_failed()
    }
}

/// Checks the members of a group and returns the position of this rank.
fn position_among(cluster: &Cluster, members: &[usize]) -> Result<usize, ClusterError> {
    let mut sorted = members.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(ClusterError::Config(format!("rank {} is listed twice among the members of a group", pair[0])));
    }
    if let Some(&last) = sorted.last() {
        cluster.addr_of(last)?;
    }
    let own = cluster.rank();
    let position = members.iter().position(|&member| member == own);
    position.ok_or_else(|| ClusterError::Config(format!("rank {own} cannot create a group that it is not a member of")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_connection_does_not_replace_one_that_waits() {
        let clusters = Cluster::join_local(2, |_| {}).unwrap();
        let members = vec![0, 1];
        let key = RingKey { name: "a group".to_owned(), members, instance: 0, from: 1, lane: Topology::Ring };
        let first = clusters[1].open_for(Purpose::Ring, 0, Some(&key)).unwrap();
        let error = clusters[1].open_for(Purpose::Ring, 0, Some(&key)).unwrap_err().to_string();
        assert!(error.contains("rank 1 opens a second connection to rank 0 for group \"a group\""), "{error}");
        let taken = clusters[0].acceptor().take_ring(&key, Duration::from_secs(60), || false).unwrap();
        assert_eq!(taken.peer_addr().unwrap(), first.local_addr().unwrap());
        // The entry is free again.
        clusters[1].open_for(Purpose::Ring, 0, Some(&key)).unwrap();
        std::thread::scope(|scope| {
            clusters.into_iter().for_each(|cluster| drop(scope.spawn(move || cluster.shutdown().unwrap())));
        });
    }
}

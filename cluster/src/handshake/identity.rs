//! The identities that every connection is bound to: its purpose, the process that opens it, and the one it is for.
//!
//! The connector states them in its opening, which is the prologue of the Noise handshake. The acceptor states its own
//! identity in its reply. Both compare the two by [`Binding::check`] before they use the connection, so a connection that
//! the network has led to another process is refused at both ends.

use std::fmt;

use ring::digest::{SHA256, digest};

use crate::error::ClusterError;

const PARTY_BYTES: usize = 1 + 4;
const JOB_BYTES: usize = 32;
/// The length of an encoded [`Binding`].
pub(crate) const BINDING_BYTES: usize = 1 + 2 * PARTY_BYTES + JOB_BYTES;
/// The length of an encoded [`Identity`].
pub(crate) const IDENTITY_BYTES: usize = PARTY_BYTES + JOB_BYTES;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The control connection of a rank that joins. It sends a [`Joining`](crate::join::messages::Joining), and the answer
    /// is an [`Admission`](crate::join::messages::Admission).
    Join,
    /// A stream for the application; answered with [`Answer`](crate::join::messages::Answer), as are the next ones.
    Rpc,
    /// A connection of a process group. It sends its [`RingKey`](crate::join::messages::RingKey).
    Ring,
    /// A connection for heartbeats between two ranks that exchange data.
    Pulse,
    /// A connection to a server.
    Service,
}

/// A process, as others address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Party {
    /// A rank of a job.
    Rank(u32),
    /// A server, by its number in the list of servers.
    Server(u32),
    /// A client of servers, by its rank among the clients.
    Client(u32),
}

/// The digest of the name of a job, or of the data of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId([u8; JOB_BYTES]);

/// The identity of a process that accepts connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) party: Party,
    pub(crate) job: JobId,
}

/// The intended ends of a connection, and its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) purpose: Purpose,
    /// The process that opens the connection.
    pub(crate) from: Party,
    /// The process that the connection is for. Its job is [`JobId::UNKNOWN`] if the connector has yet to learn it.
    pub(crate) to: Identity,
}

/// A connection that has reached another process than the one it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Misdirection {
    binding: Binding,
    found: Identity,
}

impl Purpose {
    pub(crate) const ALL: [Self; 5] = [Self::Join, Self::Rpc, Self::Ring, Self::Pulse, Self::Service];

    /// Returns whether the connector may not know the job: a rank learns it when it joins, and a client learns the data
    /// of servers from them.
    fn may_be_without_job(self) -> bool {
        matches!(self, Self::Join | Self::Service)
    }
}

impl Party {
    fn encode(self) -> [u8; PARTY_BYTES] {
        let (kind, number) = match self {
            Self::Rank(number) => (0, number),
            Self::Server(number) => (1, number),
            Self::Client(number) => (2, number),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    fn decode([kind, a, b, c, d]: [u8; PARTY_BYTES]) -> Option<Self> {
        let number = u32::from_le_bytes([a, b, c, d]);
        match kind {
            0 => Some(Self::Rank(number)),
            1 => Some(Self::Server(number)),
            2 => Some(Self::Client(number)),
            _ => None,
        }
    }

    /// Returns the rank with this number. No job has more ranks than a `u32` can count.
    pub(crate) fn rank(rank: usize) -> Self {
        Self::Rank(number(rank))
    }

    /// Returns the server with this number.
    pub(crate) fn server(server: usize) -> Self {
        Self::Server(number(server))
    }

    /// Returns the client with this rank.
    pub(crate) fn client(rank: usize) -> Self {
        Self::Client(number(rank))
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(number) => write!(f, "rank {number}"),
            Self::Server(number) => write!(f, "server {number}"),
            Self::Client(number) => write!(f, "client {number}"),
        }
    }
}

impl JobId {
    pub(crate) const UNKNOWN: Self = Self([0; JOB_BYTES]);

    pub(crate) fn of(name: &str) -> Self {
        let mut bytes = [0; JOB_BYTES];
        bytes.copy_from_slice(digest(&SHA256, name.as_bytes()).as_ref());
        Self(bytes)
    }
}

impl Identity {
    pub(crate) fn encode(&self) -> [u8; IDENTITY_BYTES] {
        let mut bytes = [0; IDENTITY_BYTES];
        bytes[..PARTY_BYTES].copy_from_slice(&self.party.encode());
        bytes[PARTY_BYTES..].copy_from_slice(&self.job.0);
        bytes
    }

    /// Decodes an identity; `None` if its party is of no known kind.
    pub(crate) fn decode(bytes: &[u8; IDENTITY_BYTES]) -> Option<Self> {
        let (party, job) = bytes.split_first_chunk()?;
        Some(Self { party: Party::decode(*party)?, job: JobId(job.try_into().ok()?) })
    }
}

impl Binding {
    pub(crate) fn encode(&self) -> [u8; BINDING_BYTES] {
        let mut bytes = [0; BINDING_BYTES];
        bytes[0] = self.purpose as u8;
        bytes[1..1 + PARTY_BYTES].copy_from_slice(&self.from.encode());
        bytes[1 + PARTY_BYTES..].copy_from_slice(&self.to.encode());
        bytes
    }

    /// Decodes a binding; `None` if its purpose or a party is of no known kind.
    pub(crate) fn decode(bytes: &[u8; BINDING_BYTES]) -> Option<Self> {
        let (purpose, rest) = bytes.split_first()?;
        let (from, to) = rest.split_first_chunk()?;
        Some(Self {
            purpose: *Purpose::ALL.get(usize::from(*purpose))?,
            from: Party::decode(*from)?,
            to: Identity::decode(to.try_into().ok()?)?,
        })
    }

    /// Checks that the connection has reached the process that it is for.
    pub(crate) fn check(&self, found: Identity) -> Result<(), Misdirection> {
        let is_same_job = self.to.job == found.job && found.job != JobId::UNKNOWN;
        let is_first_contact = self.to.job == JobId::UNKNOWN && self.purpose.may_be_without_job();
        if self.to.party == found.party && (is_same_job || is_first_contact) {
            return Ok(());
        }
        Err(Misdirection { binding: *self, found })
    }
}

impl Misdirection {
    /// Describes the process that the connection has reached.
    fn found(&self) -> String {
        let party = self.found.party;
        if self.binding.to.party != party {
            return party.to_string();
        }
        match party {
            Party::Server(_) => format!("{party} of other data"),
            Party::Rank(_) | Party::Client(_) => format!("{party} of another job"),
        }
    }

    /// Converts to the error of the connector, which calls the other end `peer`.
    pub(crate) fn of_connector(&self, peer: String) -> ClusterError {
        let to = self.binding.to.party.to_string();
        let is_named = peer.starts_with(&format!("{to} "));
        ClusterError::Misdirected {
            from: self.binding.from.to_string(),
            to: if is_named { peer } else { format!("{to} ({peer})") },
            found: self.found(),
        }
    }

    /// Converts to the error of the acceptor, which was reached from the address `peer`.
    pub(crate) fn of_acceptor(&self, peer: &str) -> ClusterError {
        ClusterError::Misdirected {
            from: format!("{} at {peer}", self.binding.from),
            to: self.binding.to.party.to_string(),
            found: format!("this process, {}", self.found()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_survive_their_encoding() {
        let job = JobId::of("a job");
        for purpose in Purpose::ALL {
            for party in [Party::Rank(0), Party::Server(7), Party::Client(u32::MAX)] {
                let binding = Binding { purpose, from: party, to: Identity { party, job } };
                assert_eq!(Binding::decode(&binding.encode()), Some(binding));
            }
        }
        let binding = Binding {
            purpose: Purpose::Service,
            from: Party::Client(1),
            to: Identity { party: Party::Server(2), job: JobId::UNKNOWN },
        };
        for (at, value) in [(0, 5), (1, 3), (6, 255)] {
            let mut bytes = binding.encode();
            bytes[at] = value;
            assert_eq!(Binding::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn only_the_first_contact_may_leave_the_job_open() {
        let found = Identity { party: Party::Rank(1), job: JobId::of("a job") };
        for purpose in Purpose::ALL {
            let binding = |job| Binding { purpose, from: Party::Rank(0), to: Identity { party: Party::Rank(1), job } };
            assert!(binding(found.job).check(found).is_ok());
            assert!(binding(JobId::of("another job")).check(found).is_err());
            let is_open = matches!(purpose, Purpose::Join | Purpose::Service);
            assert_eq!(binding(JobId::UNKNOWN).check(found).is_ok(), is_open, "{purpose:?}");
            // A process that has not joined yet.
            let early = Identity { job: JobId::UNKNOWN, ..found };
            assert!(binding(found.job).check(early).is_err());
        }
    }

    #[test]
    fn both_ends_name_both_processes() {
        let job = JobId::of("a job");
        let binding =
            Binding { purpose: Purpose::Ring, from: Party::Rank(1), to: Identity { party: Party::Rank(0), job } };
        let misdirection = binding.check(Identity { party: Party::Rank(2), job }).unwrap_err();
        let advice = ": check the addresses of both, the list of servers, and proxies and port forwarding between them";
        assert_eq!(
            misdirection.of_connector("rank 0 at 10.0.0.1:5".to_owned()).to_string(),
            format!("the connection from rank 1 to rank 0 at 10.0.0.1:5 has reached rank 2{advice}")
        );
        assert_eq!(
            misdirection.of_connector("the master at 10.0.0.1:5".to_owned()).to_string(),
            format!("the connection from rank 1 to rank 0 (the master at 10.0.0.1:5) has reached rank 2{advice}")
        );
        assert_eq!(
            misdirection.of_acceptor("10.0.0.2:6").to_string(),
            format!("the connection from rank 1 at 10.0.0.2:6 to rank 0 has reached this process, rank 2{advice}")
        );
        let other_job = Identity { party: Party::Rank(0), job: JobId::of("another job") };
        let text = binding.check(other_job).unwrap_err().of_connector("rank 0 at 10.0.0.1:5".to_owned()).to_string();
        assert!(text.contains("has reached rank 0 of another job"), "{text}");
    }
}

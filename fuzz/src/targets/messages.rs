//! Bytes of peers.

use super::golden;
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use edgecut_cluster::{Token, fuzzing as cluster};
use edgecut_dist_sampler::fuzzing as sampler;
use edgecut_graph::{DiskPartId, Part};

/// Both sides of a handshake, with and without a secret.
pub(super) struct Handshakes {
    token: Token,
}

impl Handshakes {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { token: Token::random()? })
    }
}

impl Target for Handshakes {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        Ok(cluster::handshakes().into_iter().map(Sample::of_bytes).collect())
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let bytes = input.bytes();
        let mut errors = Vec::new();
        for token in [Some(&self.token), None] {
            errors.push(cluster::connect(bytes, token));
            errors.push(cluster::accept(bytes, token));
        }
        assert!(errors.iter().all(|error| !error.is_empty()), "a peer without a proof was admitted");
        // All are refused for lack of a proof. A longer conversation than the magic counts as accepted.
        if bytes.starts_with(b"EDGECUT\n") { Outcome::Accepted } else { Outcome::Rejected }
    }
}

/// Messages between processes that have proved the secret.
pub(super) struct ControlMessages;

impl Target for ControlMessages {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        Ok(cluster::frames().into_iter().map(Sample::of_bytes).collect())
    }

    fn memory_bound(&self) -> MemoryBound {
        // A frame takes the announced length, at most 1 MiB, before its bytes arrive.
        MemoryBound { fixed: 2 << 20, per_byte: 64 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        if cluster::control_messages(input.bytes()) > 0 { Outcome::Accepted } else { Outcome::Rejected }
    }
}

/// Frames of requests and answers.
pub(super) struct Frames;

impl Target for Frames {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        let part = Part::open(&golden("v2/heterogeneous"), DiskPartId(0), true)?;
        Ok(sampler::frames(&part).into_iter().map(Sample::of_bytes).collect())
    }

    fn memory_bound(&self) -> MemoryBound {
        // A frame takes the announced lengths of its payload and of its head, at most 1 MiB, and bincode up to 1 MiB for
        // an announced list, before their bytes arrive.
        MemoryBound { fixed: sampler::MAX_MESSAGE_BYTES + (3 << 20), per_byte: 64 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let (requests, _) = sampler::read_requests(input.bytes());
        let (answers, _) = sampler::read_answers(input.bytes());
        if requests + answers > 0 { Outcome::Accepted } else { Outcome::Rejected }
    }
}

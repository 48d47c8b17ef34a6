//! Seeds, cut into full batches.

use crate::local_job::NODES;
use anyhow::ensure;
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{Part, Split};

/// `batches` batches of the part's training nodes, shuffled; of all its nodes where it has none to train on. A small
/// graph's nodes come again in later batches, and its batches are as large as it allows.
pub(crate) fn seed_batches(part: &Part, batch_size: usize, batches: usize) -> anyhow::Result<Vec<Vec<u32>>> {
    let owned = part.owned(NODES);
    let training = part.nodes(NODES).splits.get(Split::Train);
    let mut ids: Vec<u32> = match training.is_empty() {
        true => owned.collect(),
        false => training.iter().map(|row| owned.start + row).collect(),
    };
    ensure!(!ids.is_empty(), "dataset {}: part {} has no nodes to sample from", part.meta().dataset, part.id());
    let batch_size = batch_size.min(ids.len());
    let mut cut = Vec::with_capacity(batches);
    for pass in 0.. {
        CounterRng::new(pass).shuffle(&mut ids);
        cut.extend(ids.chunks_exact(batch_size).map(<[u32]>::to_vec).take(batches - cut.len()));
        if cut.len() == batches {
            break;
        }
    }
    Ok(cut)
}

//! Full batches of seeds.

use crate::work::local_job::NODES;
use anyhow::ensure;
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{Part, Split};

/// Returns `batches` batches of the part's shuffled training nodes, or of all its nodes if it has no training nodes.
/// Nodes repeat in later batches if there are too few, and a batch has at most all nodes once.
pub(crate) fn seed_batches(part: &Part, batch_size: usize, batches: usize) -> anyhow::Result<Vec<Vec<u32>>> {
    let owned = part.owned(NODES);
    let training = part.nodes(NODES).splits.get(Split::Train);
    let mut ids: Vec<u32> =
        if training.is_empty() { owned.collect() } else { training.iter().map(|row| owned.start + row).collect() };
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

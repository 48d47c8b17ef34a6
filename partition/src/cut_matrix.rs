//! The edges between each two parts.

use crate::PartitionError;
use edgecut_graph::{DiskPartId, Meta, Part, PartitionId};
use rayon::prelude::*;
use std::path::Path;

/// Counts the edges of all types between each two parts of the partitioned graph in `dir`, from its files. It reads the
/// sources of all edges.
///
/// # Shapes
/// `[num_parts][num_parts]`: the row is the part that owns the destination, which stores the edge. The column is the
/// part that owns the source.
///
/// # Errors
/// A folder without parts, or files that contradict their format.
pub fn cut_matrix(dir: &Path) -> Result<Vec<Vec<u64>>, PartitionError> {
    let num_parts = Meta::read(dir)?.num_parts;
    (0..num_parts).into_par_iter().map(|id| sources_of(&Part::open(dir, DiskPartId(id), false)?)).collect()
}

/// Counts the edges of a part by the owner of their source.
fn sources_of(part: &Part) -> Result<Vec<u64>, PartitionError> {
    let meta = part.meta();
    let num_parts = meta.num_parts as usize;
    let mut counts = vec![0; num_parts];
    for edge_type in part.edge_type_ids() {
        let edges = part.edges(edge_type);
        let book = &meta.node_types[edges.src_type.index()].book;
        let ends: Vec<u32> = (0..meta.num_parts).map(|id| book.range(PartitionId(id)).end).collect();
        let count = |indices: &[u32]| {
            let mut counts = vec![0; num_parts];
            for &source in indices {
                counts[ends.partition_point(|&end| end <= source)] += 1;
            }
            counts
        };
        let of_chunks = edges.csc.indices().par_chunks(1 << 16).map(count);
        let of_type = of_chunks.reduce(|| vec![0; num_parts], added);
        counts = added(counts, of_type);
    }
    Ok(counts)
}

fn added(mut sums: Vec<u64>, others: Vec<u64>) -> Vec<u64> {
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
    sums
}

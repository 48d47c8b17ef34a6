//! Splits of nodes and of labeled edges: random shares, or ids from files.

use super::Context;
use super::bad_rows::BadKind;
use super::split_files::{SplitRow, read_split};
use crate::conf::{Label, SplitFiles};
use crate::ids::IdMap;
use crate::{OnBadRows, TableError};
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_graph::{EdgeLabelValues, NO_SPLIT, Share, Split, Splits};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

/// Divides nodes at random. A split has the share of the nodes, rounded down. The order of the nodes is a function of
/// the seed, the name of the type and the node.
pub(super) fn by_shares(nodes: Vec<u32>, shares: [Share; 3], seed: u64, name: &str) -> Splits {
    let [train, valid, test] = divided(nodes, shares, seed, name).map(|mut ids| {
        ids.sort_unstable();
        ids.into()
    });
    Splits { train, valid, test }
}

/// Divides the rows of a type at random, see [`by_shares`].
fn divided<T: Copy + Ord + Send + Into<u64>>(
    mut rows: Vec<T>,
    shares: [Share; 3],
    seed: u64,
    name: &str,
) -> [Vec<T>; 3] {
    let key = combine(seed, xxh3_64(name.as_bytes()));
    rows.par_sort_unstable_by_key(|&row| (CounterRng::new(combine(key, row.into())).next_u64(), row));
    let counts = shares.map(|share| share.of(rows.len() as u64) as usize);
    let mut start = 0;
    counts.map(|count| {
        let end = (start + count).min(rows.len());
        let of_split = rows[start..end].to_vec();
        start = end;
        of_split
    })
}

/// Divides labeled edges like [`by_shares`]. Returns the split of each edge of a type.
pub(super) fn edges_by_shares(
    labels: &EdgeLabelValues,
    num_edges: usize,
    shares: [Share; 3],
    seed: u64,
    name: &str,
) -> Vec<u8> {
    let labeled: Vec<u64> = (0..num_edges).filter(|&edge| labels.is_known(edge)).map(|edge| edge as u64).collect();
    let mut splits = vec![NO_SPLIT; num_edges];
    for (split, edges) in Split::ALL.into_iter().zip(divided(labeled, shares, seed, name)) {
        edges.into_iter().for_each(|edge| splits[edge as usize] = split.code());
    }
    splits
}

/// Reads the nodes of each split from files. A node in the files of two splits is a bad entry, because a model must not
/// be evaluated on its training data.
pub(super) fn by_files(
    context: &mut Context,
    label: &Label,
    files: &SplitFiles,
    ids: &IdMap,
) -> Result<Splits, TableError> {
    // The split that lists a node.
    let mut taken = vec![None; ids.len()];
    let mut splits = Vec::with_capacity(3);
    for (split, name) in Split::ALL.into_iter().enumerate() {
        let mut nodes = Vec::new();
        for row in read_split(context.conf, &label.at, files, split, 1)? {
            match row.ids.first().and_then(|id| ids.get(id.as_id())) {
                Some(node) => match taken[node as usize] {
                    None => {
                        taken[node as usize] = Some(name);
                        nodes.push(node);
                    }
                    Some(other) if other == name => {}
                    Some(other) => bad_entry(context, label, &row, &listed_twice(other))?,
                },
                None => bad_entry(context, label, &row, "there is no such node")?,
            }
        }
        nodes.sort_unstable();
        splits.push(nodes.into());
    }
    let Ok([train, valid, test]) = <[_; 3]>::try_from(splits) else { unreachable!("there are three splits") };
    Ok(Splits { train, valid, test })
}

/// Describes an entry that the list of another split has as well.
pub(super) fn listed_twice(other: Split) -> String {
    format!("the list {} has it as well: leave it in one list", other.name())
}

/// Counts a bad entry of a split file, or fails if such entries are errors.
pub(super) fn bad_entry(context: &mut Context, label: &Label, row: &SplitRow, why: &str) -> Result<(), TableError> {
    let shown: Vec<String> = row.ids.iter().map(ToString::to_string).collect();
    let why = format!("{}: {why}", shown.join(", "));
    if context.options.on_bad_rows == OnBadRows::Error {
        return Err(TableError::Row { path: row.path.to_path_buf(), row: row.row, why });
    }
    let first = format!("{}: row {}: {why}", row.path.display(), row.row);
    context.counts.add_rows(&label.at, BadKind::SplitId, 1, &first);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits 103 nodes.
    fn split(shares: [f64; 3], seed: u64) -> Splits {
        by_shares((0..103).collect(), shares.map(|share| Share::new(share).unwrap()), seed, "paper")
    }

    #[test]
    fn shares_are_rounded_down_and_depend_on_the_seed() {
        let splits = split([0.8, 0.1, 0.1], 7);
        assert_eq!([splits.train.len(), splits.valid.len(), splits.test.len()], [82, 10, 10]);
        let mut all = [&splits.train[..], &splits.valid, &splits.test].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 102);
        assert_eq!(split([0.8, 0.1, 0.1], 7).train[..], splits.train[..]);
        assert_ne!(split([0.8, 0.1, 0.1], 8).train[..], splits.train[..]);
        let none = split([0.0; 3], 7);
        assert!(none.train.is_empty() && none.test.is_empty());
    }

    #[test]
    fn shares_are_decimals() {
        // 100 * 0.29 and 100 * 0.57 are less than 29 and 57 in floats.
        let shares = [0.29, 0.57, 0.14].map(|share| Share::new(share).unwrap());
        let splits = by_shares((0..100).collect(), shares, 7, "paper");
        assert_eq!([splits.train.len(), splits.valid.len(), splits.test.len()], [29, 57, 14]);
    }
}

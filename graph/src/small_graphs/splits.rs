//! Training, validation and test splits of a set of graphs.

use crate::rng::{CounterRng, combine};
use crate::{GraphError, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One fold of a cross-validation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// The graphs to train on, ascending.
    pub train: Vec<u32>,
    /// The graphs to test on, ascending. Each graph is in the test set of at most one fold.
    pub test: Vec<u32>,
}

/// Splits `num_graphs` graphs at random into sets with the given shares, for example 0.8, 0.1 and 0.1 for training,
/// validation and test. Each set is ascending. Graphs left over by rounding go to the first set.
///
/// # Errors
/// Fails if a share is negative or not finite, or if the shares do not add up to 1.
pub fn split_dataset(num_graphs: usize, shares: [f64; 3], seed: u64) -> Result<[Vec<u32>; 3], String> {
    let sum: f64 = shares.iter().sum();
    if !shares.iter().all(|share| (0.0..=1.0).contains(share)) || (sum - 1.0).abs() > 1e-6 {
        return Err(format!("shares {shares:?} of a split: each must be in 0..=1, and their sum must be 1"));
    }
    let count = |share: f64| Ok::<_, String>(Share::new(share)?.of(num_graphs as u64) as usize);
    let valid = count(shares[1])?;
    let test = count(shares[2])?;
    let mut order: Vec<u32> = (0..num_graphs as u32).collect();
    CounterRng::new(combine(0x5917, seed)).shuffle(&mut order);
    let train = num_graphs.saturating_sub(valid + test);
    let mut rest = &order[..];
    Ok([train, valid, test].map(|size| {
        let (these, others) = rest.split_at(size.min(rest.len()));
        rest = others;
        ascending(these.to_vec())
    }))
}

/// Splits graphs into `num_folds` random folds. Each class is spread evenly over the test sets, whose sizes differ by
/// at most one.
///
/// # Errors
/// Fails for fewer than 2 folds, or for more folds than graphs.
pub fn stratified_folds(labels: &[u32], num_folds: usize, seed: u64) -> Result<Vec<Fold>, String> {
    if !(2..=labels.len()).contains(&num_folds) {
        return Err(format!(
            "{num_folds} folds of {} graphs: expected at least 2 folds and at least one graph per fold",
            labels.len()
        ));
    }
    let fold_of = deal(&(0..labels.len() as u32).collect::<Vec<_>>(), labels, num_folds, seed);
    let fold = |number: usize| {
        let graphs = 0..labels.len() as u32;
        let (test, train) = graphs.partition(|&graph| fold_of[graph as usize] == number);
        Fold { train, test }
    };
    Ok((0..num_folds).map(fold).collect())
}

/// Takes one in `parts` of the graphs, spread evenly over their classes. Returns the remaining and the taken graphs.
/// Takes one graph if there are fewer graphs than `parts`.
pub fn hold_out(graphs: &[u32], labels: &[u32], parts: usize, seed: u64) -> [Vec<u32>; 2] {
    let part_of = deal(graphs, labels, parts.max(1), seed);
    let (taken, left): (Vec<_>, Vec<_>) = graphs.iter().zip(part_of).partition(|(_, part)| *part == 0);
    [left, taken].map(|graphs| ascending(graphs.into_iter().map(|(graph, _)| *graph).collect()))
}

/// Reads folds from `train_idx-1.txt`, `test_idx-1.txt` and so on, with one graph per line, counted from 0.
///
/// # Errors
/// Fails if there are no such files, a file of a pair is missing, a file is empty, or a line is not a graph of the set.
/// Also fails if a graph is listed twice, is in both files of a fold, or is in the test files of two folds.
pub fn read_folds(folder: &Path, num_graphs: usize) -> Result<Vec<Fold>, GraphError> {
    let mut folds = Vec::new();
    let mut tested: BTreeMap<u32, usize> = BTreeMap::new();
    for number in 1.. {
        let [train, test] = ["train", "test"].map(|set| folder.join(format!("{set}_idx-{number}.txt")));
        if !train.exists() && !test.exists() {
            break;
        }
        let fold = Fold { train: read_graphs(&train, num_graphs)?, test: read_graphs(&test, num_graphs)? };
        if let Some(graph) = fold.test.iter().find(|graph| fold.train.binary_search(graph).is_ok()) {
            return Err(GraphError::format(test, format!("graph {graph} is also in {}", train.display())));
        }
        for &graph in &fold.test {
            if let Some(other) = tested.insert(graph, number) {
                return Err(GraphError::format(test, format!("graph {graph} is also in test_idx-{other}.txt")));
            }
        }
        folds.push(fold);
    }
    match folds.len() {
        0 => Err(GraphError::format(folder, "it contains neither train_idx-1.txt nor test_idx-1.txt")),
        _ => Ok(folds),
    }
}

fn read_graphs(path: &Path, num_graphs: usize) -> Result<Vec<u32>, GraphError> {
    let text = std::fs::read_to_string(path).map_err(|e| GraphError::io(path, e))?;
    let mut lines = BTreeMap::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let fail = |why: String| Err(GraphError::format(path, format!("line {number}: {why}")));
        let Ok(graph) = line.trim().parse::<u32>() else {
            return fail(format!("{line:?} is not the number of a graph, counted from 0"));
        };
        if graph as usize >= num_graphs {
            return fail(format!("graph {graph} is unknown: the set has {num_graphs}, counted from 0"));
        }
        if let Some(other) = lines.insert(graph, number) {
            return fail(format!("graph {graph} is already in line {other}"));
        }
    }
    match lines.len() {
        0 => Err(GraphError::format(path, "it lists no graph")),
        _ => Ok(lines.into_keys().collect()),
    }
}

/// Deals graphs into `hands` groups, class by class, with each class shuffled. Returns the group of each graph.
fn deal(graphs: &[u32], labels: &[u32], hands: usize, seed: u64) -> Vec<usize> {
    let mut by_class: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (position, &graph) in graphs.iter().enumerate() {
        by_class.entry(labels[graph as usize]).or_default().push(position);
    }
    let mut hand_of = vec![0; graphs.len()];
    let mut next = 0;
    // `next` continues across classes, so that the sizes of the groups differ by at most one.
    for (class, mut positions) in by_class {
        CounterRng::new(combine(combine(0xf01d, seed), u64::from(class))).shuffle(&mut positions);
        for position in positions {
            hand_of[position] = next % hands;
            next += 1;
        }
    }
    hand_of
}

fn ascending(mut graphs: Vec<u32>) -> Vec<u32> {
    graphs.sort_unstable();
    graphs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(sets: &[&[u32]]) -> Vec<u32> {
        ascending(sets.concat())
    }

    #[test]
    fn a_split_holds_every_graph_once() {
        for num_graphs in [0, 1, 9, 10, 188, 1000] {
            let [train, valid, test] = split_dataset(num_graphs, [0.8, 0.1, 0.1], 3).expect("good shares");
            assert_eq!(together(&[&train, &valid, &test]), (0..num_graphs as u32).collect::<Vec<_>>());
            assert_eq!((valid.len(), test.len()), (num_graphs / 10, num_graphs / 10));
        }
        assert_ne!(split_dataset(100, [0.8, 0.1, 0.1], 0), split_dataset(100, [0.8, 0.1, 0.1], 1));
        for shares in [[0.8, 0.1, 0.2], [1.1, -0.1, 0.0], [f64::NAN, 0.5, 0.5]] {
            assert!(split_dataset(10, shares, 0).is_err(), "{shares:?}");
        }
    }

    #[test]
    fn folds_are_stratified_and_test_each_graph_once() {
        let labels: Vec<u32> = (0..188).map(|graph| u32::from(graph % 3 != 0)).collect();
        let folds = stratified_folds(&labels, 10, 0).expect("ten folds");
        assert_eq!(folds.len(), 10);
        let tests: Vec<&[u32]> = folds.iter().map(|fold| &fold.test[..]).collect();
        let all: Vec<u32> = (0..188).collect();
        assert_eq!(together(&tests), all);
        for fold in &folds {
            assert_eq!(together(&[&fold.train, &fold.test]), all);
            let of_class_0 = fold.test.iter().filter(|&&graph| labels[graph as usize] == 0).count();
            assert!((18..=19).contains(&fold.test.len()) && (6..=7).contains(&of_class_0));
        }
        assert_ne!(folds, stratified_folds(&labels, 10, 1).expect("ten folds"));
        assert!(stratified_folds(&labels, 1, 0).is_err() && stratified_folds(&labels[..3], 4, 0).is_err());
        let [left, taken] = hold_out(&folds[0].train, &labels, 10, 5);
        assert_eq!(together(&[&left, &taken]), folds[0].train);
        assert!((16..=17).contains(&taken.len()));
        assert_eq!(hold_out(&[4], &labels, 10, 5), [vec![], vec![4]]);
    }

    #[test]
    fn folds_are_read_and_bad_ones_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("a file");
        let read = || read_folds(dir.path(), 5);
        let why = || read().expect_err("bad folds").to_string();
        assert!(why().contains("it contains neither train_idx-1.txt nor test_idx-1.txt"));
        put("train_idx-1.txt", "3\n0\n\n1\n");
        assert!(why().contains("test_idx-1.txt: No such file"));
        put("test_idx-1.txt", "4\n2\n");
        let fold = Fold { train: vec![0, 1, 3], test: vec![2, 4] };
        assert_eq!(read().expect("a fold"), [fold]);
        for (text, expected) in [
            ("2\n5\n", "test_idx-1.txt: line 2: graph 5 is unknown: the set has 5, counted from 0"),
            ("2\n2\n", "line 2: graph 2 is already in line 1"),
            ("two\n", "line 1: \"two\" is not the number of a graph"),
            ("\n", "it lists no graph"),
            ("1\n", "graph 1 is also in"),
        ] {
            put("test_idx-1.txt", text);
            assert!(why().contains(expected), "{}", why());
        }
        put("test_idx-1.txt", "2\n");
        put("train_idx-2.txt", "0\n");
        put("test_idx-2.txt", "4\n2\n");
        assert!(why().contains("test_idx-2.txt: graph 2 is also in test_idx-1.txt"), "{}", why());
    }
}

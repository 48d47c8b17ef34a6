//! The scores of runs that differ only in their random seed.

use super::Run;
use crate::progress::reporter::number;
use crate::progress::text_table::text_table;
use serde::Serialize;
use std::collections::HashSet;

/// The flag of the random seed.
const SEED: &str = "seed";

/// The mean and the sample standard deviation of scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    mean: f64,
    deviation: f64,
}

/// The scores of runs that differ only in their seed, without failed runs and with one run per seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct OverSeeds {
    runs: usize,
    valid: Spread,
    /// `None` if a run has no test score.
    test: Option<Spread>,
}

impl Spread {
    /// Returns `None` for fewer than two values, which have no deviation.
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Some(Self { mean, deviation: (squares / (values.len() - 1) as f64).sqrt() })
    }

    fn shown(self) -> String {
        format!("{} ± {}", number(Some(self.mean)), number(Some(self.deviation)))
    }
}

/// Returns the flags of a run without its seed; `None` if all runs have the same seed.
fn without_seed(run: &Run) -> Option<Vec<&(String, String)>> {
    let others: Vec<_> = run.flags.iter().filter(|(flag, _)| flag != SEED).collect();
    (others.len() < run.flags.len()).then_some(others)
}

/// Returns the value of the seed of a run, so that `01` is the seed 1.
fn seed_of(run: &Run) -> Option<Result<i128, &str>> {
    let (_, text) = run.flags.iter().find(|(flag, _)| flag == SEED)?;
    Some(text.trim().parse().map_err(|_| text.as_str()))
}

/// Adds the mean scores over seeds to each run.
pub(super) fn add(runs: &mut [Run]) {
    let found: Vec<Option<OverSeeds>> = runs.iter().map(|run| of_group(run, runs)).collect();
    for (run, found) in runs.iter_mut().zip(found) {
        run.over_seeds = found;
    }
}

fn of_group(run: &Run, runs: &[Run]) -> Option<OverSeeds> {
    let group = without_seed(run)?;
    let mut valid = Vec::new();
    let mut test = Vec::new();
    let mut seeds = HashSet::new();
    for other in runs.iter().filter(|other| without_seed(other).as_ref() == Some(&group)) {
        // A repeated run has the same scores, and is no further sample.
        if other.valid().is_none() || !seeds.insert(seed_of(other)) {
            continue;
        }
        valid.extend(other.valid());
        test.extend(other.test());
    }
    let all_tested = test.len() == valid.len();
    Some(OverSeeds { runs: valid.len(), valid: Spread::of(&valid)?, test: Spread::of(&test).filter(|_| all_tested) })
}

/// Formats a line per group of runs, the best mean first; `None` if there are no such groups.
pub(super) fn table(runs: &[Run]) -> Option<String> {
    let first = runs.iter().find_map(|run| run.scores.as_ref())?;
    let mut groups: Vec<(&OverSeeds, Vec<&(String, String)>)> = Vec::new();
    for run in runs {
        if let (Some(found), Some(flags)) = (&run.over_seeds, without_seed(run))
            && groups.iter().all(|(_, known)| *known != flags)
        {
            groups.push((found, flags));
        }
    }
    let sign = if first.higher_is_better { -1.0 } else { 1.0 };
    groups.sort_by(|(a, _), (b, _)| (sign * a.valid.mean).total_cmp(&(sign * b.valid.mean)));
    let (_, flags) = groups.first()?;
    let mut head: Vec<String> = flags.iter().map(|(flag, _)| flag.clone()).collect();
    head.extend(["seeds".into(), format!("valid {}", first.metric), format!("test {}", first.metric)]);
    let mut rows = vec![head];
    for (found, flags) in &groups {
        let mut row: Vec<String> = flags.iter().map(|(_, value)| value.clone()).collect();
        let test = found.test.map_or_else(|| "-".to_owned(), Spread::shown);
        row.extend([found.runs.to_string(), found.valid.shown(), test]);
        rows.push(row);
    }
    Some(text_table(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Scores;

    fn run(number: usize, [lr, seed]: [&str; 2], scores: Option<[f64; 2]>) -> Run {
        let scores = scores.map(|[valid, test]| Scores {
            metric: "accuracy".into(),
            higher_is_better: true,
            valid,
            test: Some(test),
            valid_metrics: Vec::new().into(),
            test_metrics: Vec::new().into(),
            best_epoch: Some(1),
            judged_by_test: false,
        });
        let flags = [("lr", lr), ("seed", seed)].map(|(flag, value)| (flag.to_owned(), value.to_owned())).to_vec();
        Run { scores, ..Run::new(number, flags, 1.0) }
    }

    #[test]
    fn scores_over_seeds_have_a_mean_and_a_deviation() {
        let mut runs = vec![
            run(1, ["0.1", "0"], Some([0.5, 0.25])),
            run(2, ["0.1", "1"], Some([0.75, 0.5])),
            run(3, ["0.1", "2"], None),
            run(4, ["0.2", "0"], Some([0.75, 0.75])),
            run(5, ["0.2", "1"], Some([0.75, 0.75])),
            run(6, ["0.3", "0"], Some([1.0, 1.0])),
            run(7, ["0.3", "00"], Some([1.0, 1.0])),
            run(8, ["0.1", "01"], Some([0.75, 0.5])),
        ];
        add(&mut runs);
        let expected = Spread { mean: 0.625, deviation: (2.0 * 0.125_f64.powi(2)).sqrt() };
        assert_eq!(runs[2].over_seeds.as_ref().map(|found| (found.runs, found.valid)), Some((2, expected)));
        assert_eq!(runs[5].over_seeds, None, "a single seed has no deviation");
        let expected = " lr  seeds   valid accuracy    test accuracy\n\
                        0.2      2  0.7500 ± 0.0000  0.7500 ± 0.0000\n\
                        0.1      2  0.6250 ± 0.1768  0.3750 ± 0.1768";
        assert_eq!(table(&runs).as_deref(), Some(expected));
        runs.iter_mut().for_each(|run| run.flags.retain(|(flag, _)| flag != SEED));
        add(&mut runs);
        assert_eq!(table(&runs), None);
    }
}

//! Metrics compared with their definitions, and over several ranks.

use crate::support::*;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_trainer::loss::{OutputKind, Target};
use edgecut_trainer::metrics::{
    ClassCounts, GatheredScores, Metric, OutputRows, RankingMetrics, ScoredLabels, realistic_rank,
};

/// Runs `work` on every rank of a job whose ranks are threads of this process. Returns the results by rank.
fn on_ranks<T: Send>(world_size: usize, work: impl Fn(usize, &mut ProcessGroup) -> T + Sync) -> Vec<T> {
    let ranks = Cluster::join_local(world_size, |_| {}).expect("join");
    std::thread::scope(|scope| {
        let work = &work;
        let run = |cluster: Cluster| {
            let mut world = cluster.world().expect("the world group");
            let result = work(cluster.rank(), &mut world);
            drop(world);
            cluster.shutdown().expect("leave together");
            result
        };
        let threads: Vec<_> = ranks.into_iter().map(|cluster| scope.spawn(move || run(cluster))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
    })
}

/// Makes scores with few distinct values, so that there are many ties.
fn scored(draws: &mut Draws, count: usize) -> ScoredLabels {
    let mut all = ScoredLabels::default();
    for _ in 0..count {
        let positive = draws.below(3) == 0;
        all.push((draws.below(6) + usize::from(positive)) as f32 / 4.0 - 0.5, positive);
    }
    all
}

/// Returns the area under the ROC curve on one rank.
fn roc_auc(scored: &ScoredLabels) -> Option<f64> {
    GatheredScores::of_one_rank(scored.clone()).roc_auc()
}

fn pairs_in_order(scored: &ScoredLabels) -> f64 {
    let mut won = 0.0;
    let mut all = 0.0;
    for positive in &scored.positives {
        for negative in &scored.negatives {
            won += if positive > negative { 1.0 } else { f64::from(u8::from(positive == negative)) / 2.0 };
            all += 1.0;
        }
    }
    won / all
}

#[test]
fn roc_auc_is_the_share_of_pairs_in_order() {
    let mut draws = Draws(1);
    for count in [5, 40, 333] {
        let scored = scored(&mut draws, count);
        assert_close(&[roc_auc(&scored).expect("both kinds")], &[pairs_in_order(&scored)], 1e-14, "ROC AUC");
    }
    for (positives, negatives, expected) in [
        // Zeros of both signs tie.
        (&[0.0][..], &[-0.0][..], Some(0.5)),
        (&[2.0], &[1.0], Some(1.0)),
        (&[1.0], &[2.0], Some(0.0)),
        (&[1.0, 2.0], &[], None),
        (&[], &[], None),
        (&[1.0], &[f32::NAN], None),
    ] {
        let scored = ScoredLabels { positives: positives.to_vec(), negatives: negatives.to_vec() };
        assert_eq!(roc_auc(&scored), expected, "{scored:?}");
    }
}

#[test]
fn roc_auc_is_over_the_seeds_of_all_ranks() {
    let few_positives = scored(&mut Draws(2), 100);
    let few_negatives =
        ScoredLabels { positives: few_positives.negatives.clone(), negatives: few_positives.positives.clone() };
    for all in [few_positives, few_negatives] {
        // The last rank has no seeds, and the first rank has no positives.
        let share = |rank: usize, scores: &[f32], first_of_rank_1: usize| match rank {
            0 => scores[..first_of_rank_1].to_vec(),
            1 => scores[first_of_rank_1..].to_vec(),
            _ => Vec::new(),
        };
        let found = on_ranks(3, |rank, world| {
            let mine =
                ScoredLabels { positives: share(rank, &all.positives, 0), negatives: share(rank, &all.negatives, 20) };
            mine.roc_auc_over_all_ranks(world).expect("a job that works")
        });
        assert_eq!(found, [roc_auc(&all); 3]);
        assert!(found[0].is_some());
        let nothing = on_ranks(2, |rank, world| {
            let mut mine = if rank == 0 { all.clone() } else { ScoredLabels::default() };
            mine.push(f32::NAN, true);
            mine.roc_auc_over_all_ranks(world).expect("a job that works")
        });
        assert_eq!(nothing, [None; 2]);
    }
}

#[test]
fn roc_auc_of_many_rounds_is_that_of_one_process() {
    // More scores than the ranks exchange in one round.
    let mut draws = Draws(9);
    let mut all = ScoredLabels::default();
    for seed in 0..2_600_000 {
        all.push((draws.below(1 << 20) + seed % 3) as f32, seed % 2 == 0);
    }
    let expected = roc_auc(&all);
    let found = on_ranks(2, |rank, world| {
        let of_rank = |scores: &[f32]| scores.iter().skip(rank).step_by(2).copied().collect();
        let mine = ScoredLabels { positives: of_rank(&all.positives), negatives: of_rank(&all.negatives) };
        mine.roc_auc_over_all_ranks(world).expect("a job that works")
    });
    assert_eq!(found, [expected; 2]);
}

#[test]
fn counters_take_memory_in_proportion_to_the_classes() {
    // A matrix of 8 bytes per pair of classes would take 320 TB.
    let classes = 2_000_000;
    let mut counts = ClassCounts::new(classes);
    counts.add(classes as i64 - 1, classes as i64 - 1);
    counts.add(0, classes as i64 - 1);
    counts.add(classes as i64, 0);
    assert_eq!((counts.micro_f1(), counts.macro_f1()), (Some(0.5), Some((2.0 / 3.0) / 2.0)));
}

#[test]
fn f1_follows_its_definition() {
    let mut draws = Draws(3);
    let classes = 5;
    // Class 4 has neither labels nor predictions.
    let seeds: Vec<(i64, i64)> = (0..200)
        .map(|_| {
            let label = draws.below(4) as i64;
            (label, if draws.below(2) == 0 { label } else { draws.below(4) as i64 })
        })
        .collect();
    let count = |holds: &dyn Fn(&(i64, i64)) -> bool| seeds.iter().filter(|seed| holds(seed)).count() as f64;
    let f1 = |class: i64| {
        let found = count(&|&(label, prediction)| label == class && prediction == class);
        let precision = found / count(&|&(_, prediction)| prediction == class);
        let recall = found / count(&|&(label, _)| label == class);
        2.0 * precision * recall / (precision + recall)
    };
    let macro_f1 = (0..4).map(f1).sum::<f64>() / 4.0;
    let accuracy = count(&|&(label, prediction)| label == prediction) / 200.0;
    let found = on_ranks(2, |rank, world| {
        let mut matrix = ClassCounts::new(classes);
        seeds.iter().skip(rank).step_by(2).for_each(|&(label, prediction)| matrix.add(label, prediction));
        matrix.add(-1, 0);
        matrix.add(0, 99);
        matrix.all_reduce(world).expect("a job that works");
        matrix
    });
    for matrix in found {
        assert_close(&[matrix.macro_f1().expect("seeds")], &[macro_f1], 1e-14, "macro F1");
        assert_eq!(matrix.micro_f1(), Some(accuracy));
    }
    let mut wrong = ClassCounts::new(2);
    assert_eq!((wrong.micro_f1(), wrong.macro_f1()), (None, None));
    wrong.add(0, 1);
    assert_eq!((wrong.micro_f1(), wrong.macro_f1()), (Some(0.0), Some(0.0)));
}

#[test]
fn ranks_are_the_mean_of_the_best_and_the_worst_place_among_ties() {
    let mut draws = Draws(4);
    for _ in 0..50 {
        let others: Vec<f32> = (0..draws.below(30)).map(|_| draws.below(5) as f32).collect();
        let score = draws.below(5) as f32;
        let optimistic = 1 + others.iter().filter(|other| **other > score).count();
        let pessimistic = 1 + others.iter().filter(|other| **other >= score).count();
        assert_eq!(realistic_rank(score, &others), (optimistic + pessimistic) as f64 / 2.0);
    }
    assert_eq!(realistic_rank(f32::NAN, &[0.0, 1.0]), 3.0);
    assert_eq!(realistic_rank(1.0, &[f32::NAN, 0.0]), 2.0);
    assert_eq!(realistic_rank(1.0, &[]), 1.0);
}

#[test]
fn ranking_metrics_are_over_all_ranks() {
    let places = [1.0, 2.0, 3.5, 10.0, 10.5];
    let found = on_ranks(2, |rank, world| {
        let mut metrics = RankingMetrics::with_depths(&[]);
        assert_eq!(metrics.mrr(), None);
        assert_eq!(Vec::from_iter(metrics.hits()), [(1, None), (3, None), (10, None)]);
        places.iter().skip(rank).step_by(2).for_each(|&place| metrics.add(place));
        metrics.all_reduce(world).expect("a job that works");
        metrics
    });
    let mrr = places.iter().map(|place| 1.0 / place).sum::<f64>() / 5.0;
    for metrics in found {
        assert_eq!(metrics.count(), 5);
        assert_eq!(Vec::from_iter(metrics.hits()), [(1, Some(0.2)), (3, Some(0.4)), (10, Some(0.8))]);
        assert_close(&[metrics.mrr().expect("ranks")], &[mrr], 1e-14, "MRR");
    }
}

/// Computes a metric over two ranks that share the rows alternately, which must agree.
fn over_two_ranks(name: &str, outputs: OutputKind, rows: &[f32], target: &Target) -> Option<f64> {
    let metric: Metric = name.parse().expect("a metric");
    let width = outputs.width();
    let found = on_ranks(2, |rank, world| {
        let mut state = metric.start(outputs);
        for row in (rank..rows.len() / width).step_by(2) {
            let target = match target {
                Target::Classes(labels) => Target::Classes(vec![labels[row]]),
                Target::Numbers { values, dim } => {
                    Target::Numbers { values: values[row * dim..][..*dim].to_vec(), dim: *dim }
                }
            };
            state.add(&OutputRows::new(&rows[row * width..][..width], width), &target);
        }
        state.over_all_ranks(world).expect("a job that works")
    });
    assert_eq!(found[0], found[1], "{name}");
    found[0]
}

fn floats(draws: &mut Draws, count: usize) -> Vec<f32> {
    (0..count).map(|_| draws.float() as f32).collect()
}

#[test]
fn metrics_of_numbers_follow_their_definitions() {
    let seeds = 41;
    let columns = 3;
    let mut draws = Draws(21);
    // Far from 0, where sums of squares would cancel.
    let mut numbers: Vec<f32> = floats(&mut draws, seeds * columns).into_iter().map(|value| 1000.0 + value).collect();
    let outputs: Vec<f32> = numbers.iter().map(|value| value + 0.3 * draws.float() as f32).collect();
    numbers.iter_mut().step_by(7).for_each(|value| *value = f32::NAN);
    let known: Vec<(usize, f64, f64)> = (0..numbers.len())
        .filter(|&at| !numbers[at].is_nan())
        .map(|at| (at % columns, f64::from(outputs[at]), f64::from(numbers[at])))
        .collect();
    let mean = |of: &dyn Fn(&(usize, f64, f64)) -> f64| known.iter().map(of).sum::<f64>() / known.len() as f64;
    let r2 = (0..columns).map(|column| {
        let of_column: Vec<_> = known.iter().filter(|(of, ..)| *of == column).collect();
        let mean = of_column.iter().map(|(_, _, number)| number).sum::<f64>() / of_column.len() as f64;
        let left: f64 = of_column.iter().map(|(_, output, number)| (output - number).powi(2)).sum();
        let all: f64 = of_column.iter().map(|(_, _, number)| (number - mean).powi(2)).sum();
        1.0 - left / all
    });
    let r2 = r2.sum::<f64>() / columns as f64;
    let target = Target::Numbers { values: numbers.clone(), dim: columns };
    for (name, expected) in [
        ("mae", mean(&|(_, output, number)| (output - number).abs())),
        ("rmse", mean(&|(_, output, number)| (output - number).powi(2)).sqrt()),
        ("r2", r2),
    ] {
        let found = over_two_ranks(name, OutputKind::Numbers(columns), &outputs, &target);
        assert_close(&[found.expect("numbers")], &[expected], 1e-9, name);
        let nothing = Target::Numbers { values: vec![f32::NAN; outputs.len()], dim: columns };
        assert_eq!(over_two_ranks(name, OutputKind::Numbers(columns), &outputs, &nothing), None, "{name}");
        let diverged = vec![f32::NAN; outputs.len()];
        assert_eq!(over_two_ranks(name, OutputKind::Numbers(columns), &diverged, &target), None, "{name}");
        assert_eq!(name.parse::<Metric>().expect("a metric").higher_is_better(), name == "r2");
    }
}

#[test]
fn metrics_of_labels_follow_their_definitions() {
    let seeds = 60;
    let labels = 4;
    let mut draws = Draws(22);
    let logits = floats(&mut draws, seeds * labels);
    let mut values: Vec<f32> =
        logits.iter().map(|logit| f32::from(u8::from(logit + draws.float() as f32 > 0.2))).collect();
    values.iter_mut().step_by(9).for_each(|value| *value = f32::NAN);
    let of_label = |label: usize| -> Vec<(f32, bool)> {
        let at = (0..seeds).map(|seed| seed * labels + label).filter(|&at| !values[at].is_nan());
        at.map(|at| (logits[at], values[at] > 0.5)).collect()
    };
    let count = |label: usize, of: &dyn Fn(bool, bool) -> bool| {
        of_label(label).iter().filter(|(logit, applies)| of(*logit > 0.0, *applies)).count() as f64
    };
    let all = |of: &dyn Fn(bool, bool) -> bool| (0..labels).map(|label| count(label, of)).sum::<f64>();
    let mean = |of: &dyn Fn(usize) -> f64| (0..labels).map(of).sum::<f64>() / labels as f64;
    let f1 = |label: usize| 2.0 * count(label, &|p, y| p && y) / (count(label, &|p, _| p) + count(label, &|_, y| y));
    let auc = |label: usize| {
        let mut scored = ScoredLabels::default();
        of_label(label).into_iter().for_each(|(score, positive)| scored.push(score, positive));
        roc_auc(&scored).expect("both kinds")
    };
    let target = Target::Numbers { values: values.clone(), dim: labels };
    for (name, expected) in [
        ("accuracy", all(&|p, y| p == y) / all(&|_, _| true)),
        ("micro-f1", 2.0 * all(&|p, y| p && y) / (all(&|p, _| p) + all(&|_, y| y))),
        ("macro-f1", mean(&f1)),
        ("macro-precision", mean(&|label| count(label, &|p, y| p && y) / count(label, &|p, _| p))),
        ("roc-auc", mean(&auc)),
    ] {
        let found = over_two_ranks(name, OutputKind::Labels(labels), &logits, &target);
        assert_close(&[found.expect("labels")], &[expected], 1e-12, name);
    }
}

#[test]
fn precision_of_classes_follows_its_definition() {
    // Class 2 is never predicted, and class 3 has neither seeds nor predictions.
    let rows = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]].concat();
    let target = Target::Classes(vec![0, 1, 1, 2]);
    let found = over_two_ranks("macro-precision", OutputKind::Classes(4), &rows, &target);
    assert_close(&[found.expect("seeds")], &[(0.5 + 0.5) / 3.0], 1e-14, "macro-precision");
}

//! Metrics against the definitions, counted pair by pair, and over several ranks.

use crate::support::*;
use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_trainer::metrics::{ConfusionMatrix, RankingMetrics, ScoredLabels, realistic_rank, roc_auc};

/// Runs `work` on every rank of a job in this process.
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

/// Scores on a few levels, so that many tie.
fn scored(draws: &mut Draws, count: usize) -> ScoredLabels {
    let mut all = ScoredLabels::default();
    for _ in 0..count {
        let positive = draws.below(3) == 0;
        all.push((draws.below(6) + usize::from(positive)) as f32 / 4.0 - 0.5, positive);
    }
    all
}

fn pairs_in_order(scored: &ScoredLabels) -> f64 {
    let of = |wanted: bool| scored.scores.iter().zip(&scored.positive).filter(move |(_, is)| **is == wanted);
    let (mut won, mut all) = (0.0, 0.0);
    for (positive, _) in of(true) {
        for (negative, _) in of(false) {
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
        assert_close(&[scored.roc_auc().expect("both kinds")], &[pairs_in_order(&scored)], 1e-14, "ROC AUC");
    }
    let known = |scores: &[f32], positive: &[bool]| roc_auc(scores, positive);
    assert_eq!(known(&[0.0, -0.0], &[true, false]), Some(0.5), "zeros of both signs tie");
    assert_eq!(known(&[1.0, 2.0], &[false, true]), Some(1.0));
    assert_eq!(known(&[1.0, 2.0], &[true, false]), Some(0.0));
    assert_eq!(known(&[1.0, 2.0], &[true, true]), None);
    assert_eq!(known(&[], &[]), None);
    assert_eq!(known(&[1.0, f32::NAN], &[true, false]), None);
}

#[test]
fn roc_auc_is_over_the_seeds_of_all_ranks() {
    let all = scored(&mut Draws(2), 100);
    // The last rank has no seeds.
    let cuts = [0, 70, 100, 100];
    let found = on_ranks(3, |rank, world| {
        let range = cuts[rank]..cuts[rank + 1];
        let mine = ScoredLabels { scores: all.scores[range.clone()].to_vec(), positive: all.positive[range].to_vec() };
        mine.all_gather(world).expect("a job that works")
    });
    assert!(found.iter().all(|found| *found == all));
}

#[test]
fn f1_follows_its_definition() {
    let mut draws = Draws(3);
    let classes = 5;
    // Of class 4 there are neither labels nor predictions.
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
        let mut matrix = ConfusionMatrix::new(classes);
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
    let mut wrong = ConfusionMatrix::new(2);
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
        let mut metrics = RankingMetrics::default();
        assert_eq!((metrics.mrr(), metrics.hits()), (None, None));
        places.iter().skip(rank).step_by(2).for_each(|&place| metrics.add(place));
        metrics.all_reduce(world).expect("a job that works");
        metrics
    });
    let mrr = places.iter().map(|place| 1.0 / place).sum::<f64>() / 5.0;
    for metrics in found {
        assert_eq!((metrics.count(), metrics.hits()), (5, Some([0.2, 0.4, 0.8])));
        assert_close(&[metrics.mrr().expect("ranks")], &[mrr], 1e-14, "MRR");
    }
}

//! Metrics on fixed scores with many ties, compared with the results of OGB's evaluators (ogb 1.3.6).
//!
//! The expected numbers come from `ogb.linkproppred.Evaluator` for ogbl-ddi, ogbl-collab, ogbl-ppa, ogbl-vessel and
//! ogbl-citation2, of `ogb.graphproppred.Evaluator` for ogbg-molhiv and ogbg-molpcba (`_eval_ap`), and of
//! `ogb.nodeproppred.Evaluator` for ogbn-arxiv, on these scores.

use edgecut_cluster::{Cluster, ProcessGroup};
use edgecut_trainer::loss::{OutputKind, Target};
use edgecut_trainer::metrics::{GatheredScores, Metric, OutputRows, RankingMetrics, ScoredLabels, realistic_rank};

/// Returns multiples of 1/64 below 97/64.
fn scores(count: u64, seed: u64) -> Vec<f32> {
    (0..count).map(|at| ((at * 7919 + seed * 104_729) * 31 % 8191 % 97) as f32 / 64.0).collect()
}

fn positives() -> Vec<f32> {
    scores(200, 1).into_iter().map(|score| score + 0.25).collect()
}

fn assert_equal(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-7), "{found:?} instead of {expected}");
}

/// Runs `work` on both ranks of a job, with every second entry of the scores on each.
fn on_two_ranks(scored: &ScoredLabels, work: impl Fn(ScoredLabels, &mut ProcessGroup) + Sync) {
    let share = |scores: &[f32], rank: usize| scores.iter().copied().skip(rank).step_by(2).collect();
    let ranks = Cluster::join_local(2, |_| {}).expect("join");
    std::thread::scope(|scope| {
        for cluster in ranks {
            let work = &work;
            scope.spawn(move || {
                let rank = cluster.rank();
                let own = ScoredLabels {
                    positives: share(&scored.positives, rank),
                    negatives: share(&scored.negatives, rank),
                };
                let mut world = cluster.world().expect("the world group");
                work(own, &mut world);
                drop(world);
                cluster.shutdown().expect("leave together");
            });
        }
    });
}

#[test]
fn links_with_shared_negatives() {
    let scored = ScoredLabels { positives: positives(), negatives: scores(1000, 2) };
    on_two_ranks(&scored, |own, world| {
        let gathered = GatheredScores::of_all_ranks(&own, world).expect("the scores");
        for (depth, expected) in [(20, 0.15), (50, 0.18), (100, 0.21)] {
            assert_eq!(gathered.ranking(&[depth]).hits()[&depth], Some(expected));
        }
        assert_equal(gathered.roc_auc(), 0.637_174_999_999_999_9);
        assert_equal(own.roc_auc_over_all_ranks(world).expect("a collective"), 0.637_174_999_999_999_9);
    });
}

#[test]
fn links_with_their_own_negatives() {
    let mut metrics = RankingMetrics::with_depths(&[]);
    for (&score, others) in positives().iter().zip(scores(200 * 50, 3).chunks(50)) {
        metrics.add(realistic_rank(score, others));
    }
    assert_equal(metrics.mrr(), 0.203_253_113_543_614_75);
    assert_eq!(Vec::from_iter(metrics.hits()), [(1, Some(0.125)), (3, Some(0.17)), (10, Some(0.345))]);
}

#[test]
fn binary_and_multi_class_nodes() {
    let labels: Vec<i64> = scores(500, 4).iter().map(|&score| i64::from(score > 0.9)).collect();
    let logits: Vec<f32> =
        scores(500, 5).iter().zip(&labels).flat_map(|(&score, &label)| [0.0, score + label as f32 / 4.0]).collect();
    let target = Target::Classes(labels);
    for (name, expected) in [("roc-auc", 0.581_329_741_269_760_6), ("average-precision", 0.548_262_580_082_784_5)] {
        assert_equal(alone(name, OutputKind::Classes(2), &logits, &target), expected);
    }
    let classes: Vec<i64> = (0..500).map(|at| at * 37 % 11 % 4).collect();
    let found = (0..500).flat_map(|at: i64| {
        let class = if at % 3 == 0 { (classes[at as usize] + 1) % 4 } else { classes[at as usize] };
        (0..4).map(move |column| if column == class { 1.0_f32 } else { 0.0 })
    });
    let logits = found.collect::<Vec<f32>>();
    assert_equal(alone("accuracy", OutputKind::Classes(4), &logits, &Target::Classes(classes)), 0.666);
}

/// Returns a metric of a job of one rank.
fn alone(name: &str, outputs: OutputKind, logits: &[f32], target: &Target) -> Option<f64> {
    let mut state = name.parse::<Metric>().expect("a metric").start(outputs);
    state.add(&OutputRows::new(logits, outputs.width()), target);
    let cluster = Cluster::join_local(1, |_| {}).expect("a job of one").remove(0);
    state.over_all_ranks(&mut cluster.world().expect("a group of one")).expect("a metric")
}

//! Temperatures, thresholds and curves, compared with slow computations, on one rank and on several.

use crate::support::*;
use edgecut_cluster::Cluster;
use edgecut_trainer::loss::{OutputKind, Target};
use edgecut_trainer::metrics::{Decision, Metric, OutputRows};

/// Returns a metric of rows that a decision judges, on one rank.
fn metric_of(name: &str, outputs: OutputKind, rows: &[f32], target: &Target, decision: &Decision) -> f64 {
    let mut state = name.parse::<Metric>().expect("a metric").start(outputs);
    state.add(&OutputRows::new(rows, outputs.width()).decided_by(decision), target);
    let cluster = Cluster::join_local(1, |_| {}).expect("a job of one").remove(0);
    let value = state.over_all_ranks(&mut cluster.world().expect("a group of one")).expect("a metric");
    value.expect("a defined metric")
}

#[test]
fn log_loss_and_calibration_error_follow_their_definitions() {
    let mut draws = Draws(31);
    let classes = 3;
    let rows: Vec<f32> = (0..90 * classes).map(|_| 4.0 * draws.float() as f32).collect();
    let labels: Vec<i64> = (0..90).map(|_| draws.below(classes) as i64).collect();
    for temperature in [1.0, 2.5] {
        let decision = Decision::default().with_temperature(temperature);
        let mut log_loss = 0.0;
        let mut bins = [[0.0_f64; 2]; 15];
        for (row, &label) in rows.chunks_exact(classes).zip(&labels) {
            let weights: Vec<f64> = row.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
            let sum: f64 = weights.iter().sum();
            log_loss -= (weights[label as usize] / sum).ln() / 90.0;
            let likeliest = (0..classes).max_by(|&a, &b| weights[a].total_cmp(&weights[b])).expect("a class");
            let share = weights[likeliest] / sum;
            let bin = &mut bins[((share * 15.0) as usize).min(14)];
            bin[0] += share;
            bin[1] += f64::from(u8::from(likeliest as i64 == label));
        }
        let error = bins.iter().map(|[shares, right]| (shares - right).abs() / 90.0).sum::<f64>();
        let outputs = OutputKind::Classes(classes);
        let target = Target::Classes(labels.clone());
        for (name, expected) in [("log-loss", log_loss), ("calibration-error", error)] {
            let found = metric_of(name, outputs, &rows, &target, &decision);
            assert_close(&[found], &[expected], 1e-9, name);
        }
    }
    let logits = vec![0.5, -2.0, 40.0, f32::MIN];
    let target = Target::Numbers { values: vec![1.0, f32::NAN, 1.0, 0.0], dim: 2 };
    let found = metric_of("log-loss", OutputKind::Labels(2), &logits, &target, &Decision::default());
    assert_close(&[found], &[(1.0 + (-0.5_f64).exp()).ln() / 3.0], 1e-12, "log loss of labels");
}

#[test]
fn decisions_change_classes_and_labels_and_no_area() {
    let rows = [0.0, 1.0, 0.0, 0.2, 0.0, -1.0];
    let target = Target::Classes(vec![1, 0, 0]);
    let outputs = OutputKind::Classes(2);
    let strict = Decision::default().with_thresholds(vec![0.5]);
    assert_close(&[metric_of("accuracy", outputs, &rows, &target, &Decision::default())], &[2.0 / 3.0], 1e-12, "0");
    assert_eq!(metric_of("accuracy", outputs, &rows, &target, &strict), 1.0);
    assert_eq!(metric_of("roc-auc", outputs, &rows, &target, &strict), 1.0);
    let labels = Target::Numbers { values: vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0], dim: 2 };
    let of_labels = Decision::default().with_thresholds(vec![-0.5, -2.0]);
    // The first label applies to all seeds, and the second one too.
    let rows = [0.0, 1.0, 0.0, 0.2, 0.0, -1.0];
    assert_close(
        &[metric_of("micro-f1", OutputKind::Labels(2), &rows, &labels, &of_labels)],
        &[2.0 * 2.0 / (2.0 + 6.0)],
        1e-12,
        "micro F1",
    );
}

//! ROC and precision-recall curves with a bounded number of points.

use super::decision::{Decision, logistic};
use super::output_rows::OutputRows;
use crate::loss::{OutputKind, Target};
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use serde::Serialize;

/// The bits of a score that select its bin: the sign, the exponent and seven bits behind it, so that scores of a bin differ by
/// less than 1 %.
const BIN_BITS: u32 = 16;
const NUM_BINS: usize = 1 << BIN_BITS;
/// The most classes or labels that have curves.
const MOST_CURVES: usize = 8;
/// The greatest distance of two points, as the sum of the changes of both rates.
const DISTANCE: f64 = 0.01;

/// The ROC curve and the precision-recall curve of a class or a label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The class or label; 1 for edges among their negatives.
    pub class: usize,
    /// The number of its seeds.
    pub positives: u64,
    /// The number of other seeds.
    pub negatives: u64,
    /// Points from the highest threshold down. Each is exact: the rates of the seeds whose scores are at least the
    /// threshold.
    pub points: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The probability of the threshold.
    pub threshold: f64,
    /// The share of negatives above the threshold.
    pub false_positive_rate: f64,
    /// The share of positives above the threshold.
    pub recall: f64,
    /// The share of positives among the seeds above the threshold.
    pub precision: f64,
}

/// The number of positive and negative seeds by score, from which curves over all ranks are made: the ranks add up counts,
/// 1 MiB per curve.
#[derive(Clone, Debug)]
pub(crate) struct CurveCounts {
    /// The class or label of each curve.
    classes: Vec<usize>,
    /// By curve, and by bin: the numbers of positives and negatives.
    counts: Vec<u64>,
}

impl CurveCounts {
    /// Makes counts of 0; `None` for outputs without curves: numbers, and more than eight classes or labels.
    pub(crate) fn new(outputs: OutputKind, decision: &Decision) -> Option<Self> {
        let classes: Vec<usize> = match outputs {
            // The curves of the other class are the same ones from the other end.
            OutputKind::Classes(2) => vec![decision.positive_class()],
            OutputKind::Classes(num) | OutputKind::Labels(num) if num <= MOST_CURVES => (0..num).collect(),
            _ => return None,
        };
        Some(Self { counts: vec![0; classes.len() * NUM_BINS * 2], classes })
    }

    /// Makes counts of positives and negatives with one score each.
    pub(crate) fn of_scores() -> Self {
        Self { classes: vec![1], counts: vec![0; NUM_BINS * 2] }
    }

    /// Adds a positive or a negative of [`of_scores`](Self::of_scores).
    pub(crate) fn add_score(&mut self, score: f32, is_positive: bool) {
        self.count(0, score, is_positive);
    }

    /// Adds a batch. Scores of classes are the logits of their probabilities.
    pub(crate) fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        match target {
            Target::Classes(labels) => {
                for (logits, &label) in outputs.rows().zip(labels) {
                    // The logit of the probability of one of several classes does not scale with the temperature.
                    let logits: Vec<f64> = logits.iter().map(|&logit| outputs.decision().divided(logit)).collect();
                    for at in 0..self.classes.len() {
                        let class = self.classes[at];
                        self.count(at, score_of_class(&logits, class), label == class as i64);
                    }
                }
            }
            Target::Numbers { values, dim } => {
                for (logits, labels) in outputs.rows().zip(values.chunks_exact(*dim)) {
                    for (at, (&logit, &label)) in logits.iter().zip(labels).enumerate() {
                        if !label.is_nan() {
                            self.count(at, outputs.decision().divided(logit) as f32, label > 0.5);
                        }
                    }
                }
            }
        }
    }

    fn count(&mut self, curve: usize, score: f32, is_positive: bool) {
        if !score.is_nan() {
            self.counts[(curve * NUM_BINS + bin_of(score)) * 2 + usize::from(!is_positive)] += 1;
        }
    }

    /// Returns the curves over the seeds of all ranks. Every rank must call this.
    pub(crate) fn curves(mut self, world: &mut ProcessGroup) -> Result<Vec<Curve>, ClusterError> {
        world.all_reduce(&mut self.counts, ReduceOp::Sum)?;
        let of_curves = self.counts.chunks_exact(NUM_BINS * 2);
        Ok(self.classes.iter().zip(of_curves).map(|(&class, counts)| curve(class, counts)).collect())
    }
}

/// Makes a curve from the counts of its bins.
fn curve(class: usize, counts: &[u64]) -> Curve {
    let (bins, _) = counts.as_chunks::<2>();
    let mut curve = Curve { class, positives: 0, negatives: 0, points: Vec::new() };
    for [positives, negatives] in bins {
        curve.positives += positives;
        curve.negatives += negatives;
    }
    let mut found = [0, 0];
    let mut last: Option<CurvePoint> = None;
    for (bin, [positives, negatives]) in bins.iter().enumerate().rev() {
        if positives + negatives == 0 {
            continue;
        }
        found[0] += positives;
        found[1] += negatives;
        let point = CurvePoint {
            threshold: logistic(f64::from(least_of(bin))),
            false_positive_rate: found[1] as f64 / curve.negatives.max(1) as f64,
            recall: found[0] as f64 / curve.positives.max(1) as f64,
            precision: found[0] as f64 / (found[0] + found[1]) as f64,
        };
        let is_last = found == [curve.positives, curve.negatives];
        let is_far = last.is_none_or(|last| {
            point.recall - last.recall + point.false_positive_rate - last.false_positive_rate >= DISTANCE
        });
        if is_last || is_far {
            curve.points.push(point);
            last = Some(point);
        }
    }
    curve
}

/// Returns the logit of the probability of a class: its distance from the logarithm of the others' sum.
fn score_of_class(logits: &[f64], class: usize) -> f32 {
    if let &[first, second] = logits {
        return if class == 1 { second - first } else { first - second } as f32;
    }
    let mut others = logits.to_vec();
    let own = others.remove(class);
    let highest = others.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = others.iter().map(|&logit| (logit - highest).exp()).sum();
    (own - highest - sum.ln()) as f32
}

/// Returns the bin of a score. Bins are in the order of the scores.
fn bin_of(score: f32) -> usize {
    // The sum makes a zero of one sign. The bits of negative numbers are in the reverse order.
    let bits = (score + 0.0).to_bits();
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    (ordered >> (u32::BITS - BIN_BITS)) as usize
}

/// Returns the least score of a bin.
fn least_of(bin: usize) -> f32 {
    let ordered = (bin as u32) << (u32::BITS - BIN_BITS);
    let bits = if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered };
    f32::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_cluster::Cluster;

    #[test]
    fn thresholds_of_several_classes_are_their_probabilities_at_the_temperature() {
        let decision = Decision::default().with_temperature(0.5);
        let logits = [1.0, 0.5, -0.25];
        let mut counts = CurveCounts::new(OutputKind::Classes(3), &decision).expect("three classes");
        counts.add(&OutputRows::new(&logits, 3).decided_by(&decision), &Target::Classes(vec![1]));
        let cluster = Cluster::join_local(1, |_| {}).expect("join").remove(0);
        let mut world = cluster.world().expect("the world group");
        for curve in counts.curves(&mut world).expect("curves") {
            let expected = decision.log_probability(&logits, curve.class).exp();
            let found = curve.points[0].threshold;
            // A score is the lower end of its bin.
            assert!(found <= expected && found > 0.98 * expected, "{curve:?}: {expected}");
        }
        drop(world);
        cluster.shutdown().expect("leave");
    }

    #[test]
    fn bins_are_in_the_order_of_scores() {
        let scores = [f32::NEG_INFINITY, -1e30, -2.0, -1e-30, 0.0, 1e-30, 0.5, 0.505, 2.0, 1e30, f32::INFINITY];
        for pair in scores.windows(2) {
            assert!(bin_of(pair[0]) < bin_of(pair[1]), "{pair:?}");
        }
        assert_eq!(bin_of(-0.0), bin_of(0.0));
        for score in scores.into_iter().filter(|score| score.is_finite()) {
            let least = least_of(bin_of(score));
            assert!(least <= score && bin_of(least) == bin_of(score), "{score}: {least}");
        }
    }

    #[test]
    fn points_are_exact_few_and_the_same_on_any_number_of_ranks() {
        let scores: Vec<f32> = (0..4000).map(|at| ((at * 7919 + 13) % 4001) as f32 / 500.0 - 4.0).collect();
        let labels: Vec<i64> = (0..4000).map(|at| i64::from((at * 7919 + 13) % 4001 + at % 1500 > 2800)).collect();
        let found = [1, 3].map(|num_ranks| {
            let ranks = Cluster::join_local(num_ranks, |_| {}).expect("join");
            let scores = &scores;
            let labels = &labels;
            std::thread::scope(|scope| {
                let mut threads = Vec::new();
                for cluster in ranks {
                    threads.push(scope.spawn(move || {
                        let decision = Decision::default();
                        let mut counts = CurveCounts::new(OutputKind::Classes(2), &decision).expect("two classes");
                        for at in (cluster.rank()..scores.len()).step_by(num_ranks) {
                            let rows = [0.0, scores[at]];
                            counts.add(&OutputRows::new(&rows, 2), &Target::Classes(vec![labels[at]]));
                        }
                        let mut world = cluster.world().expect("the world group");
                        let curves = counts.curves(&mut world).expect("curves");
                        drop(world);
                        cluster.shutdown().expect("leave together");
                        curves
                    }));
                }
                threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect::<Vec<_>>()
            })
        });
        assert!(found[1].iter().all(|curves| *curves == found[0][0]), "the same on every rank");
        let [curve] = &found[0][0][..] else { panic!("one curve") };
        assert!((50..=202).contains(&curve.points.len()), "{}", curve.points.len());
        for point in &curve.points {
            let threshold = (point.threshold / (1.0 - point.threshold)).ln() - 1e-9;
            let mut above = [0.0, 0.0];
            for (_, &label) in scores.iter().zip(&labels).filter(|(score, _)| f64::from(**score) >= threshold) {
                above[label as usize] += 1.0;
            }
            let [negatives, positives] = above;
            assert_eq!(point.recall, positives / curve.positives as f64);
            assert_eq!(point.false_positive_rate, negatives / curve.negatives as f64);
            assert_eq!(point.precision, positives / (positives + negatives));
        }
    }
}

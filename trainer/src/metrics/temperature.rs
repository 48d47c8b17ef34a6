//! The temperature of a classifier's probabilities.

use super::decision::logistic;
use crate::loss::Target;
use edgecut_cluster::{ClusterError, ProcessGroup, ReduceOp};
use rayon::prelude::*;

/// The greatest temperature. The least one is its inverse.
const MOST: f64 = 100.0;
/// The most steps of the search. At worst every second one halves the interval of logarithms, which takes 80 steps.
const MAX_STEPS: usize = 100;
/// The relative change that ends the search.
const PRECISION: f64 = 1e-10;
/// The number of rows that one thread sums.
const ROWS_AT_ONCE: usize = 4096;

/// The derivatives of the negative log-likelihood with respect to the inverse temperature.
#[derive(Clone, Copy, Default)]
struct Derivatives {
    first: f64,
    second: f64,
}

impl Derivatives {
    /// Adds a label that applies or does not.
    fn add_label(&mut self, inverse: f64, logit: f64, applies: bool) {
        let probability = logistic(inverse * logit);
        self.first += (probability - f64::from(u8::from(applies))) * logit;
        self.second += probability * (1.0 - probability) * logit * logit;
    }

    /// Adds a seed, whose class has the logit `own`.
    fn add_class(&mut self, inverse: f64, logits: &[f32], own: f32) {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut sum = 0.0;
        let mut mean = 0.0;
        let mut square = 0.0;
        for &logit in logits {
            // Distances from the highest logit neither overflow nor cancel.
            let distance = f64::from(logit) - f64::from(highest);
            let weight = (inverse * distance).exp();
            sum += weight;
            mean += weight * distance;
            square += weight * distance * distance;
        }
        mean /= sum;
        self.first += mean - (f64::from(own) - f64::from(highest));
        self.second += square / sum - mean * mean;
    }
}

/// Returns the temperature with the highest likelihood of the targets of all ranks; 1 without seeds. `rows` are the logits
/// of this rank's seeds, `[num_seeds, columns]`. Rows that are not finite are left out. Every rank must call this.
///
/// The negative log-likelihood is convex in the inverse temperature, so that its derivative has one root at most. The ranks
/// add up the derivatives only.
pub(crate) fn fit_temperature(
    rows: &[f32],
    columns: usize,
    targets: &Target,
    world: &mut ProcessGroup,
) -> Result<f64, ClusterError> {
    if over_all_ranks(1.0, rows, columns, targets, world)?.first == 0.0 {
        return Ok(1.0);
    }
    // Newton's steps are small where a model separates the seeds, so that the likelihood rises without end.
    if over_all_ranks(MOST, rows, columns, targets, world)?.first <= 0.0 {
        return Ok(1.0 / MOST);
    }
    let mut low = 1.0 / MOST;
    let mut high = MOST;
    if over_all_ranks(low, rows, columns, targets, world)?.first >= 0.0 {
        return Ok(MOST);
    }
    let mut inverse = 1.0;
    let mut last_change = f64::INFINITY;
    for _ in 0..MAX_STEPS {
        let Derivatives { first, second } = over_all_ranks(inverse, rows, columns, targets, world)?;
        if first == 0.0 {
            break;
        }
        if first > 0.0 {
            high = inverse;
        } else {
            low = inverse;
        }
        let newton = inverse - first / second;
        // Small steps that do not become smaller would not end the search.
        let is_fast = (newton - inverse).abs() <= last_change / 2.0;
        let next = if newton > low && newton < high && is_fast { newton } else { (low * high).sqrt() };
        let change = (next - inverse).abs();
        inverse = next;
        last_change = change;
        if change <= PRECISION * inverse {
            break;
        }
    }
    Ok(1.0 / inverse)
}

/// Returns true for the least and the greatest temperature, beyond which the likelihood may be higher.
pub(super) fn is_at_limit(temperature: f64) -> bool {
    temperature <= 1.0 / MOST || temperature >= MOST
}

fn over_all_ranks(
    inverse: f64,
    rows: &[f32],
    columns: usize,
    targets: &Target,
    world: &mut ProcessGroup,
) -> Result<Derivatives, ClusterError> {
    let pieces: Vec<Derivatives> = rows
        .par_chunks(ROWS_AT_ONCE * columns)
        .enumerate()
        .map(|(piece, rows)| of_rows(inverse, rows, columns, targets, piece * ROWS_AT_ONCE))
        .collect();
    // The pieces are added in order, whatever thread computed them.
    let mut sums = [0.0, 0.0];
    for Derivatives { first, second } in pieces {
        sums[0] += first;
        sums[1] += second;
    }
    world.all_reduce(&mut sums, ReduceOp::Sum)?;
    let [first, second] = sums;
    Ok(Derivatives { first, second })
}

/// Adds up the derivatives of rows, whose first target is `first_row`.
fn of_rows(inverse: f64, rows: &[f32], columns: usize, targets: &Target, first_row: usize) -> Derivatives {
    let mut sum = Derivatives::default();
    for (row, logits) in (first_row..).zip(rows.chunks_exact(columns)) {
        match targets {
            Target::Classes(labels) => {
                let own = logits.get(labels[row] as usize).filter(|_| logits.iter().all(|logit| logit.is_finite()));
                own.into_iter().for_each(|&own| sum.add_class(inverse, logits, own));
            }
            Target::Numbers { values, dim } => {
                for (&logit, &label) in logits.iter().zip(&values[row * dim..]) {
                    if logit.is_finite() && !label.is_nan() {
                        sum.add_label(inverse, f64::from(logit), label > 0.5);
                    }
                }
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_cluster::Cluster;

    /// Returns a number from -1 to 1 that looks random.
    fn noise(at: usize) -> f32 {
        ((at * 7919 + 13) % 1009) as f32 / 504.5 - 1.0
    }

    /// Fits the temperature of rows that ranks share in turn.
    fn fitted(num_ranks: usize, rows: &[f32], columns: usize, labels: &[i64]) -> Vec<f64> {
        let ranks = Cluster::join_local(num_ranks, |_| {}).expect("join");
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for cluster in ranks {
                threads.push(scope.spawn(move || {
                    let mut mine = Vec::new();
                    let mut own = Vec::new();
                    for (row, &label) in labels.iter().enumerate().skip(cluster.rank()).step_by(num_ranks) {
                        mine.extend_from_slice(&rows[row * columns..][..columns]);
                        own.push(label);
                    }
                    let mut world = cluster.world().expect("the world group");
                    let found = fit_temperature(&mine, columns, &Target::Classes(own), &mut world).expect("a fit");
                    drop(world);
                    cluster.shutdown().expect("leave together");
                    found
                }));
            }
            threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
        })
    }

    fn loss_at(temperature: f64, rows: &[f32], columns: usize, labels: &[i64]) -> f64 {
        let decision = crate::metrics::Decision::default().with_temperature(temperature);
        let mut loss = 0.0;
        for (row, &label) in rows.chunks_exact(columns).zip(labels) {
            loss -= decision.log_probability(row, label as usize);
        }
        loss
    }

    #[test]
    fn the_temperature_has_the_highest_likelihood_on_any_number_of_ranks() {
        for columns in [2, 5] {
            let labels: Vec<i64> = (0..500).map(|row| (row * 31 % columns) as i64).collect();
            let mut rows: Vec<f32> = (0..500 * columns).map(|at| 6.0 * noise(at)).collect();
            for (row, &label) in labels.iter().enumerate() {
                rows[row * columns + label as usize] += 3.0;
            }
            let [one] = fitted(1, &rows, columns, &labels)[..] else { panic!("one rank") };
            assert!(one > 1.2, "the logits are too confident: {one}");
            let least = loss_at(one, &rows, columns, &labels);
            for other in [0.5, 0.9, 0.999, 1.001, 1.1, 2.0] {
                assert!(least < loss_at(one * other, &rows, columns, &labels), "{one} times {other}");
            }
            for found in fitted(3, &rows, columns, &labels) {
                assert!((found / one - 1.0).abs() < 1e-9, "{found} instead of {one}");
            }
        }
    }

    /// One wrong seed among many right ones with small logits, for which Newton's steps are small.
    #[test]
    fn temperatures_far_from_the_start_are_found() {
        for num_right in [1_000, 100_000] {
            let mut rows = [0.25_f32, -0.25].repeat(num_right);
            rows.extend([0.25, -0.25]);
            let mut labels = vec![0; num_right];
            labels.push(1);
            let [found] = fitted(1, &rows, 2, &labels)[..] else { panic!("one rank") };
            // The probability of a right seed is the share of right ones.
            let expected = 0.5 / (num_right as f64).ln();
            assert!((found / expected - 1.0).abs() < 1e-8 && !is_at_limit(found), "{found}, expected {expected}");
        }
    }

    #[test]
    fn seeds_that_a_model_separates_have_the_lowest_temperature() {
        let found = fitted(2, &[1.0, -1.0, -1.0, 1.0], 2, &[0, 1])[0];
        assert!((found * MOST - 1.0).abs() < 1e-3 && is_at_limit(found), "{found}");
        // A model that is wrong about all seeds.
        let found = fitted(2, &[1.0, -1.0, -1.0, 1.0], 2, &[1, 0])[0];
        assert!(found == MOST && is_at_limit(found), "{found}");
        assert_eq!(fitted(2, &[], 2, &[]), [1.0; 2]);
        // A seed with a NaN is left out.
        assert_eq!(fitted(1, &[f32::NAN, 0.0], 2, &[1]), [1.0]);
    }
}

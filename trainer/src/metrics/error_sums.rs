//! Sums of errors of numbers, from which metrics of regression are computed.

use super::metric::MetricState;
use super::output_rows::OutputRows;
use crate::loss::{OutputKind, Target};
use edgecut_cluster::{ClusterError, ProcessGroup};

/// The number of values per column that ranks exchange.
const NUM_VALUES: usize = 5;

/// Sums over the known numbers of a column.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorSums {
    pub(super) count: f64,
    /// The absolute errors.
    pub(super) absolute: f64,
    /// The squared errors.
    pub(super) squared: f64,
    /// The mean of the numbers.
    mean: f64,
    /// The squared distances of the numbers from their mean.
    pub(super) variation: f64,
}

impl ErrorSums {
    /// Makes the state of a metric that is computed from the sums of all columns.
    pub(super) fn state(outputs: OutputKind, metric: OfSums) -> Box<dyn MetricState> {
        let columns = vec![Self::default(); outputs.width()];
        Box::new(ErrorState { columns, metric })
    }

    /// Returns the mean over all known numbers of a sum; `None` without known numbers, or if an output is NaN or infinite.
    pub(super) fn total(columns: &[Self], sum: fn(&Self) -> f64) -> Option<f64> {
        let count: f64 = columns.iter().map(|column| column.count).sum();
        let sum: f64 = columns.iter().map(sum).sum();
        (count > 0.0 && sum.is_finite()).then(|| sum / count)
    }

    /// Adds a number and the output for it.
    fn add(&mut self, output: f64, number: f64) {
        let error = output - number;
        let own = Self { count: 1.0, absolute: error.abs(), squared: error * error, mean: number, variation: 0.0 };
        self.merge(&own);
    }

    /// Adds the sums of other numbers. Means and distances are merged without cancellation (Chan et al., "Updating
    /// formulae and a pairwise algorithm for computing sample variances", 1979).
    fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        let distance = other.mean - self.mean;
        self.variation += other.variation + distance * distance * self.count * other.count / count;
        self.mean += distance * other.count / count;
        self.count = count;
        self.absolute += other.absolute;
        self.squared += other.squared;
    }
}

/// Computes a metric from the sums of all ranks, by column.
type OfSums = fn(&[ErrorSums]) -> Option<f64>;

struct ErrorState {
    columns: Vec<ErrorSums>,
    metric: OfSums,
}

impl MetricState for ErrorState {
    fn add(&mut self, outputs: &OutputRows<'_>, target: &Target) {
        let width = self.columns.len();
        for (position, (&output, &number)) in outputs.values().iter().zip(target.numbers()).enumerate() {
            if number.is_nan() {
                continue;
            }
            self.columns[position % width].add(f64::from(output), f64::from(number));
        }
    }

    fn over_all_ranks(mut self: Box<Self>, world: &mut ProcessGroup) -> Result<Option<f64>, ClusterError> {
        let mut mine: Vec<f64> = Vec::with_capacity(NUM_VALUES * self.columns.len());
        for column in &self.columns {
            mine.extend([column.count, column.absolute, column.squared, column.mean, column.variation]);
        }
        self.columns.fill(ErrorSums::default());
        for theirs in world.all_gather(bytemuck::cast_slice(&mine))? {
            let theirs: Vec<f64> = bytemuck::pod_collect_to_vec(&theirs);
            let (values, _) = theirs.as_chunks::<NUM_VALUES>();
            for (column, &[count, absolute, squared, mean, variation]) in self.columns.iter_mut().zip(values) {
                column.merge(&ErrorSums { count, absolute, squared, mean, variation });
            }
        }
        Ok((self.metric)(&self.columns))
    }
}

//! The means and variances of rows, which ranks add up.

/// The number of rows, and the mean and the biased variance of each of their columns.
#[derive(Debug, Clone, PartialEq)]
pub struct RowStatistics {
    /// The number of rows.
    pub num_rows: f64,
    /// The mean of each column; 0 without rows.
    pub means: Vec<f64>,
    /// The biased variance of each column; 0 without rows.
    pub variances: Vec<f64>,
}

impl RowStatistics {
    /// Makes the statistics of no rows.
    pub fn without_rows(channels: usize) -> Self {
        Self { num_rows: 0.0, means: vec![0.0; channels], variances: vec![0.0; channels] }
    }

    /// Makes statistics from the means followed by the variances.
    pub(super) fn from_values(num_rows: usize, mut values: Vec<f64>) -> Self {
        let variances = values.split_off(values.len() / 2);
        Self { num_rows: num_rows as f64, means: values, variances }
    }

    /// Returns the means followed by the variances.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.means.iter().chain(&self.variances).copied()
    }

    /// Returns the number of rows, the sum of each column, and the sum of the squares of each column.
    ///
    /// Sums of `f64` hold products of `f32` exactly enough: the variance of columns far from zero stays, unless the
    /// values themselves have lost it.
    pub(super) fn to_sums(&self) -> Vec<f64> {
        let mut sums = Vec::with_capacity(1 + 2 * self.means.len());
        sums.push(self.num_rows);
        sums.extend(self.means.iter().map(|mean| self.num_rows * mean));
        for (mean, variance) in self.means.iter().zip(&self.variances) {
            sums.push(self.num_rows * (variance + mean * mean));
        }
        sums
    }

    /// Makes the statistics from the sums of [`to_sums`](Self::to_sums) over all ranks.
    pub(super) fn of_sums(sums: &[f64]) -> Self {
        let num_rows = sums[0];
        let (of_values, of_squares) = sums[1..].split_at(sums.len() / 2);
        let mut all = Self::without_rows(of_values.len());
        if num_rows > 0.0 {
            all.num_rows = num_rows;
            for (channel, (value, square)) in of_values.iter().zip(of_squares).enumerate() {
                let mean = value / num_rows;
                all.means[channel] = mean;
                let variance = square / num_rows - mean * mean;
                // Rounding may make the difference of a constant column negative. NaN stays, and `max` would hide it.
                all.variances[channel] = if variance < 0.0 { 0.0 } else { variance };
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_column(values: &[f64]) -> RowStatistics {
        let num_rows = values.len() as f64;
        let mean = values.iter().sum::<f64>() / num_rows;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / num_rows;
        RowStatistics { num_rows, means: vec![mean], variances: vec![variance] }
    }

    #[test]
    fn sums_of_parts_are_the_statistics_of_all_rows() {
        for offset in [0.0, 3e4] {
            let values: Vec<f64> = (0..11).map(|at| offset + f64::from(at * at % 7)).collect();
            let all = of_column(&values);
            let (few, many) = values.split_at(2);
            let mut sums = vec![0.0; 3];
            for part in [of_column(few), RowStatistics::without_rows(1), of_column(many)] {
                sums.iter_mut().zip(part.to_sums()).for_each(|(sum, own)| *sum += own);
            }
            let found = RowStatistics::of_sums(&sums);
            assert_eq!(found.num_rows, 11.0);
            assert!((found.means[0] - all.means[0]).abs() < 1e-9, "{found:?}, {all:?}");
            assert!((found.variances[0] - all.variances[0]).abs() < 1e-5, "{found:?}, {all:?}");
        }
    }

    #[test]
    fn no_rows_and_constant_columns_have_no_variance() {
        let none = RowStatistics::without_rows(3);
        assert_eq!(RowStatistics::of_sums(&none.to_sums()), none);
        let constant = of_column(&[0.1; 7]);
        assert!(RowStatistics::of_sums(&constant.to_sums()).variances[0] < 1e-15);
        let overflown = of_column(&[f64::INFINITY, 1.0]);
        assert!(RowStatistics::of_sums(&overflown.to_sums()).variances[0].is_nan());
        assert_eq!(RowStatistics::from_values(2, vec![1.0, 2.0, 3.0, 4.0]).variances, [3.0, 4.0]);
    }
}

//! Statistics that several transforms are fitted to.

use super::kind::{Row, Statistics};
use super::{ExactSum, MAX_CATEGORIES, MAX_COUNTED};
use crate::ids::canonical_number;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// The statistics of one number of each row.
pub(crate) trait OfNumber: Clone + Debug + Default + Send {
    /// Adds a known number.
    fn add(&mut self, number: f64);

    /// Adds the statistics of later rows.
    fn merge(&mut self, later: Self);

    /// Returns the number of different numbers that are counted.
    fn num_counted(&self) -> usize {
        0
    }
}

/// Statistics of a column, of one of several kinds.
#[derive(Clone, Debug)]
pub(crate) enum ColumnStatistics {
    /// Only the numbers per row.
    Width(PerNumber<()>),
    Moments(PerNumber<Moments>),
    Values(PerNumber<Vec<f64>>),
    Counts(PerNumber<NumberCounts>),
    Texts(CategoryCounts),
}

impl ColumnStatistics {
    /// The numbers per row of no rows.
    pub(super) const WIDTH: Self = Self::Width(PerNumber { of_numbers: Vec::new() });
    /// The values of no rows.
    pub(super) const VALUES: Self = Self::Values(PerNumber { of_numbers: Vec::new() });
}

impl Statistics for ColumnStatistics {
    fn add(&mut self, row: Row) -> Result<(), String> {
        match self {
            Self::Width(statistics) => statistics.add(row),
            Self::Moments(statistics) => statistics.add(row),
            Self::Values(statistics) => statistics.add(row),
            Self::Counts(statistics) => statistics.add(row),
            Self::Texts(statistics) => statistics.add(row),
        }
    }

    fn merge(&mut self, later: Self) -> Result<(), String> {
        match (self, later) {
            (Self::Width(statistics), Self::Width(later)) => statistics.merge(later),
            (Self::Moments(statistics), Self::Moments(later)) => statistics.merge(later),
            (Self::Values(statistics), Self::Values(later)) => statistics.merge(later),
            (Self::Counts(statistics), Self::Counts(later)) => statistics.merge(later),
            (Self::Texts(statistics), Self::Texts(later)) => statistics.merge(later),
            _ => unreachable!("both are statistics of one feature"),
        }
    }

    fn width(&self) -> Option<usize> {
        match self {
            Self::Width(statistics) => statistics.width(),
            Self::Moments(statistics) => statistics.width(),
            Self::Values(statistics) => statistics.width(),
            Self::Counts(statistics) => statistics.width(),
            Self::Texts(statistics) => statistics.width(),
        }
    }

    fn num_counted(&self) -> usize {
        match self {
            Self::Counts(statistics) => statistics.num_counted(),
            Self::Texts(statistics) => statistics.num_counted(),
            Self::Width(_) | Self::Moments(_) | Self::Values(_) => 0,
        }
    }
}

/// The statistics of each number of a row, of the rows in which it is known.
#[derive(Clone, Debug)]
pub(crate) struct PerNumber<S> {
    of_numbers: Vec<(u64, S)>,
}

impl<S> Default for PerNumber<S> {
    fn default() -> Self {
        Self { of_numbers: Vec::new() }
    }
}

impl<S: OfNumber> PerNumber<S> {
    /// Returns what `value` makes of the number of known values and the statistics of each number.
    ///
    /// # Errors
    /// A number that is missing in all rows.
    pub(super) fn known<T>(&self, value: impl Fn(u64, &S) -> T) -> Result<Vec<T>, String> {
        let mut values = Vec::with_capacity(self.of_numbers.len());
        for (at, (count, of_number)) in self.of_numbers.iter().enumerate() {
            if *count == 0 {
                return Err(format!("number {at} of each row is missing in all rows: leave the feature out"));
            }
            values.push(value(*count, of_number));
        }
        Ok(values)
    }

    /// Checks that the numbers of rows take bounded memory.
    fn check(&self) -> Result<(), String> {
        if self.num_counted() > MAX_COUNTED {
            return Err(format!(
                "it has more than {MAX_COUNTED} different numbers, whose rows cannot all be counted: choose mean, median or \
                 constant in place of most_frequent"
            ));
        }
        Ok(())
    }
}

impl<S: OfNumber> Statistics for PerNumber<S> {
    fn add(&mut self, row: Row) -> Result<(), String> {
        let row = row.numbers();
        self.of_numbers.resize_with(row.len(), Default::default);
        for ((count, of_number), &number) in self.of_numbers.iter_mut().zip(row) {
            if !number.is_nan() {
                *count += 1;
                of_number.add(number);
            }
        }
        self.check()
    }

    fn merge(&mut self, later: Self) -> Result<(), String> {
        if self.of_numbers.is_empty() {
            *self = later;
            return Ok(());
        }
        if later.of_numbers.is_empty() {
            return Ok(());
        }
        let [ours, theirs] = [self.of_numbers.len(), later.of_numbers.len()];
        if ours != theirs {
            return Err(format!("it has {theirs} numbers per row, but {ours} in earlier files"));
        }
        for ((count, of_number), (later_count, later)) in self.of_numbers.iter_mut().zip(later.of_numbers) {
            *count += later_count;
            of_number.merge(later);
        }
        self.check()
    }

    fn width(&self) -> Option<usize> {
        Some(self.of_numbers.len()).filter(|&width| width > 0)
    }

    fn num_counted(&self) -> usize {
        self.of_numbers.iter().map(|(_, of_number)| of_number.num_counted()).sum()
    }
}

/// Nothing: only the number of values per row is needed.
impl OfNumber for () {
    fn add(&mut self, _number: f64) {}

    fn merge(&mut self, (): ()) {}
}

/// The least and the greatest number.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self { min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl OfNumber for Range {
    fn add(&mut self, number: f64) {
        self.min = self.min.min(number);
        self.max = self.max.max(number);
    }

    fn merge(&mut self, later: Self) {
        // Rows without a number leave both ends as they are.
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
    }
}

impl OfNumber for ExactSum {
    fn add(&mut self, number: f64) {
        self.add(number);
    }

    fn merge(&mut self, later: Self) {
        self.merge(&later);
    }
}

/// All numbers.
impl OfNumber for Vec<f64> {
    fn add(&mut self, number: f64) {
        self.push(number);
    }

    fn merge(&mut self, later: Self) {
        self.extend(later);
    }
}

/// The sums of the numbers and of their squares, without rounding errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    sum: ExactSum,
    squares: ExactSum,
}

impl OfNumber for Moments {
    fn add(&mut self, number: f64) {
        self.sum.add(number);
        self.squares.add_product(number, number);
    }

    fn merge(&mut self, later: Self) {
        self.sum.merge(&later.sum);
        self.squares.merge(&later.squares);
    }
}

impl Moments {
    /// Returns the mean of `count` numbers.
    pub(super) fn mean(&self, count: u64) -> f64 {
        self.sum.value() / count as f64
    }

    /// Returns the standard deviation of `count` numbers, without rounding errors before the root.
    pub(super) fn deviation(&self, count: u64) -> f64 {
        let mean = self.mean(count);
        // The sum of (x - mean)^2 is that of x^2 - 2 mean x + mean^2.
        let mut deviations = self.squares.clone();
        self.sum.terms().for_each(|term| deviations.add_product(-2.0 * mean, term));
        let mut square = ExactSum::default();
        square.add_product(mean, mean);
        square.terms().for_each(|term| deviations.add_product(count as f64, term));
        (deviations.value().max(0.0) / count as f64).sqrt()
    }
}

/// The number of rows with each number. The bits of a number are its key.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberCounts(BTreeMap<u64, u64>);

impl OfNumber for NumberCounts {
    fn add(&mut self, number: f64) {
        // Both zeros are one number.
        *self.0.entry((number + 0.0).to_bits()).or_default() += 1;
    }

    fn merge(&mut self, later: Self) {
        for (bits, count) in later.0 {
            *self.0.entry(bits).or_default() += count;
        }
    }

    fn num_counted(&self) -> usize {
        self.0.len()
    }
}

impl NumberCounts {
    /// Returns the number of the most rows, and the least of several such numbers.
    pub(super) fn most_frequent(&self) -> f64 {
        let mut found = (0, f64::NAN);
        for (&bits, &count) in &self.0 {
            let number = f64::from_bits(bits);
            if count > found.0 || (count == found.0 && number < found.1) {
                found = (count, number);
            }
        }
        found.1
    }
}

/// The different categories.
#[derive(Clone, Debug)]
pub(crate) struct Categories {
    separator: Option<String>,
    pub(super) found: BTreeSet<String>,
}

impl Categories {
    pub(super) fn new(separator: Option<String>) -> Self {
        Self { separator, found: BTreeSet::new() }
    }

    fn check(&self) -> Result<(), String> {
        if self.found.len() > MAX_CATEGORIES {
            return Err(format!(
                "it has more than {MAX_CATEGORIES} categories, each of which would be a feature: use the transform \
                 hash_buckets or frequency, give the mapping of the categories that matter, or leave the feature out"
            ));
        }
        Ok(())
    }
}

impl Statistics for Categories {
    fn add(&mut self, row: Row) -> Result<(), String> {
        for category in split(row.text(), self.separator.as_deref()) {
            if !self.found.contains(category) {
                self.found.insert(category.to_owned());
            }
        }
        self.check()
    }

    fn merge(&mut self, later: Self) -> Result<(), String> {
        self.found.extend(later.found);
        self.check()
    }
}

/// The number of rows with each category.
#[derive(Clone, Debug, Default)]
pub(crate) struct CategoryCounts {
    separator: Option<String>,
    pub(super) counts: BTreeMap<String, u64>,
    /// The number of rows, also without a category.
    pub(super) num_rows: u64,
}

impl CategoryCounts {
    pub(super) fn new(separator: Option<String>) -> Self {
        Self { separator, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        if self.counts.len() > MAX_COUNTED {
            return Err(format!("it has more than {MAX_COUNTED} different texts: leave the feature out"));
        }
        Ok(())
    }

    /// Returns the text of the most rows, and the first in the order of texts of several ones.
    pub(super) fn most_frequent(&self) -> Option<&str> {
        let mut found: Option<(&str, u64)> = None;
        for (text, &count) in &self.counts {
            if found.is_none_or(|(_, most)| count > most) {
                found = Some((text, count));
            }
        }
        found.map(|(text, _)| text)
    }
}

impl Statistics for CategoryCounts {
    fn add(&mut self, row: Row) -> Result<(), String> {
        self.num_rows += 1;
        // A row counts once for a category that it has twice.
        let categories: BTreeSet<&str> = split(row.text(), self.separator.as_deref()).collect();
        for category in categories {
            match self.counts.get_mut(category) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(category.to_owned(), 1);
                }
            }
        }
        self.check()
    }

    fn merge(&mut self, later: Self) -> Result<(), String> {
        self.num_rows += later.num_rows;
        for (text, count) in later.counts {
            *self.counts.entry(text).or_default() += count;
        }
        self.check()
    }

    fn num_counted(&self) -> usize {
        self.counts.len()
    }
}

/// Returns the categories of a text, which is one without a separator. A missing text has none.
pub(super) fn split<'a>(text: Option<&'a str>, separator: Option<&'a str>) -> impl Iterator<Item = &'a str> {
    let whole = text.filter(|_| separator.is_none());
    let parts = text.zip(separator).into_iter().flat_map(|(text, separator)| text.split(separator));
    whole.into_iter().chain(parts)
}

/// Returns the entry of a category. Saved categories of earlier versions have whole numbers of columns of floats with a
/// fraction of zero.
pub(super) fn of_category<'m, T>(saved: &'m BTreeMap<String, T>, category: &str) -> Option<&'m T> {
    saved.get(category).or_else(|| {
        canonical_number(category)?;
        saved.get(&format!("{category}.0"))
    })
}

/// Returns the value at the share `share` of ascending numbers, interpolated between neighbors, as in NumPy.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
}

/// Returns numbers in ascending order.
pub(super) fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<S: OfNumber>(numbers: &[f64]) -> PerNumber<S> {
        let mut statistics = PerNumber::default();
        numbers.iter().for_each(|&number| statistics.add(Row::Numbers(&[number])).unwrap());
        statistics
    }

    #[test]
    fn moments_of_far_numbers_are_exact() {
        // NumPy: std of 1, 2, 3, 4 is 1.118033988749895.
        for offset in [0.0, 1e9, 1e15] {
            let numbers = [1.0, 2.0, 3.0, 4.0].map(|number| number + offset);
            let moments = of::<Moments>(&numbers);
            let found = moments.known(|count, moments| (moments.mean(count), moments.deviation(count))).unwrap();
            assert_eq!(found, [(offset + 2.5, 1.118_033_988_749_895)]);
        }
        let found = of::<Moments>(&[0.1; 7]).known(|count, moments| moments.deviation(count)).unwrap();
        assert!(found[0] < 1e-16, "{found:?}");
    }

    #[test]
    fn missing_numbers_are_not_counted() {
        let found = of::<Range>(&[3.0, f64::NAN, 1.0]).known(|count, range| (count, range.min, range.max)).unwrap();
        assert_eq!(found, [(2, 1.0, 3.0)]);
        let mut merged = of::<Range>(&[f64::NAN]);
        for numbers in [&[3.0, 1.0], &[f64::NAN, f64::NAN]] {
            merged.merge(of(numbers)).unwrap();
        }
        assert_eq!(merged.known(|count, range| (count, range.min, range.max)).unwrap(), [(2, 1.0, 3.0)]);
        let error = of::<Range>(&[f64::NAN]).known(|_, _| ()).unwrap_err();
        assert!(error.starts_with("number 0 of each row is missing in all rows"), "{error}");
        let most = of::<NumberCounts>(&[2.0, -0.0, 0.0, 2.0, f64::NAN, f64::NAN, f64::NAN]);
        assert_eq!(most.known(|_, counts| counts.most_frequent()).unwrap(), [0.0]);
    }

    /// Counts two numbers per row.
    fn counted(numbers: std::ops::Range<usize>) -> PerNumber<NumberCounts> {
        let mut counts = PerNumber::default();
        for number in numbers {
            counts.add(Row::Numbers(&[number as f64, -(number as f64)])).unwrap();
        }
        counts
    }

    #[test]
    fn counted_numbers_are_bounded() {
        let mut counts = counted(0..MAX_COUNTED / 2);
        assert_eq!(counts.num_counted(), MAX_COUNTED);
        let error = counts.add(Row::Numbers(&[0.5, 0.0])).unwrap_err();
        assert!(
            error.contains("more than 1048576 different numbers") && error.contains("choose mean, median"),
            "{error}"
        );
        let mut merged = counted(0..MAX_COUNTED / 4);
        assert!(merged.merge(counted(MAX_COUNTED / 4..MAX_COUNTED / 2 + 1)).is_err());
    }

    #[test]
    fn quantiles_are_those_of_numpy() {
        let numbers = sorted(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!([0.0, 0.1, 0.5, 1.0].map(|share| quantile(&numbers, share)), [1.0, 1.3, 2.5, 4.0]);
        assert_eq!(quantile(&[7.0], 0.3), 7.0);
    }

    #[test]
    fn merged_statistics_are_those_of_all_rows() {
        let texts = ["a|b", "b|b", "c"];
        let mut all = CategoryCounts::new(Some("|".into()));
        let mut merged = all.clone();
        for text in texts {
            let mut one = CategoryCounts::new(Some("|".into()));
            one.add(Row::Text(Some(text))).unwrap();
            merged.merge(one).unwrap();
            all.add(Row::Text(Some(text))).unwrap();
        }
        assert_eq!((&merged.counts, merged.num_rows), (&all.counts, 3));
        assert_eq!(all.counts["b"], 2);
        assert_eq!(all.most_frequent(), Some("b"));
    }
}

//! A sum of floats without rounding errors.

/// A sum that does not depend on the order of its terms (Shewchuk 1997). It is kept as floats whose digits do not
/// overlap. Fits are therefore the same for any division of a table into files and row groups.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactSum {
    /// Floats of ascending magnitude without common digits.
    terms: Vec<f64>,
}

impl ExactSum {
    /// Adds a finite number.
    pub(crate) fn add(&mut self, number: f64) {
        let mut high = number;
        let mut kept = 0;
        for at in 0..self.terms.len() {
            let (large, small) =
                if high.abs() < self.terms[at].abs() { (self.terms[at], high) } else { (high, self.terms[at]) };
            high = large + small;
            let low = small - (high - large);
            if low != 0.0 {
                self.terms[kept] = low;
                kept += 1;
            }
        }
        self.terms.truncate(kept);
        self.terms.push(high);
    }

    /// Adds the product of two numbers without rounding it.
    pub(crate) fn add_product(&mut self, one: f64, other: f64) {
        let rounded = one * other;
        self.add(rounded);
        self.add(one.mul_add(other, -rounded));
    }

    /// Returns the floats whose sum it is.
    pub(crate) fn terms(&self) -> impl Iterator<Item = f64> {
        self.terms.iter().copied()
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.terms.iter().for_each(|&term| self.add(term));
    }

    /// Returns the float that is nearest to the sum.
    pub(crate) fn value(&self) -> f64 {
        let mut terms = self.terms.iter().rev().copied();
        let Some(mut high) = terms.next() else { return 0.0 };
        let mut low = 0.0;
        for term in terms.by_ref() {
            let large = high;
            high = large + term;
            low = term - (high - large);
            if low != 0.0 {
                break;
            }
        }
        // A tie was rounded to even, but the next term decides it.
        if let Some(next) = terms.next()
            && ((low < 0.0 && next < 0.0) || (low > 0.0 && next > 0.0))
        {
            let doubled = low * 2.0;
            let rounded = high + doubled;
            if doubled == rounded - high {
                return rounded;
            }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(numbers: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        numbers.iter().for_each(|&number| sum.add(number));
        sum.value()
    }

    #[test]
    fn no_digit_is_lost() {
        assert_eq!(sum(&[1e100, 1.0, -1e100, 1.0]), 2.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e-16, 1.0, 1e16]), 10_000_000_000_000_002.0);
        assert_eq!(sum(&[]), 0.0);
    }

    #[test]
    fn the_order_and_the_grouping_do_not_matter() {
        let numbers: Vec<f64> = (0..999).map(|n| f64::from(n * 7919 % 1000) * 10.0_f64.powi(n % 30 - 15)).collect();
        let forward = sum(&numbers);
        let backward = sum(&numbers.iter().rev().copied().collect::<Vec<_>>());
        let mut merged = ExactSum::default();
        for part in numbers.chunks(100) {
            let mut of_part = ExactSum::default();
            part.iter().for_each(|&number| of_part.add(number));
            merged.merge(&of_part);
        }
        assert_eq!((forward, forward), (backward, merged.value()));
    }
}

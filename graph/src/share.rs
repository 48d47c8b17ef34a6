//! Shares of a whole that are decimal numbers.

/// The number of units in the whole. A share has 18 decimals.
const WHOLE: u64 = 1_000_000_000_000_000_000;
/// The decimals of a number that a person wrote. More of them are the result of a computation.
const WRITTEN_DECIMALS: usize = 15;
/// The units of the last written decimal.
const LAST_WRITTEN: u64 = 1000;

/// A share of a whole: a decimal number from 0 to 1, such as 0.29. Counts are computed in whole numbers, so that 0.29 of
/// 100 are 29, although the nearest float is less than 0.29.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u64);

impl Share {
    /// Returns the share with the shortest decimal form of `number`. A form of more than 15 decimals comes from a
    /// computation such as 1 / 3. It is rounded up to 15 decimals, so that a third of 3 is 1.
    ///
    /// # Errors
    /// Fails for a number outside of 0..=1.
    pub fn new(number: f64) -> Result<Self, String> {
        if !(0.0..=1.0).contains(&number) {
            return Err(format!("the share {number} is not between 0 and 1"));
        }
        let text = number.to_string();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        let written = &decimals[..decimals.len().min(WRITTEN_DECIMALS)];
        let digits = written.bytes().fold(0, |digits, digit| digits * 10 + u64::from(digit - b'0'));
        let missing = (WRITTEN_DECIMALS - written.len()) as u32;
        let mut units = digits * 10_u64.pow(missing) * LAST_WRITTEN;
        if decimals.len() > written.len() {
            units += LAST_WRITTEN;
        }
        if whole == "1" {
            units = WHOLE;
        }
        Ok(Self(units))
    }

    /// Returns this share of `count`, rounded down.
    pub fn of(self, count: u64) -> u64 {
        self.units_of(count, 0)
    }

    /// Returns this share of `count`, rounded to the nearest number, and up from a half.
    pub fn rounded_of(self, count: u64) -> u64 {
        self.units_of(count, WHOLE / 2)
    }

    /// Returns this share of `count`, rounded down or up at random by the random number `draw`, so that the mean over all random
    /// numbers is the exact share.
    pub fn drawn_of(self, count: u64, draw: u64) -> u64 {
        self.units_of(count, ((u128::from(draw) * u128::from(WHOLE)) >> 64) as u64)
    }

    fn units_of(self, count: u64, more: u64) -> u64 {
        let units = u128::from(count) * u128::from(self.0) + u128::from(more);
        // At most `count`, since a share is at most 1.
        (units / u128::from(WHOLE)) as u64
    }

    /// Returns the sum of two shares, at most 1.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self((self.0 + other.0).min(WHOLE))
    }

    /// Returns the nearest float.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        // The products of floats are 28.999999999999996, 56.99999999999999, 114.99999999999999 and 0.6000000000000001.
        for (share, count, expected) in
            [(0.29, 100, 29), (0.57, 100, 57), (1.0 - 0.885, 1000, 115), (0.2, 3, 0), (1.0, 7, 7), (0.0, 7, 0)]
        {
            assert_eq!(Share::new(share).unwrap().of(count), expected, "{share} of {count}");
        }
        assert_eq!(Share::new(0.145).unwrap().rounded_of(100), 15);
        for number in [-0.1, 1.0 + f64::EPSILON, f64::NAN, f64::INFINITY] {
            assert!(Share::new(number).is_err(), "{number}");
        }
    }

    #[test]
    fn computed_shares_are_rounded_up() {
        for (share, count, expected) in
            [(1.0 / 3.0, 3, 1), (2.0 / 3.0, 3, 2), (0.1 * 3.0, 10, 3), (1.0 / 7.0, 7, 1), (1e-17, 1000, 0)]
        {
            assert_eq!(Share::new(share).unwrap().of(count), expected, "{share} of {count}");
        }
        assert_eq!(Share::new(1.0 - f64::EPSILON).unwrap().of(5), 5);
        let third = Share::new(1.0 / 3.0).unwrap();
        assert_eq!(third.plus(third).plus(third).plus(third), Share::new(1.0).unwrap());
    }

    proptest! {
        #[test]
        fn a_share_is_what_exact_decimals_give(decimals in 0_u64..=1_000_000, digits in 0_u32..=6, count in 0_u64..=1 << 40) {
            let whole = 10_u64.pow(digits);
            let decimals = decimals % (whole + 1);
            let share = Share::new(decimals as f64 / whole as f64).unwrap();
            let expected = u128::from(count) * u128::from(decimals) / u128::from(whole);
            prop_assert_eq!(u128::from(share.of(count)), expected);
        }
    }
}

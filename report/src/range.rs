//! The range of numbers along an axis.

use crate::unit::{Unit, grouped};

/// The number of ticks of an axis that is aimed for.
const TICKS: f64 = 5.0;
/// The most digits after the point of a label.
const MOST_DECIMALS: f64 = 6.0;

/// The range of numbers along an axis, with the distance of its ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
    step: f64,
}

impl Range {
    /// Returns the range of some numbers; `None` without numbers. A single number is in the middle of a range that is as long
    /// as it is large. Ranges of shares end at 0 and 1.
    pub(crate) fn of(numbers: impl Iterator<Item = f64> + Clone, unit: Unit) -> Option<Self> {
        let first = numbers.clone().next()?;
        let mut low = numbers.clone().fold(first, f64::min);
        let mut high = numbers.fold(first, f64::max);
        if high <= low {
            let margin = if low == 0.0 { 0.5 } else { (low.abs() / 2.0).max(f64::MIN_POSITIVE) };
            let is_share = unit == Unit::Share && (0.0..=1.0).contains(&low);
            low = if is_share { (low - margin).max(0.0) } else { low - margin };
            high = if is_share { (high + margin).min(1.0) } else { high + margin };
        }
        let rough = (high - low) / TICKS;
        let magnitude = 10.0_f64.powi(rough.log10().floor() as i32);
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * magnitude >= rough).unwrap_or(10.0);
        Some(Self { low, high, step: factor * magnitude })
    }

    /// Returns the range that begins and ends at ticks, so that both ends have a label.
    pub(crate) fn up_to_ticks(self) -> Self {
        let low = (self.low / self.step + 1e-9).floor() * self.step;
        let high = (self.high / self.step - 1e-9).ceil() * self.step;
        // A product that is rounded may be inside of the range.
        Self { low: low.min(self.low), high: high.max(self.high), ..self }
    }

    /// Returns the round numbers within the range.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let first = (self.low / self.step - 1e-9).ceil() as i64;
        let last = (self.high / self.step + 1e-9).floor() as i64;
        (first..=last).map(|tick| tick as f64 * self.step).collect()
    }

    /// Formats a tick that is multiplied by a factor, with the digits that differ between ticks.
    pub(crate) fn label(&self, tick: f64, factor: f64) -> String {
        // The tick at 0 may be a negative zero.
        let number = if tick.abs() < self.step / 2.0 { 0.0 } else { tick * factor };
        if number.abs() >= 1e6 {
            return format!("{number:.1e}");
        }
        let decimals = (-(self.step * factor).log10() - 1e-9).ceil().clamp(0.0, MOST_DECIMALS) as usize;
        grouped(&format!("{number:.decimals$}"))
    }

    /// Returns the place of a number between two coordinates, which stand for the ends of the range.
    pub(crate) fn place(&self, number: f64, from: f64, to: f64) -> f64 {
        from + (number - self.low) / (self.high - self.low) * (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: f64, high: f64) -> Range {
        Range::of([low, high].into_iter(), Unit::Number).expect("a range")
    }

    #[test]
    fn ticks_are_round_and_inside() {
        for (low, high, expected) in
            [(0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0].as_slice()), (1.0, 20.0, &[5.0, 10.0, 15.0, 20.0])]
        {
            let ticks = range(low, high).ticks();
            assert!(
                ticks.len() == expected.len() && ticks.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9),
                "{ticks:?}"
            );
        }
        for (low, high) in [(0.301, 0.302), (-5.0, 7.0), (1e9, 3e9)] {
            let ticks = range(low, high).ticks();
            let inside = low - 1e-9..=high + 1e-9;
            assert!((3..=12).contains(&ticks.len()) && ticks.iter().all(|tick| inside.contains(tick)), "{ticks:?}");
        }
        assert_eq!(range(7.0, 7.0).place(7.0, 0.0, 10.0), 5.0);
    }

    #[test]
    fn the_range_of_equal_numbers_fits_them() {
        for (number, unit, expected) in [
            (0.2, Unit::Share, [0.1, 0.3]),
            (1.0, Unit::Share, [0.5, 1.0]),
            (0.0, Unit::Share, [0.0, 0.5]),
            (0.001, Unit::Number, [0.0004, 0.0016]),
            (-4.0, Unit::Number, [-6.0, -2.0]),
            (0.0, Unit::Seconds, [-0.6, 0.6]),
        ] {
            let range = Range::of([number; 3].into_iter(), unit).expect("a range").up_to_ticks();
            let is_expected = [range.low, range.high].iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(is_expected, "{number} {unit:?}: {range:?}");
        }
    }

    #[test]
    fn labels_of_ticks_are_distinct() {
        for (low, high) in [(0.0, 1.0), (0.5931, 0.5932), (1.05, 1.68), (-5.0, 7.0), (3.0, 123_456.0), (1e9, 3e9)] {
            for factor in [1.0, 100.0] {
                let range = range(low, high).up_to_ticks();
                let ticks = range.ticks();
                assert!(range.low <= low && range.high >= high, "{range:?}");
                assert!((ticks[0] - range.low).abs() < 1e-9 * high.abs(), "{range:?}");
                let mut labels: Vec<String> = ticks.iter().map(|&tick| range.label(tick, factor)).collect();
                assert!(labels.iter().all(|label| label.len() <= 9), "{labels:?}");
                labels.dedup();
                assert_eq!(labels.len(), ticks.len(), "{labels:?}");
            }
        }
        assert_eq!([-0.0, -0.5].map(|tick| range(-1.0, 1.0).label(tick, 1.0)), ["0.0", "-0.5"]);
    }
}

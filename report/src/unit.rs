//! Numbers with units, for people.

/// The unit of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Numbers without a unit.
    Number,
    /// Shares from 0 to 1, which are shown as percentages.
    Share,
    /// Seconds, which are shown from milliseconds to hours.
    Seconds,
    /// Bytes, which are shown up to terabytes.
    Bytes,
}

/// The factor by which numbers are multiplied before they are shown, and the name of the unit of the products.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) factor: f64,
    pub(crate) name: &'static str,
}

impl Unit {
    /// Formats a number with four significant digits.
    pub fn format(self, value: f64) -> String {
        let Scale { factor, name } = self.scale(value.abs());
        let number = shown(value * factor);
        if name.is_empty() { number } else { format!("{number} {name}") }
    }

    /// Returns the scale in which the largest of some numbers has one to three digits before the point.
    pub(crate) fn scale(self, largest: f64) -> Scale {
        let scales: &[(f64, f64, &str)] = match self {
            Self::Number => &[(0.0, 1.0, "")],
            Self::Share => &[(0.0, 100.0, "%")],
            Self::Seconds => {
                &[(7200.0, 1.0 / 3600.0, "h"), (120.0, 1.0 / 60.0, "min"), (1.0, 1.0, "s"), (0.0, 1e3, "ms")]
            }
            Self::Bytes => {
                &[(1e12, 1e-12, "TB"), (1e9, 1e-9, "GB"), (1e6, 1e-6, "MB"), (1e3, 1e-3, "kB"), (0.0, 1.0, "bytes")]
            }
        };
        let (_, factor, name) = scales.iter().find(|(from, ..)| largest >= *from).copied().unwrap_or((0.0, 1.0, ""));
        Scale { factor, name }
    }
}

/// Formats a number with four significant digits, and commas between thousands.
pub fn shown(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.abs().to_string();
    }
    let digits = (3.0 - number.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{number:.digits$}");
    grouped(if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text })
}

/// Separates the thousands of a decimal number by commas.
pub(crate) fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut text = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_and_separated_thousands() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.123456, "0.1235"),
            (12.3, "12.3"),
            (999.0, "999"),
            (123456.7, "123,457"),
            (-1234567.0, "-1,234,567"),
            (-2.50004, "-2.5"),
        ] {
            assert_eq!(shown(number), text);
        }
        assert_eq!(grouped("-1234.5678"), "-1,234.5678");
    }

    #[test]
    fn units_are_scaled() {
        for (unit, value, text) in [
            (Unit::Number, 10000.0, "10,000"),
            (Unit::Share, 0.797, "79.7 %"),
            (Unit::Seconds, 0.0, "0 ms"),
            (Unit::Seconds, 0.035, "35 ms"),
            (Unit::Seconds, 119.0, "119 s"),
            (Unit::Seconds, 600.0, "10 min"),
            (Unit::Seconds, 9000.0, "2.5 h"),
            (Unit::Bytes, 640.0, "640 bytes"),
            (Unit::Bytes, 24_300_000.0, "24.3 MB"),
            (Unit::Bytes, 5e15, "5,000 TB"),
        ] {
            assert_eq!(unit.format(value), text);
        }
    }
}

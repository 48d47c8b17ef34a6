//! Human-readable formatting of numbers.

/// Formats a time with three significant digits: `12.3 ms`.
pub(crate) fn seconds(value: f64) -> String {
    match value.abs() {
        s if !s.is_finite() => "-".into(),
        s if s >= 1.0 => format!("{} s", digits(value)),
        s if s >= 1e-3 => format!("{} ms", digits(value * 1e3)),
        s if s >= 1e-6 => format!("{} µs", digits(value * 1e6)),
        _ => format!("{} ns", digits(value * 1e9)),
    }
}

/// Formats a quantity with a metric prefix: `1.23 GB/s`, `45.6 M edges/s`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value.abs() {
        v if !v.is_finite() => return "-".into(),
        v if v >= 1e12 => (value / 1e12, "T"),
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    // The prefix is attached to a unit symbol, but separated from a word.
    let symbol = ["B", "B/s", "FLOP/s"].contains(&unit);
    let gap = if symbol || prefix.is_empty() { "" } else { " " };
    format!("{} {prefix}{gap}{unit}", digits(scaled)).trim_end().to_owned()
}

/// Formats a number with three significant digits, but at most six decimals.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 || v == 0.0 => 2,
        v => (2 - v.log10().floor() as i32).clamp(3, 6) as usize,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(seconds(0.012_345), "12.3 ms");
        assert_eq!(seconds(123.4), "123 s");
        assert_eq!(seconds(4e-7), "400 ns");
        assert_eq!(quantity(1.234e9, "B/s"), "1.23 GB/s");
        assert_eq!(quantity(45.6e6, "edges/s"), "45.6 M edges/s");
        assert_eq!(quantity(7.0, "seeds/s"), "7.00 seeds/s");
        assert_eq!(quantity(0.001_234, ""), "0.00123");
        assert_eq!(quantity(f64::NAN, "B/s"), "-");
    }
}

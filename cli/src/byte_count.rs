//! Numbers of bytes on command lines.

/// Parses a number of bytes.
///
/// # Errors
/// Describes the format.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("KB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
    ];
    let unit = UNITS.into_iter().find_map(|(name, size)| Some((text.strip_suffix(name)?, size)));
    let (digits, size) = unit.unwrap_or((text, 1));
    let wrong = || format!("{text:?} is not a number of bytes: write for example 4GiB, 500MB or 1073741824");
    digits.trim_end().parse::<u64>().ok().and_then(|count| count.checked_mul(size)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [("0", 0), ("1024", 1024), ("4GiB", 4 << 30), ("500MB", 500_000_000), ("2 K", 2048)] {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "GiB", "-1", "4 bytes", "99999999999GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}

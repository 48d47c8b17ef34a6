//! Parsing of numbers in CSV bytes.
//!
//! Common spellings have a fast path, and all others use the standard library. Both give the same values.

/// The powers of ten that `f32` represents exactly.
const POWERS_OF_TEN: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/// Parses the digits at the start of `bytes`. Returns their value and their count. Reads at most ten digits, so the
/// value cannot overflow.
pub(crate) fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    let mut value = 0;
    let mut length = 0;
    for &byte in bytes.iter().take(10) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value * 10 + u64::from(digit);
        length += 1;
    }
    (value, length)
}

/// Parses the number at the start of `bytes` and returns it with its length. Returns `None` unless it is short enough
/// to be exact, has no exponent, and ends at a comma, at a line end or at the end of `bytes`.
///
/// With at most seven significant digits and ten decimals, both the digits and the power of ten are exact in `f32`. So
/// their quotient is the nearest `f32` (W. D. Clinger, "How to Read Floating Point Numbers Accurately", 1990).
pub(crate) fn short_decimal(bytes: &[u8]) -> Option<(f32, usize)> {
    let negative = bytes.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let mut digits = 0_u32;
    let mut decimals = 0;
    let mut point = false;
    let mut any = false;
    loop {
        // These bounds keep `digits` below 10^7, and thereby below 2^24, and the power of ten within the table.
        match bytes.get(at) {
            Some(byte @ b'0'..=b'9') if digits < 1_000_000 && decimals < 10 => {
                digits = digits * 10 + u32::from(byte - b'0');
                decimals += usize::from(point);
                any = true;
            }
            Some(b'.') if !point => point = true,
            Some(b',' | b'\n' | b'\r') | None if any => break,
            _ => return None,
        }
        at += 1;
    }
    let value = digits as f32 / POWERS_OF_TEN[decimals];
    Some((if negative { -value } else { value }, at))
}

/// Parses a finite `f32`, with optional white space around it.
///
/// # Errors
/// A message that quotes the field.
pub(crate) fn finite_f32(field: &[u8]) -> Result<f32, String> {
    let field = field.trim_ascii();
    if let Some((value, length)) = short_decimal(field)
        && length == field.len()
    {
        return Ok(value);
    }
    let parsed = str::from_utf8(field).ok().and_then(|text| text.parse::<f32>().ok());
    match parsed {
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(format!("{} is not a finite 32-bit number", quote(field))),
        None if field.is_empty() => Err("the value is empty".into()),
        None => Err(format!("{} is not a number", quote(field))),
    }
}

/// Parses a whole number, with optional white space around it.
///
/// # Errors
/// A message that quotes the field and names the expected item, `what`.
pub(crate) fn whole(field: &[u8], what: &str) -> Result<u64, String> {
    let field = field.trim_ascii();
    let digits = field.strip_prefix(b"+").unwrap_or(field);
    let parsed = str::from_utf8(digits).ok().filter(|t| !t.starts_with('+')).and_then(|t| t.parse().ok());
    parsed.ok_or_else(|| format!("{} is not {what}", quote(field)))
}

/// Returns the first 40 characters of a field in quotes.
pub(crate) fn quote(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() { format!("{shown:?}...") } else { format!("{shown:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn decimals_are_what_the_standard_library_says(text in "-?[0-9]{0,12}(\\.[0-9]{0,12})?") {
            match text.parse::<f32>() {
                Ok(expected) => {
                    let found = finite_f32(text.as_bytes()).unwrap();
                    prop_assert_eq!(found.to_bits(), expected.to_bits());
                }
                Err(_) => prop_assert!(finite_f32(text.as_bytes()).is_err()),
            }
        }

        #[test]
        fn every_finite_f32_survives_both_spellings(value in any::<f32>().prop_filter("finite", |v| v.is_finite())) {
            for text in [format!("{value}"), format!("{value:e}"), format!(" {:?}\t", f64::from(value))] {
                prop_assert_eq!(finite_f32(text.as_bytes()).unwrap().to_bits(), value.to_bits());
            }
        }

        #[test]
        fn whole_numbers_are_what_the_standard_library_says(value in any::<u64>()) {
            prop_assert_eq!(whole(value.to_string().as_bytes(), "a number"), Ok(value));
            let (digits, length) = leading_digits(format!("{},", value % 10_000_000_000).as_bytes());
            prop_assert_eq!((digits, length), (value % 10_000_000_000, (value % 10_000_000_000).to_string().len()));
        }
    }

    #[test]
    fn odd_fields_are_quoted() {
        for (field, why) in [
            ("", "the value is empty"),
            ("nan", "\"nan\" is not a finite"),
            ("-inf", "\"-inf\" is not a finite"),
            ("1e39", "\"1e39\" is not a finite"),
            ("1.2.3", "\"1.2.3\" is not a number"),
            ("-", "\"-\" is not a number"),
            (".", "\".\" is not a number"),
        ] {
            let error = finite_f32(field.as_bytes()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        for field in ["", "-1", "1.0", "++1", "1e3", "18446744073709551616", "x"] {
            assert!(whole(field.as_bytes(), "a node id").unwrap_err().ends_with("is not a node id"), "{field}");
        }
        assert!(finite_f32(&[b'x'; 100]).unwrap_err().contains("xx\"..."));
        assert!(finite_f32(&[0xff, b'1']).is_err());
    }
}

//! Ids of nodes as their owners know them.

mod forms;
mod id_map;
mod parquet;
mod read;

pub(crate) use id_map::{Id, Inserted, draw_key_of_text};
pub use id_map::{IdMap, UserIds};
pub use parquet::IdMaps;

/// Returns the number whose decimal form is `text`. `007` and `+7` are texts, since they differ from `7`.
pub(crate) fn canonical_number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = match digits.as_bytes() {
        [b'0'] => text == "0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_canonical { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_decimal_form_is_a_number() {
        for (text, number) in [("0", Some(0)), ("-7", Some(-7)), ("9223372036854775807", Some(i64::MAX))] {
            assert_eq!(canonical_number(text), number, "{text}");
        }
        for text in ["", "-", "-0", "007", "+7", " 7", "7.0", "1e3", "9223372036854775808", "n1"] {
            assert_eq!(canonical_number(text), None, "{text}");
        }
    }
}

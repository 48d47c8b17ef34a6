//! The checksum of `META.json` in the file itself.

use std::ops::Range;

/// The name of the field.
const KEY: &[u8] = b"\"digest\"";
/// The number of hexadecimal digits of the field.
const DIGITS: usize = 32;

/// Returns the text of `META.json` with a `digest` field before its other fields. `object` is a JSON object without
/// this field.
///
/// # Panics
/// If `object` is not the text of a JSON object with at least one field.
#[expect(clippy::expect_used, reason = "the text is written by this program")]
pub(crate) fn with_digest(object: &[u8]) -> Vec<u8> {
    let fields = object.strip_prefix(b"{").expect("a JSON object");
    let mut text = format!("{{\n  \"digest\": \"{}\",", "0".repeat(DIGITS)).into_bytes();
    text.extend_from_slice(fields);
    let at = position(&text).expect("the field was just added");
    let digest = digest(&text, at.clone());
    text[at].copy_from_slice(digest.as_bytes());
    text
}

/// Compares the `digest` field of `META.json` with the rest of the text.
///
/// # Errors
/// Describes a field that is missing or malformed, or the difference.
pub(super) fn check_digest(text: &[u8]) -> Result<(), String> {
    let at = position(text).ok_or_else(|| format!("it has no field `digest` of {DIGITS} hexadecimal digits"))?;
    let expected = digest(text, at.clone());
    let found = &text[at];
    if found == expected.as_bytes() {
        return Ok(());
    }
    Err(format!("its `digest` is {}, but its content has {expected}", String::from_utf8_lossy(found)))
}

/// Returns the position of the digits. The name of the field followed by a colon occurs once: in strings, quotes are
/// escaped.
fn position(text: &[u8]) -> Option<Range<usize>> {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let skip_spaces = |from: usize| text[from..].iter().position(|byte| !is_space(byte)).map(|spaces| from + spaces);
    let value_after = |key: usize| {
        let colon = skip_spaces(key + KEY.len()).filter(|&at| text[at] == b':')?;
        let quote = skip_spaces(colon + 1).filter(|&at| text[at] == b'"')?;
        let digits = quote + 1..quote + 1 + DIGITS;
        let is_digest = text.get(digits.clone())?.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
        (is_digest && text.get(digits.end) == Some(&b'"')).then_some(digits)
    };
    let keys = (0..text.len()).filter(|&at| text[at] == b'"' && text[at..].starts_with(KEY));
    keys.filter_map(value_after).next()
}

/// Returns the digest of `text` with zeros in place of the digits at `at`.
fn digest(text: &[u8], at: Range<usize>) -> String {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&text[..at.start]);
    hash.update(&[b'0'; DIGITS]);
    hash.update(&text[at.end..]);
    format!("{:032x}", hash.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_is_found() {
        let text = with_digest(b"{\"dataset\": \"digest\", \"why\": \"a \\\"digest\\\": \\\"0\\\"\"}");
        check_digest(&text).unwrap();
        for at in 0..text.len() {
            for flip in [1, 0x20, 0x80] {
                let mut changed = text.clone();
                changed[at] ^= flip;
                check_digest(&changed).unwrap_err();
            }
            check_digest(&text[..at]).unwrap_err();
        }
        check_digest(&[&text[..], b" "].concat()).unwrap_err();
    }

    #[test]
    fn other_programs_may_write_the_field_anywhere() {
        let zeros = "0".repeat(DIGITS);
        let text = format!("{{\"a\":1,\"digest\" :\t\"{zeros}\"}}");
        let digest = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()));
        check_digest(text.replace(&zeros, &digest).as_bytes()).unwrap();
    }

    #[test]
    fn a_malformed_digest_is_named() {
        for text in ["{}", "{\"digest\": 7}", "{\"digest\": \"00\"}", "{\"digest\"", "{\"digest\":", ""] {
            assert!(check_digest(text.as_bytes()).unwrap_err().contains("no field `digest`"), "{text}");
        }
    }
}

//! Numbers with their nouns.

use std::fmt::Display;

/// Returns a number and the noun that fits it.
///
/// ```
/// use edgecut_settings::counted;
/// assert_eq!(counted(1_u64, "row", "rows"), "1 row");
/// assert_eq!(counted(0_usize, "row", "rows"), "0 rows");
/// ```
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str, several: &str) -> String {
    let noun = if number == N::from(1) { one } else { several };
    format!("{number} {noun}")
}

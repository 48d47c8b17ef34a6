//! Numbers of bytes for people.

/// Formats a number of bytes in the unit that gives it digits before the point.
///
/// ```
/// use edgecut_graph::shown_bytes;
/// assert_eq!([640, 24_300_000, 1_314_000_000].map(shown_bytes), ["640 bytes", "24.3 MB", "1.31 GB"]);
/// ```
pub fn shown_bytes(bytes: u64) -> String {
    let number = bytes as f64;
    match bytes {
        0..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{:.1} kB", number / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", number / 1e6),
        _ => format!("{:.2} GB", number / 1e9),
    }
}

//! The version of the wire format.

/// The version of all protocols between the processes of a job, which `docs/src/wire.md` describes. Both sides of a
/// connection must have the same version.
pub(crate) const PROTOCOL_VERSION: u32 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_the_wire_format_describes_this_version() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/src/wire.md");
        let text = std::fs::read_to_string(page).expect("the page");
        assert!(text.contains(&format!("describes version {PROTOCOL_VERSION} of the protocol")), "{page}");
    }
}

//! Lists of fan-outs as text.

pub use edgecut_graph::Fanout;

/// Parses a list such as `15,10,5`: one fan-out per hop, starting with the hop nearest to the seeds.
///
/// # Errors
/// A message that names the first invalid entry.
pub fn parse_num_neighbors(text: &str) -> Result<Vec<Fanout>, String> {
    text.split(',').map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_fan_outs_that_mean_nothing() {
        for text in ["", "-2", "a", "15,", "1.5", "99999999999"] {
            assert!(parse_num_neighbors(text).is_err(), "{text:?}");
        }
    }
}

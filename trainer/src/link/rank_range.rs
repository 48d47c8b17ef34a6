//! The ranks of destinations that are negatives.

use edgecut_settings::text_value;
use std::fmt;
use std::str::FromStr;

/// The largest rank of a negative.
const MAX_RANK: u32 = 100_000;
/// The most ranks of a range.
const MAX_RANKS: u32 = 256;

/// Ranks from a first to a last one, both included. The rank 1 has the highest score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRange {
    first: u32,
    last: u32,
}

text_value!(RankRange);

impl RankRange {
    /// Returns the best rank, at least 1.
    pub fn first(self) -> usize {
        self.first as usize
    }

    /// Returns the worst rank.
    pub fn last(self) -> usize {
        self.last as usize
    }
}

impl Default for RankRange {
    fn default() -> Self {
        Self { first: 1, last: 1 }
    }
}

impl fmt::Display for RankRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for RankRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match numbers {
            Some((first, last)) if first >= 1 && first <= last && last <= MAX_RANK && last - first < MAX_RANKS => {
                Ok(Self { first, last })
            }
            _ => Err(format!(
                "{text:?} is not a range of ranks: write FIRST-LAST, such as 20-50, with at most {MAX_RANKS} ranks from 1 to \
                 {MAX_RANK}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_of_few_ranks_are_accepted() {
        for text in ["1-1", "1-256", "99745-100000"] {
            assert_eq!(text.parse::<RankRange>().map(|range| range.to_string()).as_deref(), Ok(text));
        }
        for text in ["", "7", "0-5", "5-4", "1-257", "99999-100001", "a-b", "-1-2", "1-2-3", "1 - 2"] {
            assert!(text.parse::<RankRange>().is_err(), "{text}");
        }
    }
}

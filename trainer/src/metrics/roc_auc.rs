//! The area under the ROC curve.

use crate::gather::all_gather_large;
use edgecut_cluster::{ClusterError, ProcessGroup};

/// Bytes of an entry on the wire: a score and whether it is a positive's.
const ENTRY_BYTES: usize = 5;

/// The probability that a positive scores higher than a negative, ties counting half: exact, by midranks (Hanley and McNeil,
/// "The meaning and use of the area under a receiver operating characteristic curve", Radiology 1982). `None` without
/// positives or without negatives, or if a score is NaN.
///
/// ```
/// use edgecut_trainer::metrics::roc_auc;
/// assert_eq!(roc_auc(&[0.1, 0.4, 0.35, 0.8], &[false, false, true, true]), Some(0.75));
/// ```
pub fn roc_auc(scores: &[f32], positive: &[bool]) -> Option<f64> {
    let mut entries: Vec<(f32, bool)> = scores.iter().copied().zip(positive.iter().copied()).collect();
    if entries.iter().any(|(score, _)| score.is_nan()) {
        return None;
    }
    entries.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let positives = entries.iter().filter(|(_, positive)| *positive).count() as u64;
    let negatives = entries.len() as u64 - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    // Twice the number of pairs in the right order, so that ties stay whole numbers.
    let (mut twice_won, mut below) = (0_u128, 0_u64);
    // Zeros of both signs are one score.
    for tied in entries.chunk_by(|a, b| a.0 == b.0) {
        let of_positives = tied.iter().filter(|(_, positive)| *positive).count() as u64;
        let of_negatives = tied.len() as u64 - of_positives;
        twice_won += u128::from(of_positives) * u128::from(2 * below + of_negatives);
        below += of_negatives;
    }
    Some(twice_won as f64 / 2.0 / (positives as f64 * negatives as f64))
}

/// The scores of one rank's seeds, and which of these are positive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoredLabels {
    /// How positive each seed was found.
    pub scores: Vec<f32>,
    /// Whether it is.
    pub positive: Vec<bool>,
}

impl ScoredLabels {
    /// Adds a seed.
    pub fn push(&mut self, score: f32, positive: bool) {
        self.scores.push(score);
        self.positive.push(positive);
    }

    /// Those of all ranks, the same on each.
    ///
    /// # Errors
    /// A failure of the job.
    pub fn all_gather(&self, world: &mut ProcessGroup) -> Result<Self, ClusterError> {
        let entries = self.scores.iter().zip(&self.positive);
        let bytes = entries.flat_map(|(score, &positive)| {
            let [a, b, c, d] = score.to_le_bytes();
            [a, b, c, d, u8::from(positive)]
        });
        let mut all = Self::default();
        for part in all_gather_large(world, &bytes.collect::<Vec<u8>>())? {
            let (entries, _) = part.as_chunks::<ENTRY_BYTES>();
            for &[a, b, c, d, positive] in entries {
                all.push(f32::from_le_bytes([a, b, c, d]), positive != 0);
            }
        }
        Ok(all)
    }

    /// The area under the ROC curve, see [`roc_auc`].
    pub fn roc_auc(&self) -> Option<f64> {
        roc_auc(&self.scores, &self.positive)
    }
}

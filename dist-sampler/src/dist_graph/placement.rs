//! Feature rows of replies, which go to their places in a batch while the reply arrives.

use crate::dist_graph::attribute_draft::Shape;
use crate::dist_graph::routing::Elsewhere;
use crate::payload::PayloadSink;
use edgecut_graph::{FeatureDtype, GatheredRows};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The places of the feature rows of one reply.
pub(super) struct Placement {
    /// By part, the rows that the batch requests.
    requested: Arc<Vec<Elsewhere>>,
    part: usize,
    /// The requested rows of the part that this reply has.
    rows: Range<usize>,
    dtype: FeatureDtype,
    row_bytes: usize,
    /// The bytes of other attributes, which come first.
    bytes_before: usize,
    progress: Mutex<Progress>,
}

/// The state of a placement. The lock also keeps two replies apart, to a request that was sent again.
struct Progress {
    /// The matrix of the batch, `None` once all rows are placed.
    features: Option<Arc<GatheredRows>>,
    /// The number of rows that are placed, the first ones.
    num_placed: usize,
}

impl Placement {
    /// Creates the placement in `features` of a reply that has some of the rows that are requested from a part.
    pub(super) fn new(
        features: Arc<GatheredRows>,
        requested: Arc<Vec<Elsewhere>>,
        part: usize,
        rows: Range<usize>,
        shape: Shape,
    ) -> Self {
        let row_bytes = shape.dtype.row_bytes(shape.feature_dim);
        let bytes_before = (shape.bytes_per_node - row_bytes) * rows.len();
        let progress = Mutex::new(Progress { features: Some(features), num_placed: 0 });
        Self { requested, part, rows, dtype: shape.dtype, row_bytes, bytes_before, progress }
    }

    /// Returns the bytes of a reply that have not been placed, including other attributes.
    pub(super) fn bytes_left(&self) -> usize {
        self.payload_bytes() - self.lock().num_placed * self.row_bytes
    }

    /// Places the rows of a complete reply that have not been placed, and no others afterwards.
    pub(super) fn finish(&self, reply: &[u8]) {
        let mut progress = self.lock();
        self.place(&mut progress, reply);
        progress.features = None;
    }

    /// Places the rows that are complete in the first bytes of a reply.
    fn place(&self, progress: &mut Progress, bytes: &[u8]) {
        let Some(features) = &progress.features else { return };
        let start = progress.num_placed;
        let end = (bytes.len().saturating_sub(self.bytes_before) / self.row_bytes.max(1)).min(self.rows.len());
        if end <= start {
            return;
        }
        let positions = &self.requested[self.part].positions[self.rows.clone()][start..end];
        let bytes = &bytes[self.bytes_before..][start * self.row_bytes..end * self.row_bytes];
        progress.num_placed = end;
        features.place(positions, self.dtype, bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PayloadSink for Placement {
    fn payload_bytes(&self) -> usize {
        self.bytes_before + self.rows.len() * self.row_bytes
    }

    fn arrived(&self, bytes: &[u8]) {
        self.place(&mut self.lock(), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::node_fields::NodeFields;
    use edgecut_graph::NodeTypeId;

    const DIM: usize = 3;
    /// The bytes of the labels, which come first.
    const BEFORE: usize = 3 * 8;

    /// Returns the placement of three rows, the second to the fourth of those that a batch of five requests from part 1.
    fn placement(features: &Arc<GatheredRows>) -> Placement {
        let requested = Elsewhere { rows: vec![7, 8, 9, 10], positions: vec![0, 4, 1, 3] };
        let shape = Shape {
            node_type: NodeTypeId(0),
            wanted: NodeFields { labels: true, ..NodeFields::FEATURES },
            feature_dim: DIM,
            target_dim: 0,
            dtype: FeatureDtype::F32,
            bytes_per_node: 8 + DIM * size_of::<f32>(),
        };
        Placement::new(features.clone(), Arc::new(vec![Elsewhere::default(), requested]), 1, 1..4, shape)
    }

    /// Returns a reply with the rows 1, 2 and 3 after other attributes.
    fn reply() -> Vec<u8> {
        let rows: Vec<f32> = [1.0, 2.0, 3.0].into_iter().flat_map(|value| [value; DIM]).collect();
        [&[9_u8; BEFORE][..], bytemuck::cast_slice(&rows)].concat()
    }

    fn finish(features: Arc<GatheredRows>) -> Vec<f32> {
        let of_others = [5.0_f32; 2 * DIM];
        features.place(&[0, 2], FeatureDtype::F32, bytemuck::cast_slice(&of_others));
        let values = Arc::into_inner(features).expect("the placement has let go").finish();
        values.chunks(DIM).map(|row| row[0]).collect()
    }

    #[test]
    fn rows_are_placed_however_the_reply_arrives() {
        let reply = reply();
        for step in [1, 5, 12, 13, 30, 1000] {
            let features = Arc::new(GatheredRows::new(5, DIM));
            let placement = placement(&features);
            assert_eq!(placement.payload_bytes(), reply.len());
            for end in (0..reply.len()).step_by(step) {
                placement.arrived(&reply[..end]);
                let whole_rows = end.saturating_sub(BEFORE) / placement.row_bytes;
                assert_eq!(placement.bytes_left(), reply.len() - whole_rows * placement.row_bytes);
            }
            placement.finish(&reply);
            assert_eq!(finish(features), [5.0, 2.0, 5.0, 3.0, 1.0]);
        }
    }

    #[test]
    fn a_second_reply_places_the_rows_that_the_first_one_lacked() {
        let reply = reply();
        let features = Arc::new(GatheredRows::new(5, DIM));
        let placement = placement(&features);
        placement.arrived(&reply[..BEFORE + placement.row_bytes + 1]);
        placement.arrived(&reply[..BEFORE]);
        placement.arrived(&reply);
        placement.finish(&reply);
        // The first reply goes on to arrive.
        placement.arrived(&reply);
        assert_eq!(finish(features), [5.0, 2.0, 5.0, 3.0, 1.0]);
    }
}

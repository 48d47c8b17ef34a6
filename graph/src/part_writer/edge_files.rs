//! The files of the attributes and of the held-out edges of a part.

use super::files::{Content, Selection};
use super::id_files::id_files;
use super::in_edges::{HeldOutInPart, NegativesInPart};
use crate::dataset::{EdgeAttributes, EdgeIds, EdgeLabelValues};

/// Returns the names and the contents of the files of the attributes of edges. The positions of edges count `pieces` end to
/// end. The first piece has each attribute that there is.
pub(crate) fn attribute_files<'a>(
    pieces: &[&'a EdgeAttributes],
    positions: &'a [u64],
) -> Vec<(&'static str, Content<'a>)> {
    let rows = Selection::Rows(positions);
    let first = pieces[0];
    let mut files = Vec::new();
    if first.features.is_some() {
        let features = pieces.iter().filter_map(|&piece| piece.features.as_ref()).collect();
        files.push(("features", Content::Features(features, rows)));
    }
    if first.weights.is_some() {
        let weights = pieces.iter().filter_map(|&piece| piece.weights.as_deref()).collect();
        files.push(("weights", Content::Floats(weights, None, rows)));
    }
    if first.times.is_some() {
        let times = pieces.iter().filter_map(|&piece| piece.times.as_deref()).collect();
        files.push(("times", Content::Whole(times, rows)));
    }
    if first.ids.is_some() {
        let ids: Vec<&EdgeIds> = pieces.iter().filter_map(|&piece| piece.ids.as_ref()).collect();
        files.extend(id_files(&ids, positions));
    }
    let Some(of_first) = &first.labels else { return files };
    let labels = pieces.iter().filter_map(|&piece| piece.labels.as_ref());
    match &of_first.values {
        EdgeLabelValues::Classes { .. } => {
            let classes = labels.clone().filter_map(|labels| labels.values.classes());
            files.push(("labels", Content::Whole(classes.map(|classes| &classes[..]).collect(), rows)));
        }
        EdgeLabelValues::Targets(targets) => {
            let values = labels.clone().filter_map(|labels| labels.values.targets());
            let values = values.map(|targets| &targets.values[..]).collect();
            files.push(("targets", Content::Floats(values, Some(targets.dim), rows)));
        }
    }
    files.push(("splits", Content::Bytes(labels.map(|labels| &labels.splits[..]).collect(), rows)));
    files
}

/// Returns the names and the contents of the files of a part's held-out edges, which are given by split and part.
pub(crate) fn held_out_files(
    held_out: &[Vec<HeldOutInPart>; 2],
    part: usize,
    has_times: bool,
) -> Vec<(String, Content<'_>)> {
    let mut files = Vec::new();
    for (split, lists) in ["valid", "test"].into_iter().zip(held_out) {
        let HeldOutInPart { ends, times, negatives } = &lists[part];
        files.push((format!("{split}_edges"), Content::Edges(ends)));
        if has_times {
            files.push((format!("{split}_edge_times"), Content::Times(times.as_deref().unwrap_or_default())));
        }
        let negatives = match negatives {
            Some(NegativesInPart::OfEach { num, dst }) => Some(Content::Rows(dst, *num)),
            Some(NegativesInPart::Shared { ends }) => Some(Content::Edges(ends)),
            None => None,
        };
        files.extend(negatives.map(|content| (format!("{split}_negatives"), content)));
    }
    files
}

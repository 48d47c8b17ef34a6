//! The files of the edges of updated parts.

use super::{HeldOutInParts, PartRows, TypeEdges};
use crate::dataset::{EdgeIds, EdgeLabelValues};
use crate::memory::Features;
use crate::part::edge_dir;
use crate::part_writer::{Content, EdgeSlice, HeldOutInPart, Job, Selection, id_files};

impl TypeEdges<'_> {
    /// Returns the files of a part in the folder `root`.
    pub(in crate::update) fn jobs<'s>(
        &'s self,
        part: usize,
        root: &str,
        arrays: &'s PartRows,
        held_out: Option<&'s HeldOutInParts>,
    ) -> Vec<Job<'s>> {
        let PartRows { rows, positions, src_times, .. } = arrays;
        let dir = format!("{root}/{}", edge_dir(self.of_type));
        let known = &self.edges[part].attributes;
        let added = &self.added.attributes;
        let selected = Selection::Rows(positions);
        let mut files = vec![
            ("indptr".to_owned(), Content::Indptr(&rows.offsets)),
            ("indices".to_owned(), Content::Ids(&rows.values)),
        ];
        if let Some(features) = &known.features {
            let pieces: Vec<&Features> = [Some(features), added.features.as_ref()].into_iter().flatten().collect();
            files.push(("features".to_owned(), Content::Features(pieces, selected)));
        }
        if let Some(weights) = &known.weights {
            let pieces = [Some(&weights[..]), added.weights.as_deref()].into_iter().flatten().collect();
            files.push(("weights".to_owned(), Content::Floats(pieces, None, selected)));
        }
        if let Some(times) = &known.times {
            let pieces = [Some(&times[..]), added.times.as_deref()].into_iter().flatten().collect();
            files.push(("times".to_owned(), Content::Whole(pieces, selected)));
        }
        if let Some(ids) = &known.ids {
            let pieces: Vec<&EdgeIds> = [Some(ids), added.ids.as_ref()].into_iter().flatten().collect();
            let of_ids = id_files(&pieces, positions);
            files.extend(of_ids.into_iter().map(|(file, content)| (file.to_owned(), content)));
        }
        if let (Some(labels), Some([splits, added_splits])) = (&known.labels, self.label_splits(part)) {
            let values = added.labels.as_ref().map(|labels| &labels.values);
            match &labels.values {
                EdgeLabelValues::Classes { of_edges, .. } => {
                    let classes = values.and_then(EdgeLabelValues::classes);
                    let of_added = classes.map_or(&self.unlabeled.classes[..], |classes| &classes[..]);
                    files.push(("labels".to_owned(), Content::Whole(vec![&of_edges[..], of_added], selected)));
                }
                EdgeLabelValues::Targets(targets) => {
                    let of_added = values.and_then(EdgeLabelValues::targets);
                    let of_added = of_added.map_or(&self.unlabeled.targets[..], |targets| &targets.values[..]);
                    let pieces = vec![&targets.values[..], of_added];
                    files.push(("targets".to_owned(), Content::Floats(pieces, Some(targets.dim), selected)));
                }
            }
            files.push(("splits".to_owned(), Content::Bytes(vec![splits, added_splits], selected)));
        }
        if let Some(times) = src_times {
            files.push(("src_times".to_owned(), Content::Times(times)));
        }
        if let Some(held_out) = held_out {
            let has_times = held_out.iter().flatten().any(|of_part| of_part.times.is_some());
            for (split, lists) in ["valid", "test"].into_iter().zip(held_out) {
                let HeldOutInPart { ends, times, .. } = &lists[part];
                files.push((format!("{split}_edges"), Content::Edges(ends)));
                if has_times {
                    files.push((format!("{split}_edge_times"), Content::Times(times.as_deref().unwrap_or_default())));
                }
            }
        }
        files.into_iter().map(|(file, content)| Job::new(format!("{dir}/{file}.npy"), content)).collect()
    }

    /// Returns the edges of an updated part in the form that measures read.
    pub(in crate::update) fn slice<'s>(&self, arrays: &'s PartRows) -> EdgeSlice<'s> {
        EdgeSlice {
            src_type: self.src_type().index(),
            dst_type: self.dst_type().index(),
            indptr: &arrays.rows.offsets,
            indices: &arrays.rows.values,
        }
    }
}

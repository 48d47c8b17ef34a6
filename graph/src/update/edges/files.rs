//! The files of the edges of updated parts.

use super::{HeldOutInParts, PartRows, TypeEdges};
use crate::part::edge_dir;
use crate::part_writer::{Content, EdgeSlice, Job, attribute_files, held_out_files};

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
        let mut files = vec![
            ("indptr".to_owned(), Content::Indptr(&rows.offsets)),
            ("indices".to_owned(), Content::Ids(&rows.values)),
        ];
        let pieces = [&self.edges[part].attributes, &self.added.attributes];
        let of_attributes = attribute_files(&pieces, positions);
        files.extend(of_attributes.into_iter().map(|(file, content)| (file.to_owned(), content)));
        if let Some(times) = src_times {
            files.push(("src_times".to_owned(), Content::Times(times)));
        }
        if let Some(held_out) = held_out {
            let has_times = held_out.iter().flatten().any(|of_part| of_part.times.is_some());
            files.extend(held_out_files(held_out, part, has_times));
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

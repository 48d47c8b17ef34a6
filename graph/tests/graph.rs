//! Tests of readers and parts.

mod edge_arrays;
mod npy_export;
mod npy_folder;
mod npy_types;
mod ogb_folder;
mod other_layouts;
mod overlaps;
mod python_export;
mod real_data;
mod triples;
mod truncated_while_mapped;
mod tu;
mod typed_folders;

//! Parts of a partitioned graph: their files, and the arrays that are mapped from these.
// Contents of files end in an error, never in a panic.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::unreachable, clippy::panic))]

mod arrays;
mod book;
mod csc;
mod deferred_features;
mod digest;
mod folders;
mod format;
mod group;
mod hotness_rule;
mod in_memory;
mod label_choice;
mod map_files;
mod mapped_part;
mod meta;
mod overlaps;
mod own_files;
mod provenance;
mod release;
mod report;
mod seed_edges;
mod split_index;
mod table_ids;
mod type_meta;
mod verify_files;

pub use arrays::{HotNodes, PartEdges, PartLabel, PartNodes};
pub use book::{DiskBook, PartitionBook};
pub use csc::Csc;
pub use deferred_features::{
    BUILT_FEATURES_FILE, FEATURES_FILE, FeaturesChecksum, has_built_features, write_built_features,
};
pub(crate) use digest::with_digest;
pub(crate) use folders::edge_dir_name;
pub use folders::{edge_dir, is_folder_name, label_dir, node_dir, node_file, part_dir};
pub use format::FORMAT_NAME;
pub(crate) use format::version_of;
pub(crate) use group::PartsOnDisk;
pub use hotness_rule::HotnessRule;
pub use in_memory::{EdgesInMemory, NodesInMemory};
pub use label_choice::LabelId;
pub use mapped_part::Part;
pub use meta::{ID_MAP_FILE, META_FILE, Meta, TRANSFORMS_FILE, remedy_without_parts};
pub use own_files::{listed_files, possible_files};
pub use provenance::{Provenance, Updates};
pub use report::{PartMeta, Report};
pub use seed_edges::{SeedEdgeEnds, SeedEdgeSet};
pub use split_index::SplitIndex;
pub use table_ids::{TableIdSource, TableIds, TextIds};
pub use type_meta::{EdgeTypeMeta, NodeLabelMeta, NodeTypeMeta, TypeDigests};

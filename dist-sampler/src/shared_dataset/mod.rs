//! Data that the processes of one machine share.

pub(crate) mod converted_features;
pub(crate) mod share;
pub(crate) mod space;
pub(crate) mod temporary_folder;

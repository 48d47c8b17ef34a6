//! The memory of features and parameters.

pub(crate) mod available_memory;
pub(crate) mod cpu_cache;
pub(crate) mod device_memory;
pub(crate) mod feature_cache;
pub(crate) mod feature_rows;
pub(crate) mod parameter_count;
pub(crate) mod resident_memory;

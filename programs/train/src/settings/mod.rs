//! The flags of a run as data: those of settings, as the user gave them, as ranks compare them, and as a file.

pub(crate) mod effective_config;
pub(crate) mod flag_names;
pub(crate) mod flags;
pub(crate) mod given_flags;
pub(crate) mod model_settings;
pub(crate) mod named;
pub(crate) mod shared_flags;

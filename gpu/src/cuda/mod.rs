//! NVIDIA's driver and compiler, loaded at run time.

pub(crate) mod compiler;
pub(crate) mod library;
pub(crate) mod machine;
pub(crate) mod stream;

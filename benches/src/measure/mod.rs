//! Times, memory, the machine, and the records and reports of them.

pub(crate) mod child_program;
pub(crate) mod format;
pub(crate) mod machine;
pub(crate) mod process_memory;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod timing;

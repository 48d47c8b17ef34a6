//! The memory allocator that training programs want.
//!
//! A step's arrays are tens of megabytes, freed and wanted again at every step. The system's allocator gives such memory
//! back to the kernel each time, and the kernel zeroes it page by page when it is touched again, which takes longer than
//! most of the step's operations.

pub use mimalloc::MiMalloc;

/// Milliseconds after which freed memory goes back to the kernel, ten times that for large blocks: longer than a step.
const PURGE_DELAY_MS: i64 = 10_000;

/// Tells mimalloc to keep freed memory from step to step, and to ask for huge pages, which random reads profit from, where
/// the system grants them. For the start of `main`, in a program that has this as its allocator:
///
/// ```
/// use edgecut_trainer::allocator::{MiMalloc, keep_memory};
///
/// #[global_allocator]
/// static ALLOCATOR: MiMalloc = MiMalloc;
///
/// fn main() {
///     keep_memory();
/// }
/// ```
pub fn keep_memory() {
    // The number that mimalloc's header gives `mi_option_purge_delay`; the bindings do not name it.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: options are plain numbers that mimalloc reads when it next needs them.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS);
        libmimalloc_sys::mi_option_set_enabled_default(libmimalloc_sys::mi_option_large_os_pages, true);
    }
}

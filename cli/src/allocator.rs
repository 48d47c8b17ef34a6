//! The memory allocator of programs that sample and train.
//!
//! Each step allocates and frees arrays of tens of megabytes. The system's allocator returns such memory to the kernel
//! each time, and the kernel zeroes it page by page on the next access. This takes longer than most operations of a
//! step.

pub use mimalloc::MiMalloc;

/// Milliseconds until freed memory returns to the kernel; ten times as many for large blocks. Longer than a step.
const PURGE_DELAY_MS: i64 = 10_000;

/// Configures mimalloc to keep freed memory between steps, and to request huge pages, which speed up random reads. Call
/// it at the start of `main`, in a program with [`MiMalloc`] as its global allocator:
///
/// ```
/// use edgecut_cli::allocator::{MiMalloc, keep_memory};
///
/// #[global_allocator]
/// static ALLOCATOR: MiMalloc = MiMalloc;
///
/// fn main() {
///     keep_memory();
/// }
/// ```
pub fn keep_memory() {
    // The value of `mi_option_purge_delay` in mimalloc's header; the bindings lack a constant for it.
    const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
    // SAFETY: the options are plain numbers, which mimalloc reads when it needs them next.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS);
        libmimalloc_sys::mi_option_set_enabled_default(libmimalloc_sys::mi_option_large_os_pages, true);
    }
}

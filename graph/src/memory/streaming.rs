//! Copies that bypass the CPU caches.
//!
//! An ordinary store first reads the cache line that it overwrites, then keeps it in the cache. Both are wasted when
//! the output is larger than the cache. Streaming stores write whole lines directly to memory.

use std::mem::MaybeUninit;

/// The smallest output, in bytes, that is streamed. Smaller outputs are still in the L2 cache when they are read.
pub(crate) const MIN_BYTES: usize = 4 << 20;

/// The number of floats in one streaming store.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 4;

/// Copies with [`copy`] if `streams` is true, otherwise with ordinary stores.
#[inline]
pub(crate) fn copy_if(streams: bool, from: &[f32], to: &mut [MaybeUninit<f32>]) {
    if streams {
        copy(from, to);
    } else {
        to.write_copy_of_slice(from);
    }
}

/// Copies `from` to `to`, bypassing the caches if the CPU and the alignment of `to` allow it. The caller must call
/// [`finish`] on the same thread before another thread reads `to`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub(crate) fn copy(from: &[f32], to: &mut [MaybeUninit<f32>]) {
    assert_eq!(from.len(), to.len(), "lengths of a copy");
    #[cfg(target_arch = "x86_64")]
    if to.as_ptr().addr().is_multiple_of(LANES * size_of::<f32>()) && from.len().is_multiple_of(LANES) {
        for (from, to) in from.chunks_exact(LANES).zip(to.chunks_exact_mut(LANES)) {
            // SAFETY: Both chunks hold LANES floats. The start of `to` is aligned and all earlier chunks are whole, so
            // `to` is aligned for the store. Both intrinsics need only SSE, which every x86-64 CPU has.
            unsafe {
                std::arch::x86_64::_mm_stream_ps(to.as_mut_ptr().cast(), std::arch::x86_64::_mm_loadu_ps(from.as_ptr()))
            };
        }
        return;
    }
    to.write_copy_of_slice(from);
}

/// Makes the streamed copies of this thread visible to threads that synchronize with it.
#[inline]
pub(crate) fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: A fence has no operands, and every x86-64 CPU has SSE. Streaming stores are weakly ordered, so without
    // the fence a later release store could become visible before them.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_whole() {
        for (start, len) in (0..9).flat_map(|start| (0..40).map(move |len| (start, len))) {
            let from: Vec<f32> = (0..len).map(|v| v as f32 + 0.5).collect();
            let mut memory = vec![MaybeUninit::new(-1.0_f32); start + len + 1];
            copy(&from, &mut memory[start..start + len]);
            finish();
            // SAFETY: All of `memory` was initialized at its creation.
            let values: Vec<f32> = memory.iter().map(|value| unsafe { value.assume_init() }).collect();
            assert_eq!(values[start..start + len], from);
            assert!(values[..start].iter().chain(&values[start + len..]).all(|&value| value == -1.0));
        }
    }
}

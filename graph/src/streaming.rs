//! Copies past the caches.
//!
//! An ordinary store first reads the line that it is about to overwrite, and leaves it in the cache. For an output that is
//! larger than the cache both are for nothing: streaming stores write whole lines straight to memory.

use std::mem::MaybeUninit;

/// Outputs from this size on are worth it: smaller ones are still in the second-level cache when they are read.
pub(crate) const MIN_BYTES: usize = 4 << 20;

/// Floats of one streaming store.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 4;

/// [`copy`] if `streams`, or an ordinary copy.
#[inline]
pub(crate) fn copy_if(streams: bool, from: &[f32], to: &mut [MaybeUninit<f32>]) {
    match streams {
        true => copy(from, to),
        false => drop(to.write_copy_of_slice(from)),
    }
}

/// Copies `from` to `to`, which is as long, past the caches where the processor and the alignment allow it. [`finish`] has
/// to follow on the same thread before another one reads `to`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub(crate) fn copy(from: &[f32], to: &mut [MaybeUninit<f32>]) {
    assert_eq!(from.len(), to.len(), "lengths of a copy");
    #[cfg(target_arch = "x86_64")]
    if to.as_ptr().addr().is_multiple_of(LANES * size_of::<f32>()) && from.len().is_multiple_of(LANES) {
        for (from, to) in from.chunks_exact(LANES).zip(to.chunks_exact_mut(LANES)) {
            // SAFETY: both chunks are of LANES floats; `to` is aligned for the store, as its start is and the chunks before
            // it are whole. SSE, which both need, is part of x86-64.
            unsafe {
                std::arch::x86_64::_mm_stream_ps(to.as_mut_ptr().cast(), std::arch::x86_64::_mm_loadu_ps(from.as_ptr()))
            };
        }
        return;
    }
    to.write_copy_of_slice(from);
}

/// Makes this thread's streamed copies visible to whoever synchronises with it.
#[inline]
pub(crate) fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence has no operands, and SSE is part of x86-64.
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
            // SAFETY: all of it was written when it was made.
            let values: Vec<f32> = memory.iter().map(|value| unsafe { value.assume_init() }).collect();
            assert_eq!(values[start..start + len], from);
            assert!(values[..start].iter().chain(&values[start + len..]).all(|&value| value == -1.0));
        }
    }
}

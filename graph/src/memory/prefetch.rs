//! Software prefetching.
//!
//! Graph workloads read memory at random. Each cache miss costs about 100 ns, but a core can have about a dozen misses
//! in flight. Prefetching the data of the next few steps overlaps these waits with useful work.

const LINE_BYTES: usize = 64;

/// Prefetches the cache line of `values[index]`. An index past the end is allowed and has no effect.
#[inline(always)]
pub fn prefetch<T>(values: &[T], index: usize) {
    line(values.as_ptr().wrapping_add(index).cast());
}

/// Prefetches all cache lines of `values`.
#[inline(always)]
pub fn prefetch_all<T>(values: &[T]) {
    let start = values.as_ptr().cast::<u8>();
    for offset in (0..size_of_val(values)).step_by(LINE_BYTES) {
        line(start.wrapping_add(offset));
    }
}

#[inline(always)]
fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: A prefetch is only a hint. It returns no data and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_may_be_asked_for() {
        let values = [1_u64; 40];
        for index in [0, 39, 40, 1 << 40, usize::MAX] {
            prefetch(&values, index);
        }
        prefetch_all(&values);
        prefetch_all::<u64>(&[]);
        assert_eq!(values.iter().sum::<u64>(), 40);
    }
}

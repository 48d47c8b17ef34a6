//! Memory of received payloads, which is used again.
//!
//! A payload is read into initialized memory. To zero new memory takes a good part of the time that it takes to receive
//! the payload.

use bytes::Bytes;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The smallest payload whose memory is kept. Smaller memory comes quickly from the allocator.
const MIN_KEPT_BYTES: usize = 64 << 10;
/// The most memory that the process keeps. Payloads that are in use do not count.
const MAX_ALL_KEPT_BYTES: usize = 16 << 20;
/// Memory is used for payloads of at least this fraction of its size.
const MIN_USED: usize = 2;

/// The memory that is kept, the latest last. The caches of the CPU may still have that one.
static KEPT: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());

/// Memory for one payload, aligned for every element type. Its bytes are arbitrary until they are written.
pub(crate) struct PayloadMemory {
    words: Vec<u64>,
    len: usize,
}

impl PayloadMemory {
    /// Returns memory for `len` bytes.
    pub(crate) fn new(len: usize) -> Self {
        let words = len.div_ceil(size_of::<u64>());
        let words = if len < MIN_KEPT_BYTES { vec![0; words] } else { kept(words).unwrap_or_else(|| vec![0; words]) };
        Self { words, len }
    }

    /// Returns the size of the payload in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    /// Returns the payload, which is aligned even if it is empty. The last owner returns the memory.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PayloadMemory {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }
}

impl Drop for PayloadMemory {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        if (MIN_KEPT_BYTES..=MAX_ALL_KEPT_BYTES).contains(&size_of_val(&words[..])) {
            // The oldest memory is freed after the lock.
            let oldest = keep(&mut lock(), words);
            drop(oldest);
        }
    }
}

/// Adds memory to kept memory, and returns the oldest memory that is too much. Payloads of its size may not come anymore.
fn keep(kept: &mut Vec<Vec<u64>>, words: Vec<u64>) -> Vec<Vec<u64>> {
    kept.push(words);
    let mut all: usize = kept.iter().map(|words| size_of_val(&words[..])).sum();
    let mut num_oldest = 0;
    while all > MAX_ALL_KEPT_BYTES {
        all -= size_of_val(&kept[num_oldest][..]);
        num_oldest += 1;
    }
    kept.drain(..num_oldest).collect()
}

/// Takes kept memory of at least `words` words that is not much too large.
fn kept(words: usize) -> Option<Vec<u64>> {
    let mut kept = lock();
    let at = kept.iter().rposition(|free| (words..=words * MIN_USED).contains(&free.len()))?;
    Some(kept.remove(at))
}

fn lock() -> MutexGuard<'static, Vec<Vec<u64>>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_fits_its_payload_and_is_bounded() {
        for len in [0, 1, 7, 4096, MIN_KEPT_BYTES, MIN_KEPT_BYTES + 3] {
            let mut memory = PayloadMemory::new(len);
            memory.bytes_mut().fill(7);
            let payload = memory.into_bytes();
            assert_eq!(payload, vec![7; len]);
            assert!(payload.as_ptr().addr().is_multiple_of(align_of::<u64>()));
        }
        drop(PayloadMemory::new(2 * MAX_ALL_KEPT_BYTES));
        drop([(); 40].map(|()| PayloadMemory::new(1 << 20)));
        let all: usize = lock().iter().map(|words| size_of_val(&words[..])).sum();
        assert!(all <= MAX_ALL_KEPT_BYTES, "{all}");
    }

    #[test]
    fn memory_of_other_sizes_makes_way() {
        const WORDS: usize = MAX_ALL_KEPT_BYTES / size_of::<u64>();
        let mut kept = Vec::new();
        for words in [WORDS / 2, WORDS / 2, WORDS / 4, WORDS / 4] {
            drop(keep(&mut kept, vec![0; words]));
        }
        let sizes: Vec<usize> = kept.iter().map(Vec::len).collect();
        assert_eq!(sizes, [WORDS / 2, WORDS / 4, WORDS / 4]);
    }
}

//! Copies of arrays to a device.

use crate::kernels::error::{KernelError, guarded};
use crate::kernels::grid::{THREADS, cube_number, cubes};
use cubecl::bytes::Bytes;
use cubecl::future::block_on;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The number of words that are copied at a time: 64 MiB. The client copies its input, so a long array would otherwise
/// be in the host's memory several times.
const WORDS_PER_PIECE: usize = 16 << 20;

/// Copies `words` to a device array of its own, which lives until it is dropped. An empty array becomes one word
/// without meaning.
///
/// # Errors
/// Returns [`KernelError::Unsupported`] if the device cannot hold that many words in one array, and
/// [`KernelError::Failed`] if it fails.
pub(crate) fn upload<R: Runtime>(client: &ComputeClient<R>, words: &[u32]) -> Result<Handle, KernelError> {
    let bytes = size_of_val(words) as u64;
    let most = client.properties().memory.max_page_size;
    // Persistent arrays are outside of the pool, whose pages have a maximum size, so only the width of addresses bounds
    // them.
    if bytes > most && !client.properties().supports_address(AddressType::U64) {
        let what = format!("holds arrays of up to {most} bytes, but one has {bytes} bytes");
        return Err(KernelError::Unsupported { what });
    }
    let operation = "copy an array to the device";
    guarded(operation, || {
        let empty = || client.empty(bytes.max(4) as usize);
        let array = client.memory_persistent_allocation((), |()| empty());
        let array = array.map_err(|error| KernelError::failed(operation, &error))?;
        for (i, piece) in words.chunks(WORDS_PER_PIECE).enumerate() {
            let staged = stage(client, piece);
            // SAFETY: the lengths are those of the arrays, and a piece ends before the array does.
            unsafe {
                copy_piece::launch_unchecked::<R>(
                    client,
                    cubes(piece.len(), THREADS),
                    CubeDim::new_1d(THREADS as u32),
                    AddressType::from_len(words.len()),
                    ArrayArg::from_raw_parts(staged, piece.len()),
                    ArrayArg::from_raw_parts(array.clone(), words.len()),
                    i * WORDS_PER_PIECE,
                );
            }
            // Wait, so that only one piece is in the host's memory at a time.
            block_on(client.sync()).map_err(|error| KernelError::failed(operation, &error))?;
        }
        Ok(array)
    })
}

/// Copies a short array to the device for the kernels that follow.
pub(crate) fn stage<R: Runtime>(client: &ComputeClient<R>, words: &[u32]) -> Handle {
    let words = if words.is_empty() { &[0][..] } else { words };
    client.create(Bytes::from_elems(words.to_vec()))
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn copy_piece(piece: &Array<u32>, array: &mut Array<u32>, start: usize) {
    let at = cube_number() * THREADS + UNIT_POS as usize;
    if at < piece.len() {
        array[start + at] = piece[at];
    }
}

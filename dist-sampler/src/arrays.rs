//! Arrays as bytes, without copies.

use bytemuck::Pod;
use bytes::Bytes;

/// Converts an array to bytes without a copy.
pub(crate) fn bytes_of<T: Pod + Send + Sync>(values: Vec<T>) -> Bytes {
    struct Owner<T>(Vec<T>);
    impl<T: Pod> AsRef<[u8]> for Owner<T> {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    Bytes::from_owner(Owner(values))
}

/// Views bytes as an array of ids without a copy.
///
/// # Errors
/// A message if the length is not a multiple of 4 or the address is misaligned.
pub(crate) fn ids_in(bytes: &Bytes) -> Result<&[u32], String> {
    if bytes.is_empty() {
        return Ok(&[]); // an empty slice may have any address
    }
    bytemuck::try_cast_slice(bytes).map_err(|e| format!("{} bytes are not an array of ids: {e}", bytes.len()))
}

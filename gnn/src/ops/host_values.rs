//! Reading of tensors.

use burn::tensor::backend::Backend;
use burn::tensor::{Bytes, Tensor};

/// Returns the values of a tensor in row-major order. Waits for its device.
///
/// All code reads tensors by this function: data from a GPU can start at any address, and `TensorData` reads only addresses
/// that are multiples of a value's size.
pub fn host_values<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> Vec<f32> {
    let mut data = tensor.into_data();
    if let Some(copy) = aligned_copy(data.as_bytes(), data.dtype.size()) {
        data.bytes = copy;
    }
    // A backend may compute in another precision.
    data.convert::<f32>().into_vec().expect("aligned values, which have been converted to f32")
}

/// Copies values of `size` bytes whose address is not a multiple of `size`. Returns `None` for any other address.
fn aligned_copy(bytes: &[u8], size: usize) -> Option<Bytes> {
    if bytes.as_ptr().addr().is_multiple_of(size) {
        return None;
    }
    Some(match size {
        2 => Bytes::from_elems(bytemuck::pod_collect_to_vec::<u8, u16>(bytes)),
        4 => Bytes::from_elems(bytemuck::pod_collect_to_vec::<u8, u32>(bytes)),
        8 => Bytes::from_elems(bytemuck::pod_collect_to_vec::<u8, u64>(bytes)),
        other => unreachable!("models compute with numbers of 2, 4 or 8 bytes, not of {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_any_address_are_read() {
        let words: Vec<u64> = (0..5).map(|at| 0x0123_4567_89ab_cdef + at).collect();
        let bytes = bytemuck::cast_slice::<u64, u8>(&words);
        for size in [2, 4, 8] {
            assert!(aligned_copy(bytes, size).is_none());
            for start in 1..size {
                let odd = &bytes[start..start + 2 * size];
                let copy = aligned_copy(odd, size).expect("a copy");
                assert_eq!(&*copy, odd);
                assert!(copy.as_ptr().addr().is_multiple_of(size));
            }
        }
    }
}

//! Copies from the host that overlap with the device's computations.

use cubecl::bytes::{AllocationProperty, Bytes};
use cubecl::device::Device;
use cubecl::device_handle::DeviceHandle;
use cubecl::prelude::*;
use cubecl::server::{ComputeServer, CopyDescriptor, Handle};
use cubecl::stream_id::StreamId;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::in_flight::hand_over;
use super::matrix::{Element, Matrix};

/// The stream of all copies to the device, from whichever thread. Copies do not wait for kernels, while kernels wait
/// for the copies that they read.
const COPIES: StreamId = StreamId { value: 127 };

/// The number of bytes after which the page-locked memory of finished copies is released.
const BYTES_TO_LET_GO: usize = 32 << 20;
static SENT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Copies values to a device through page-locked memory if the runtime has it. The copy then overlaps with the work of
/// this thread and of the device.
pub(crate) fn upload<R: Runtime, T: bytemuck::Pod>(device: &R::Device, values: &[T]) -> Handle {
    // No runtime has empty buffers, and copies are of whole words.
    let words = size_of_val(values).next_multiple_of(4).max(4);
    let mut bytes = Vec::with_capacity(words);
    bytes.extend_from_slice(bytemuck::cast_slice(values));
    bytes.resize(words, 0);
    send::<R>(device, Bytes::from_bytes_vec(bytes))
}

/// Copies bytes to a device on the stream of copies.
fn send<R: Runtime>(device: &R::Device, mut bytes: Bytes) -> Handle {
    let handle = COPIES.executes(|| {
        let client = R::client(device);
        client.staging(std::iter::once(&mut bytes), false);
        if bytes.property() != AllocationProperty::Pinned {
            return client.create(bytes);
        }
        // `create` would first copy the bytes to ordinary memory.
        let handle = client.empty(bytes.len());
        let descriptor = CopyDescriptor::new(handle.clone().binding(), [bytes.len()].into(), [1].into(), 1);
        let server = DeviceHandle::<R::Server>::new(device.to_id());
        // On a stream without kernels nothing else releases the host memory of finished copies.
        let len = bytes.len();
        let lets_go = SENT_BYTES.fetch_add(len, Ordering::Relaxed) % BYTES_TO_LET_GO + len >= BYTES_TO_LET_GO;
        server.submit(move |server| {
            server.write(vec![(descriptor, bytes)], COPIES);
            if lets_go {
                // A failure here occurs again, and is reported, where the copy is read.
                let _ = server.flush(COPIES);
            }
        });
        handle
    });
    hand_over(&handle);
    handle
}

/// Copies a matrix of the given type to a device, overlapping with the device's computations.
///
/// # Panics
/// Panics if the number of values differs from the shape's.
pub fn place<R: Runtime>(device: &R::Device, values: Vec<f32>, shape: [usize; 2], element: Element) -> Matrix {
    assert_eq!(values.len(), shape[0] * shape[1], "values of a matrix");
    if values.is_empty() {
        return Matrix::empty(&R::client(device), shape, element);
    }
    let handle = match element {
        Element::F32 => send::<R>(device, Bytes::from_elems(values)),
        Element::F16 => {
            let mut halves = vec![f16::ZERO; values.len()];
            halves.convert_from_f32_slice(&values);
            upload::<R, _>(device, &halves)
        }
        Element::Bf16 => {
            let mut halves = vec![bf16::ZERO; values.len()];
            halves.convert_from_f32_slice(&values);
            upload::<R, _>(device, &halves)
        }
    };
    Matrix::new(handle, shape, element)
}

/// The weights of edges, and of rows' own values, on a device, as `f32`.
#[derive(Clone, Debug)]
pub struct DeviceWeights {
    /// `[num_edges]`.
    pub edges: Handle,
    /// `[num_rows]`, if rows aggregate their own values too.
    pub own: Option<Handle>,
}

impl DeviceWeights {
    /// Copies weights to a device.
    pub fn new<R: Runtime>(device: &R::Device, edges: &[f32], own: Option<&[f32]>) -> Self {
        Self { edges: upload::<R, _>(device, edges), own: own.map(|own| upload::<R, _>(device, own)) }
    }
}

//! Copies from the host, beside what the device computes.

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

/// The stream of all copies to the device, whichever threads ask for them: none waits for a kernel, and kernels wait for the
/// copies that they read.
const COPIES: StreamId = StreamId { value: 127 };

/// After so many bytes, page-locked memory that has been copied is given back.
const BYTES_TO_LET_GO: usize = 32 << 20;
static SENT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Copies values to a device through page-locked memory, where the runtime has such: then the copy goes on beside the work of
/// this thread and of the device.
pub(crate) fn upload<R: Runtime, T: bytemuck::Pod>(device: &R::Device, values: &[T]) -> Handle {
    // No runtime has buffers of no bytes, and copies are of whole words.
    let words = size_of_val(values).next_multiple_of(4).max(4);
    let mut bytes = Vec::with_capacity(words);
    bytes.extend_from_slice(bytemuck::cast_slice(values));
    bytes.resize(words, 0);
    send::<R>(device, Bytes::from_bytes_vec(bytes))
}

fn send<R: Runtime>(device: &R::Device, mut bytes: Bytes) -> Handle {
    let handle = COPIES.executes(|| {
        let client = R::client(device);
        client.staging(std::iter::once(&mut bytes), false);
        if bytes.property() != AllocationProperty::Pinned {
            return client.create(bytes);
        }
        // `create` would copy the bytes to ordinary memory first.
        let handle = client.empty(bytes.len());
        let descriptor = CopyDescriptor::new(handle.clone().binding(), [bytes.len()].into(), [1].into(), 1);
        let server = DeviceHandle::<R::Server>::new(device.to_id());
        // On a stream without kernels nobody else lets go of host memory whose copy is done.
        let len = bytes.len();
        let lets_go = SENT_BYTES.fetch_add(len, Ordering::Relaxed) % BYTES_TO_LET_GO + len >= BYTES_TO_LET_GO;
        server.submit(move |server| {
            server.write(vec![(descriptor, bytes)], COPIES);
            if lets_go {
                // What fails here fails again, and is told, where the copy is read.
                let _ = server.flush(COPIES);
            }
        });
        handle
    });
    hand_over(&handle);
    handle
}

/// A matrix on a device in the given type, copied beside what it computes.
///
/// # Panics
/// If there are not as many values as the shape says.
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

/// Weights of edges, and of rows' own values, on a device, `f32`.
#[derive(Clone, Debug)]
pub struct DeviceWeights {
    /// `[num_edges]`.
    pub edges: Handle,
    /// `[num_rows]`, where rows count themselves.
    pub own: Option<Handle>,
}

impl DeviceWeights {
    /// Copies weights to a device.
    pub fn new<R: Runtime>(device: &R::Device, edges: &[f32], own: Option<&[f32]>) -> Self {
        Self { edges: upload::<R, _>(device, edges), own: own.map(|own| upload::<R, _>(device, own)) }
    }
}

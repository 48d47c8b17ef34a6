//! Matrices on a device, and how kernels read and write them.

use cubecl::bytes::Bytes;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The widest vector that a thread loads at once.
const MAX_VECTOR: usize = 4;

/// The type of a matrix's values. Sums are in `f32` whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// 16-bit floats with the range of 32 bits.
    Bf16,
}

impl Element {
    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Runs `$body` with `$name` as the type of `$element`.
macro_rules! with_element {
    ($element:expr, $name:ident => $body:expr) => {
        match $element {
            $crate::kernels::matrix::Element::F32 => {
                type $name = f32;
                $body
            }
            $crate::kernels::matrix::Element::F16 => {
                type $name = half::f16;
                $body
            }
            $crate::kernels::matrix::Element::Bf16 => {
                type $name = half::bf16;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// A row-major matrix in a device's memory. Rows may lie apart: value `(r, c)` is at `r * stride + c`.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Where the values are.
    pub handle: Handle,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Values from one row to the next, at least `columns`.
    pub stride: usize,
    /// The type of the values.
    pub element: Element,
}

impl Matrix {
    /// A matrix whose rows lie end to end.
    pub fn new(handle: Handle, [rows, columns]: [usize; 2], element: Element) -> Self {
        Self { handle, rows, columns, stride: columns, element }
    }

    /// Room for a matrix, of which nothing has been written.
    pub fn empty<R: Runtime>(client: &ComputeClient<R>, shape: [usize; 2], element: Element) -> Self {
        // No runtime has buffers of no bytes.
        let bytes = (shape[0] * shape[1] * element.size()).next_multiple_of(4).max(4);
        Self::new(client.empty(bytes), shape, element)
    }

    /// A matrix of zeros.
    pub fn zeros<R: Runtime>(client: &ComputeClient<R>, shape: [usize; 2], element: Element) -> Self {
        let bytes = (shape[0] * shape[1] * element.size()).next_multiple_of(4).max(4);
        Self::new(client.create(Bytes::from_bytes_vec(vec![0; bytes])), shape, element)
    }

    /// A matrix with the given values.
    ///
    /// # Panics
    /// If there are not `rows * columns` values.
    pub fn from_slice<R: Runtime>(client: &ComputeClient<R>, values: &[f32], shape: [usize; 2]) -> Self {
        assert_eq!(values.len(), shape[0] * shape[1], "values of a matrix");
        if values.is_empty() {
            return Self::empty(client, shape, Element::F32);
        }
        Self::new(client.create_from_slice(bytemuck::cast_slice(values)), shape, Element::F32)
    }

    /// Values from the first to the last, those between rows included.
    pub(crate) fn span(&self) -> usize {
        (self.rows * self.stride).max(1)
    }

    /// Whether vectors of `size` values fit into rows and start where vectors may.
    fn takes_vectors(&self, size: usize) -> bool {
        self.columns.is_multiple_of(size) && self.stride.is_multiple_of(size)
    }

    /// What a kernel gets.
    pub(crate) fn arg<E: Float, N: Size, R: Runtime>(&self, vector: usize) -> RowsLaunch<E, N, R> {
        // SAFETY: kernels index below `rows * stride`, which the buffer holds.
        let values = unsafe { ArrayArg::from_raw_parts(self.handle.clone(), self.span()) };
        RowsLaunch::new(values, self.stride / vector)
    }
}

/// The longest vectors that all matrices can be read in.
pub(crate) fn vector_size(matrices: &[&Matrix]) -> usize {
    let mut size = MAX_VECTOR;
    while !matrices.iter().all(|matrix| matrix.takes_vectors(size)) {
        size /= 2;
    }
    size
}

/// An array of `length` 4-byte values.
pub(crate) fn array<R: Runtime>(handle: &Handle, length: usize) -> ArrayArg<R> {
    // SAFETY: callers give the length of what they index.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), length.max(1)) }
}

/// A matrix as kernels see it, in vectors of `N` values.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Rows<E: Float, N: Size> {
    values: Array<Vector<E, N>>,
    /// Vectors from one row to the next.
    stride: usize,
}

#[cube]
impl<E: Float, N: Size> Rows<E, N> {
    pub(crate) fn get(&self, row: usize, lane: usize) -> Vector<f32, N> {
        Vector::cast_from(self.values[row * self.stride + lane])
    }

    pub(crate) fn set(&mut self, row: usize, lane: usize, value: Vector<f32, N>) {
        self.values[row * self.stride + lane] = Vector::cast_from(value);
    }
}

/// The sum of a vector's values.
#[cube]
pub(crate) fn total_of<N: Size>(vector: Vector<f32, N>) -> f32 {
    let mut total = 0.0f32;
    let size = N::value();
    #[unroll]
    for i in 0..size {
        total += vector[i];
    }
    total
}

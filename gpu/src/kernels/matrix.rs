//! Matrices on a device, and kernels' access to them.

use cubecl::bytes::Bytes;
use cubecl::prelude::*;
use cubecl::server::Handle;

/// The maximum number of values that a thread loads at once.
const MAX_VECTOR: usize = 4;

/// The type of a matrix's values. Sums are in `f32` for every type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// 16-bit floats with the exponent range of 32-bit floats.
    Bf16,
}

impl Element {
    /// Returns the size of a value in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }
}

/// Evaluates `$body` with `$name` as the Rust type of `$element`.
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

/// A row-major matrix in a device's memory. Rows may be padded: value `(r, c)` is at `r * stride + c`.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The memory of the values.
    pub handle: Handle,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// The number of values from one row to the next, at least `columns`.
    pub stride: usize,
    /// The type of the values.
    pub element: Element,
}

impl Matrix {
    /// Creates a matrix whose rows are contiguous.
    pub fn new(handle: Handle, [rows, columns]: [usize; 2], element: Element) -> Self {
        Self { handle, rows, columns, stride: columns, element }
    }

    /// Allocates a matrix with undefined values.
    pub fn empty<R: Runtime>(client: &ComputeClient<R>, shape: [usize; 2], element: Element) -> Self {
        // No runtime has empty buffers.
        let bytes = (shape[0] * shape[1] * element.size()).next_multiple_of(4).max(4);
        Self::new(client.empty(bytes), shape, element)
    }

    /// Creates a matrix of zeros.
    pub fn zeros<R: Runtime>(client: &ComputeClient<R>, shape: [usize; 2], element: Element) -> Self {
        let bytes = (shape[0] * shape[1] * element.size()).next_multiple_of(4).max(4);
        Self::new(client.create(Bytes::from_bytes_vec(vec![0; bytes])), shape, element)
    }

    /// Creates a matrix with the given values.
    ///
    /// # Panics
    /// Panics if there are not `rows * columns` values.
    pub fn from_slice<R: Runtime>(client: &ComputeClient<R>, values: &[f32], shape: [usize; 2]) -> Self {
        assert_eq!(values.len(), shape[0] * shape[1], "values of a matrix");
        if values.is_empty() {
            return Self::empty(client, shape, Element::F32);
        }
        Self::new(client.create_from_slice(bytemuck::cast_slice(values)), shape, Element::F32)
    }

    /// Returns the number of values from the first to the last row, including padding.
    pub(crate) fn span(&self) -> usize {
        (self.rows * self.stride).max(1)
    }

    /// Returns true if rows can be read in vectors of `size` values, aligned to their size.
    fn takes_vectors(&self, size: usize) -> bool {
        self.columns.is_multiple_of(size) && self.stride.is_multiple_of(size)
    }

    /// Returns the matrix as an argument of a kernel.
    pub(crate) fn arg<E: Float, N: Size, R: Runtime>(&self, vector: usize) -> RowsLaunch<E, N, R> {
        // SAFETY: kernels index below `rows * stride`, which the buffer holds.
        let values = unsafe { ArrayArg::from_raw_parts(self.handle.clone(), self.span()) };
        RowsLaunch::new(values, self.stride / vector)
    }
}

/// Returns the length of the longest vectors in which all matrices can be read.
pub(crate) fn vector_size(matrices: &[&Matrix]) -> usize {
    let mut size = MAX_VECTOR;
    while !matrices.iter().all(|matrix| matrix.takes_vectors(size)) {
        size /= 2;
    }
    size
}

/// Returns an array of `length` 4-byte values as an argument of a kernel.
pub(crate) fn array<R: Runtime>(handle: &Handle, length: usize) -> ArrayArg<R> {
    // SAFETY: callers pass the length that their kernels index.
    unsafe { ArrayArg::from_raw_parts(handle.clone(), length.max(1)) }
}

/// A matrix in kernels, in vectors of `N` values.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Rows<E: Float, N: Size> {
    values: Array<Vector<E, N>>,
    /// The number of vectors from one row to the next.
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

/// Returns the sum of a vector's values.
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

//! The type of all floats of this program, before its first test starts.
//!
//! burn 0.21 has one type of floats for a device of a process: the type of the first backend that makes a tensor. Tests in `f64` and in
//! `f32` share the device, so the tests that run, and their order, would decide how exact all others are.

use burn::backend::NdArray;
use burn::tensor::{DType, FloatDType, IntDType, Tensor, set_default_dtypes};

/// A process with this variable computes in `f32`.
pub(crate) const SINGLE_PRECISION: &str = "EDGECUT_TESTS_IN_SINGLE_PRECISION";

extern "C" fn choose_float_type() {
    let is_single = std::env::var_os(SINGLE_PRECISION).is_some();
    let float_type = if is_single { FloatDType::F32 } else { FloatDType::F64 };
    // A failure is an error of the test below: nothing can be printed before `main`.
    let _ = set_default_dtypes::<NdArray<f64>>(&Default::default(), float_type, IntDType::I64);
}

// SAFETY: the C library calls the functions of this section before `main`, on one thread. The function has the type that it expects and
// uses nothing of the standard library that needs `main`: an environment variable, locks and a map.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = choose_float_type;

#[test]
fn the_first_test_does_not_choose_the_type_of_floats() {
    let of_single = Tensor::<NdArray<f32>, 1>::zeros([1], &Default::default());
    let of_double = Tensor::<NdArray<f64>, 1>::zeros([1], &Default::default());
    assert_eq!([of_single.dtype(), of_double.dtype()], [DType::F64; 2]);
}

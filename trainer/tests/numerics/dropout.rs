//! Keyed dropout as an operation on tensors.

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::Tensor;
use edgecut_gnn::ops::{DropoutKey, dropout};

type Grad = Autodiff<NdArray>;

#[test]
fn the_gradient_passes_the_same_mask() {
    let ones = Tensor::<Grad, 2>::ones([37, 53], &Default::default()).require_grad();
    let key = DropoutKey::new(1, 2, 3);
    let output = dropout(ones.clone(), 0.3, key);
    let gradients = output.clone().sum().backward();
    // For an input of ones, the output and the gradient both equal the mask.
    assert_eq!(ones.grad(&gradients).expect("a gradient").into_data(), output.clone().into_data());
    let kept = values(output).iter().filter(|value| **value != 0.0).count() as f64 / (37.0 * 53.0);
    assert!((kept - 0.7).abs() < 0.05, "kept {kept}");
}

#[test]
fn the_mask_follows_the_key_and_not_the_threads_or_the_layout() {
    let x = Draws(1).matrix::<NdArray>(301, 211);
    let run = |threads: usize, key| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| dropout(x.clone(), 0.5, key).into_data())
    };
    let key = DropoutKey::new(7, 0, 0);
    let expected = run(1, key);
    assert_eq!(expected, run(5, key));
    assert_ne!(expected, run(1, key.for_layer(1)));
    let columns = Tensor::<NdArray, 2>::from_data(x.clone().transpose().into_data(), &Default::default());
    assert_eq!(expected, dropout(columns.transpose(), 0.5, key).into_data());
    // A tensor whose memory is not shared is masked in place, with the same result.
    let unshared = Tensor::<NdArray, 2>::from_data(x.to_data(), &Default::default());
    assert_eq!(expected, dropout(unshared, 0.5, key).into_data());
}

#[test]
fn a_shared_input_is_left_alone() {
    let x = Draws(1).matrix::<NdArray>(30, 21);
    let before = x.to_data();
    let dropped = dropout(x.clone(), 0.5, DropoutKey::new(0, 0, 0));
    assert_eq!(x.to_data(), before);
    assert_ne!(dropped.into_data(), before);
}

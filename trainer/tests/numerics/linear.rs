//! The fused dense layer compared with separate products, sums, ReLU and masks.

use crate::support::*;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::backend::Backend;
use burn::tensor::{FloatDType, Tensor, activation::relu};
use edgecut_gnn::ops::{Activation, DropoutKey, DropoutMask, GnnBackend, Linear, Precision, dropout, linear};

type Plain = NdArray<f64>;
type Grad = Autodiff<Plain>;

fn key() -> DropoutKey {
    DropoutKey::new(1, 2, 3)
}

/// Makes the activation: ReLU with this dropout probability, or none.
fn activation(relu_dropout: Option<f64>) -> Activation {
    relu_dropout.map_or(Activation::Identity, |probability| Activation::Relu(DropoutMask::new(probability, key())))
}

/// Draws a matrix of `f32` numbers. All tests use the same backend, since the backend that a process uses first decides the
/// type of new tensors.
fn single(draws: &mut Draws, rows: usize, columns: usize) -> Tensor<Grad, 2> {
    draws.matrix::<Grad>(rows, columns).cast(FloatDType::F32)
}

fn slow<B: GnnBackend>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
    relu_dropout: Option<f64>,
) -> Tensor<B, 2> {
    let sums = x.matmul(weight);
    let sums = bias.map_or(sums.clone(), |bias| sums + bias.unsqueeze());
    match relu_dropout {
        Some(probability) => dropout(relu(sums), probability, key()),
        None => sums,
    }
}

#[test]
fn a_relu_of_its_own_equals_the_steps_one_by_one() {
    let mut draws = Draws(12);
    for (rows, columns) in [(1, 1), (7, 5), (400, 100)] {
        for probability in [0.0, 0.4] {
            let x = draws.matrix(rows, columns);
            assert_same_gradients(
                &mut draws,
                [x],
                |[x]| activation(Some(probability)).apply(x),
                |[x]| dropout(relu(x), probability, key()),
                0.0,
                &format!("{rows} x {columns}, {probability}"),
            );
        }
    }
}

#[test]
fn forward_and_gradients_equal_the_steps_one_by_one() {
    let mut draws = Draws(11);
    // Numbers of rows around the size of a chunk, and widths that are not multiples of a vector.
    for (rows, fan_in, fan_out) in [(1, 1, 1), (3, 7, 5), (255, 4, 3), (256, 20, 33), (257, 33, 20), (1100, 9, 47)] {
        for relu_dropout in [None, Some(0.0), Some(0.4)] {
            let what = format!("{rows} x {fan_in} x {fan_out}, {relu_dropout:?}");
            let x = draws.matrix(rows, fan_in);
            let weight = draws.matrix(fan_in, fan_out);
            let bias = draws.matrix(1, fan_out);
            assert_same_gradients(
                &mut draws,
                [x.clone(), weight.clone()],
                |[x, weight]| linear(x, weight, None, activation(relu_dropout)),
                |[x, weight]| slow(x, weight, None, relu_dropout),
                1e-9,
                &what,
            );
            assert_same_gradients(
                &mut draws,
                [x, weight, bias],
                |[x, weight, bias]| linear(x, weight, Some(bias.reshape([fan_out])), activation(relu_dropout)),
                |[x, weight, bias]| slow(x, weight, Some(bias.reshape([fan_out])), relu_dropout),
                1e-9,
                &what,
            );
        }
    }
}

#[test]
fn an_input_that_needs_no_gradient_gets_none_and_the_weight_gets_the_same() {
    let mut draws = Draws(12);
    let x = draws.matrix::<Grad>(300, 6);
    let weight = draws.matrix::<Grad>(6, 4);
    let of_weight_and_x = |x: Tensor<Grad, 2>| {
        let weight = weight.clone().require_grad();
        let gradients = linear(x.clone(), weight.clone(), None, activation(Some(0.0))).sum().backward();
        (values(weight.grad(&gradients).expect("a gradient")), x.grad(&gradients))
    };
    let (of_weight, of_x) = of_weight_and_x(x.clone());
    assert!(of_x.is_none());
    let (with_x, of_x) = of_weight_and_x(x.require_grad());
    assert!(of_x.is_some());
    assert_eq!(of_weight, with_x);
}

#[test]
fn a_nan_is_not_hidden_by_the_activation() {
    let device = Default::default();
    let x = Tensor::<Plain, 2>::from_data([[f64::NAN, 1.0]], &device);
    let weight = Tensor::from_data([[1.0], [1.0]], &device);
    assert!(values(linear(x, weight, None, activation(Some(0.0))))[0].is_nan());
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let mut draws = Draws(13);
    let x = single(&mut draws, 5000, 37);
    let weight = single(&mut draws, 37, 29);
    let run = |threads: usize, precision: Precision| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| {
            let x = x.clone().require_grad();
            let weight = weight.clone().require_grad();
            let settings = Linear { activation: activation(Some(0.3)), precision };
            let output = linear(x.clone(), weight.clone(), None, settings);
            let gradients = output.clone().powi_scalar(2).sum().backward();
            let of = |t: &Tensor<Grad, 2>| bits(t.grad(&gradients).expect("a gradient"));
            [bits(output.inner()), of(&x), of(&weight)]
        })
    };
    for precision in [Precision::F32, Precision::Bf16] {
        assert_eq!(run(1, precision), run(7, precision));
    }
    assert_ne!(run(1, Precision::F32), run(1, Precision::Bf16));
}

/// Rounds to 8 bits of precision.
fn round(value: f64) -> f64 {
    let bits = (value as f32).to_bits();
    f64::from(f32::from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff_0000))
}

#[test]
fn bf16_layers_equal_plain_loops_over_rounded_factors() {
    let mut draws = Draws(14);
    for (rows, fan_in, fan_out) in [(1, 1, 1), (3, 7, 5), (253, 33, 20), (700, 100, 47), (260, 300, 16)] {
        let x = single(&mut draws, rows, fan_in).require_grad();
        let weight = single(&mut draws, fan_in, fan_out).require_grad();
        let bias = single(&mut draws, 1, fan_out).reshape([fan_out]).detach().require_grad();
        let grad = single(&mut draws, rows, fan_out);
        let settings = Linear { activation: activation(Some(0.0)), precision: Precision::Bf16 };
        let output = linear(x.clone(), weight.clone(), Some(bias.clone()), settings);
        let gradients = (output.clone() * grad.clone()).sum().backward();

        let [xs, ws, bs, gs] = [x.clone(), weight.clone(), bias.clone().unsqueeze(), grad].map(|t| values(t.inner()));
        let mut outputs = vec![0.0; rows * fan_out];
        let mut x_grad = vec![0.0; rows * fan_in];
        let mut weight_grad = vec![0.0; fan_in * fan_out];
        let mut bias_grad = vec![0.0; fan_out];
        for row in 0..rows {
            for column in 0..fan_out {
                let position = row * fan_out + column;
                let terms = (0..fan_in).map(|i| round(xs[row * fan_in + i]) * round(ws[i * fan_out + column]));
                let sum = terms.sum::<f64>() + bs[column];
                if sum <= 0.0 {
                    continue;
                }
                outputs[position] = sum;
                // The bias is added and its gradient is summed in f32.
                bias_grad[column] += gs[position];
                for i in 0..fan_in {
                    x_grad[row * fan_in + i] += round(gs[position]) * round(ws[i * fan_out + column]);
                    weight_grad[i * fan_out + column] += round(gs[position]) * round(xs[row * fan_in + i]);
                }
            }
        }
        let what = format!("{rows} x {fan_in} x {fan_out}");
        let bias_given = bias.grad(&gradients).expect("a gradient").unsqueeze::<2>();
        assert_close(&values(output.inner()), &outputs, 1e-4, &what);
        assert_close(&values(x.grad(&gradients).expect("a gradient")), &x_grad, 1e-4, &what);
        assert_close(&values(weight.grad(&gradients).expect("a gradient")), &weight_grad, 1e-4, &what);
        assert_close(&values(bias_given), &bias_grad, 1e-4, &what);
    }
}

fn bits<B: Backend>(tensor: Tensor<B, 2>) -> Vec<u32> {
    tensor.into_data().iter::<f32>().map(f32::to_bits).collect()
}

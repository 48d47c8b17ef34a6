//! Dense layers of the models in `f32` and in `bf16`, compared with matrix products in cache and with burn's operations.

use crate::args::{Common, LinearArgs, Shape};
use crate::limits::{Limit, sgemm};
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::{Timing, Work};
use crate::work::dense_layer::HiddenLayer;
use crate::work::synthetic::{Cpu, Grad, random_tensor};
use burn::tensor::Tensor;
use edgecut_gnn::ops::Precision;

/// The layer in evaluation.
const FORWARD: HiddenLayer = HiddenLayer { dropout: 0.0, precision: Precision::F32 };
/// The layer in training.
const BOTH: HiddenLayer = HiddenLayer { dropout: 0.5, precision: Precision::F32 };

pub(crate) fn run(args: &LinearArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let limit = sgemm(common.threads(), common.reps())?;
    for &shape in &args.shapes {
        let forward_bf16 = HiddenLayer { precision: Precision::Bf16, ..FORWARD };
        let both_bf16 = HiddenLayer { precision: Precision::Bf16, ..BOTH };
        let (names, mut works): (Vec<&str>, Vec<Work<'_>>) = [
            ("dense layer, forward", forward(shape, |x, w, b| FORWARD.fused(x, w, b))),
            ("dense layer in bf16, forward", forward(shape, move |x, w, b| forward_bf16.fused(x, w, b))),
            ("dense layer, forward + backward", both(shape, |x, w, b| BOTH.fused(x, w, b))),
            ("dense layer in bf16, forward + backward", both(shape, move |x, w, b| both_bf16.fused(x, w, b))),
            ("burn's matmul, forward", forward(shape, |x, w, b| FORWARD.plain(x, w, b))),
            ("burn's matmul, forward + backward", both(shape, |x, w, b| BOTH.plain(x, w, b))),
        ]
        .into_iter()
        .unzip();
        let timings = Timing::measure_in_turns(common.reps(), &mut works)?;
        for (name, timing) in names.into_iter().zip(timings) {
            report.add(&record(name, shape, timing, common, &limit))?;
        }
    }
    Ok(())
}

fn forward(
    shape: Shape,
    layer: impl Fn(Tensor<Cpu, 2>, Tensor<Cpu, 2>, Tensor<Cpu, 1>) -> Tensor<Cpu, 2> + 'static,
) -> Work<'static> {
    let x = random_tensor::<Cpu>(shape.rows, shape.inputs, 1);
    let weight = random_tensor::<Cpu>(shape.inputs, shape.outputs, 2);
    let bias = random_tensor::<Cpu>(1, shape.outputs, 3).reshape([shape.outputs]);
    Box::new(move |stopwatch| {
        let x = x.clone();
        let weight = weight.clone();
        let bias = bias.clone();
        stopwatch.time(|| drop(layer(x, weight, bias)));
        Ok(())
    })
}

fn both(
    shape: Shape,
    layer: impl Fn(Tensor<Grad, 2>, Tensor<Grad, 2>, Tensor<Grad, 1>) -> Tensor<Grad, 2> + 'static,
) -> Work<'static> {
    let x = random_tensor::<Grad>(shape.rows, shape.inputs, 1).require_grad();
    let weight = random_tensor::<Grad>(shape.inputs, shape.outputs, 2).require_grad();
    let bias = random_tensor::<Grad>(1, shape.outputs, 3).reshape([shape.outputs]).detach().require_grad();
    Box::new(move |stopwatch| {
        let x = x.clone();
        let weight = weight.clone();
        let bias = bias.clone();
        // A sum is the cheapest scalar to start a backward pass from. Its time is included.
        stopwatch.time(|| drop(layer(x, weight, bias).sum().backward()));
        Ok(())
    })
}

fn record(name: &str, shape: Shape, timing: Timing, common: &Common, limit: &Limit) -> Record {
    let Shape { rows, inputs, outputs } = shape;
    // The backward pass has two products of the same size, for the gradients of the weight and of the input.
    let products = if name.contains("backward") { 3.0 } else { 1.0 };
    let flops = products * 2.0 * rows as f64 * inputs as f64 * outputs as f64;
    let work = format!("[{rows}, {inputs}] x [{inputs}, {outputs}]");
    Record::new("linear", name, work, timing, flops, "FLOP/s")
        .against(limit.rate(), limit.name.clone())
        .param("rows", rows)
        .param("inputs", inputs)
        .param("outputs", outputs)
        .param("threads", common.threads())
}

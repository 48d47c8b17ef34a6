//! Losses of labels and numbers compared with their formulas, value by value, and their gradients with differences.

use burn::backend::{Autodiff, NdArray};
use burn::tensor::Tensor;
use edgecut_trainer::loss::{AnyLoss, LossSettings, OutputKind, Target};

use crate::support::*;

type Grad = Autodiff<NdArray<f64>>;

const SEEDS: usize = 7;
const COLUMNS: usize = 3;

/// Returns a target of numbers or labels. Some values are unknown. No value is close to where a loss has an edge.
fn target(draws: &mut Draws, are_labels: bool) -> Vec<f32> {
    let mut values = Vec::new();
    for position in 0..SEEDS * COLUMNS {
        values.push(match position % 5 {
            0 => f32::NAN,
            _ if are_labels => draws.below(2) as f32,
            _ => 3.0 * draws.float() as f32,
        });
    }
    values
}

/// Computes the loss of one output in the obvious way.
fn of_value(loss: &str, output: f64, value: f64) -> f64 {
    let error = output - value;
    match loss {
        "mse" => error * error,
        "mae" => error.abs(),
        "huber" if error.abs() <= 0.7 => error * error / 2.0,
        "huber" => 0.7 * (error.abs() - 0.35),
        "bce" => {
            let probability = 1.0 / (1.0 + (-output).exp());
            -(value * probability.ln() + (1.0 - value) * (1.0 - probability).ln())
        }
        "bce:gamma=1.5,positive_weight=3" => {
            let probability = 1.0 / (1.0 + (-output).exp());
            let other = 1.0 - probability;
            -(3.0 * value * other.powf(1.5) * probability.ln() + (1.0 - value) * probability.powf(1.5) * other.ln())
        }
        other => panic!("no formula of {other}"),
    }
}

/// Returns the sum over known values.
fn sum_of(loss: &str, outputs: &[f64], values: &[f32]) -> f64 {
    let known = outputs.iter().zip(values).filter(|(_, value)| !value.is_nan());
    known.map(|(&output, &value)| of_value(loss, output, f64::from(value))).sum()
}

#[test]
fn losses_equal_their_formulas_with_unknown_values() {
    let of_classes = ["cross-entropy", "focal"];
    let mut losses: Vec<&str> = AnyLoss::ALL.iter().map(|(name, _)| *name).collect();
    losses.retain(|name| !of_classes.contains(name));
    losses.push("bce:gamma=1.5,positive_weight=3");
    for name in losses {
        let mut settings: LossSettings = name.parse().expect("settings");
        if name == "huber" {
            settings = settings.with("delta", 0.7);
        }
        let loss = AnyLoss::new(settings).expect("a loss");
        let mut draws = Draws(11);
        let values_of_target = target(&mut draws, name.starts_with("bce"));
        let outputs = draws.matrix::<Grad>(SEEDS, COLUMNS).mul_scalar(2.0).require_grad();
        let target = Target::Numbers { values: values_of_target.clone(), dim: COLUMNS };
        let result = loss.sum(outputs.clone(), &target).expect("a target that fits");
        let rows = values(outputs.clone());
        let num_known = values_of_target.iter().filter(|value| !value.is_nan()).count() as f64;
        assert!(num_known < (SEEDS * COLUMNS) as f64, "some values are unknown");
        assert_eq!((result.num_seeds, result.weight), (SEEDS, num_known));
        let expected = sum_of(name, &rows, &values_of_target);
        assert_close(&values(result.mean()), &[expected / num_known], 1e-5, name);
        assert_close(&values(result.totals.clone())[..1], &[expected], 1e-5, name);
        let gradients = result.mean().backward();
        let found = values(outputs.grad(&gradients).expect("a gradient"));
        for (position, found) in found.iter().enumerate() {
            const STEP: f64 = 1e-6;
            let mut moved = [rows.clone(), rows.clone()];
            moved[0][position] -= STEP;
            moved[1][position] += STEP;
            let [below, above] = moved.map(|rows| sum_of(name, &rows, &values_of_target));
            assert_close(&[*found], &[(above - below) / (2.0 * STEP) / num_known], 1e-5, &format!("{name}: gradient"));
        }
        // A target without any known value has no mean, and no gradient.
        let unknown = Target::Numbers { values: vec![f32::NAN; SEEDS * COLUMNS], dim: COLUMNS };
        let result = loss.sum(outputs.clone(), &unknown).expect("a target that fits");
        assert_eq!((values(result.mean()), result.weight), (vec![0.0], 0.0), "{name}");
        let empty = Target::Numbers { values: Vec::new(), dim: COLUMNS };
        let result = loss.sum(Tensor::<Grad, 2>::zeros([0, COLUMNS], &Default::default()), &empty).expect("no seeds");
        assert_eq!((values(result.mean()), result.num_seeds), (vec![0.0], 0), "{name}");
    }
}

#[test]
fn labels_that_are_predicted_correctly_are_counted() {
    let outputs = Tensor::<Grad, 2>::from_data([[0.5, -0.5], [2.0, 3.0]], &Default::default());
    let target = Target::Numbers { values: vec![1.0, 1.0, f32::NAN, 1.0], dim: 2 };
    let loss: AnyLoss = "bce".parse().expect("a loss");
    assert_eq!(loss.sum(outputs, &target).expect("a target that fits").num_correct(), 2);
}

#[test]
fn targets_of_another_kind_or_shape_are_refused() {
    let outputs = || Tensor::<Grad, 2>::zeros([2, 2], &Default::default());
    let mse: AnyLoss = "mse".parse().expect("a loss");
    let error = mse.sum(outputs(), &Target::Classes(vec![0, 1])).expect_err("classes").to_string();
    assert_eq!(error, "the batch has classes as targets, but the loss mse needs numbers");
    let narrow = Target::Numbers { values: vec![0.0; 2], dim: 1 };
    let error = mse.sum(outputs(), &narrow).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("the batch has 2 numbers as targets, but the model has 2 rows of 2 outputs"));
    let error = AnyLoss::default().sum(outputs(), &narrow).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("the batch has numbers as targets, but the loss cross-entropy needs classes"));
}

#[test]
fn the_default_loss_follows_the_targets() {
    let first = |targets: OutputKind| AnyLoss::all_for(targets).next().map(|loss| loss.name());
    assert_eq!(first(OutputKind::Classes(3)), Some("cross-entropy"));
    assert_eq!(first(OutputKind::Labels(3)), Some("bce"));
    assert_eq!(first(OutputKind::Numbers(3)), Some("mse"));
    let error = AnyLoss::default().outputs(OutputKind::Numbers(1)).expect_err("numbers");
    assert!(error.ends_with("there is 1 number to predict: use `loss=mse` or `loss=mae` or `loss=huber`"), "{error}");
    for (wrong, expected) in [
        ("huber:delta=0", "`delta` 0 of the loss huber is not a finite number above 0"),
        ("huber:delta=x", "`delta` x of the loss huber: invalid float literal"),
        ("huber:beta=1", "the loss huber has no setting `beta`: leave it out"),
        ("bce:gamma=-1", "`gamma` -1 of the loss bce is not from 0 to 100"),
        ("bce:positive_weight=0", "`positive_weight` 0 of the loss bce is not a finite number above 0"),
        ("hinge", "unknown loss \"hinge\": expected cross-entropy, focal, bce, mse, mae or huber"),
    ] {
        assert_eq!(wrong.parse::<AnyLoss>(), Err(expected.to_owned()));
    }
}

//! The conversion of gradients and parameters to flat vectors and back.

use std::sync::Arc;

use burn::backend::{Autodiff, NdArray};
use burn::module::list_param_ids;
use burn::optim::{GradientsParams, Optimizer};
use edgecut_gnn::nn::Aggregation;
use edgecut_gnn::ops::Block;
use edgecut_trainer::adam;
use edgecut_trainer::gradients::*;
use edgecut_trainer::loss::cross_entropy;
use edgecut_trainer::models::{
    ConvKind, GcnSettings, Mode, ModelInput, Network, NetworkConfig, NodeClassifier, SageSettings,
};

use crate::support::*;

type Grad = Autodiff<NdArray>;

fn model(seed: u64) -> Network<Grad> {
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    NetworkConfig::stack(kind, 6, 8, 3, 2).init(seed, &Default::default()).expect("a valid model")
}

fn gradients(model: &Network<Grad>) -> GradientsParams {
    let mut draws = Draws(3);
    // The blocks only have to chain, so each one has its own graph.
    let mut block = |num_dst, num_src| {
        Block::new(Arc::new(random_graph(&mut draws, num_dst, num_src, 5)), num_dst, num_src).expect("a block")
    };
    let blocks = vec![block(20, 40), block(10, 20)];
    let input = ModelInput::new(draws.matrix(40, 6), blocks).expect("an input");
    let logits = model.forward(input, Mode::Eval).expect("a batch that fits");
    let labels: Vec<i64> = (0..10).map(|seed| seed % 3).collect();
    GradientsParams::from_grads(cross_entropy(logits, &labels).expect("labels that fit").mean().backward(), model)
}

#[test]
fn an_adam_step_through_the_flat_vector_is_the_direct_step() {
    let direct = model(1);
    let through = direct.clone();
    let step = |model: Network<Grad>, gradients| adam(0.0).step(0.01, model, gradients);

    let flat = flatten_gradients(&through, gradients(&through));
    assert_eq!(flat.len(), num_parameters(&through));
    assert!(flat.iter().filter(|value| **value != 0.0).count() > flat.len() / 2);
    let restored = unflatten_gradients(&through, &flat).expect("as many values as parameters");
    let before = flatten_parameters(&direct);
    let of_direct = gradients(&direct);
    let (direct, through) = (step(direct, of_direct), step(through, restored));
    let after = flatten_parameters(&direct);
    assert_ne!(before, after);
    assert_eq!(after, flatten_parameters(&through));

    let again = unflatten_gradients(&through, &flat).expect("as many values as parameters");
    assert_eq!(flatten_gradients(&through, again), flat);
}

#[test]
fn absent_gradients_are_zeros() {
    let model = model(1);
    assert_eq!(flatten_gradients(&model, GradientsParams::new()), vec![0.0; num_parameters(&model)]);
}

#[test]
fn parameters_load_and_keep_their_ids_and_their_training() {
    let source = model(1);
    let target = model(2);
    let ids = list_param_ids(&target);
    let flat = flatten_parameters(&source);
    assert_ne!(flat, flatten_parameters(&target));
    let target = load_parameters(target, &flat).expect("as many values as parameters");
    assert_eq!(flat, flatten_parameters(&target));
    assert_eq!(ids, list_param_ids(&target));
    let gradient = flatten_gradients(&target, gradients(&target));
    assert_eq!(gradient, flatten_gradients(&source, gradients(&source)));
    assert!(gradient.iter().any(|value| *value != 0.0), "loaded parameters are still trained");
}

#[test]
fn rejects_other_lengths() {
    let model = model(1);
    let expected = num_parameters(&model);
    for given in [0, expected - 1, expected + 1] {
        let flat = vec![0.0; given];
        assert_eq!(unflatten_gradients(&model, &flat).err(), Some(FlatLengthError { given, expected }));
        assert_eq!(load_parameters(model.clone(), &flat).err(), Some(FlatLengthError { given, expected }));
    }
}

#[test]
fn another_precision_is_converted() {
    let device = Default::default();
    let config = NetworkConfig::stack(ConvKind::Gcn(GcnSettings), 2, 2, 2, 1);
    let single = flatten_parameters(&config.init::<NdArray<f32>>(7, &device).expect("a valid model"));
    let double = flatten_parameters(&config.init::<NdArray<f64>>(7, &device).expect("a valid model"));
    assert_eq!(single, double);
}

//! The state of an optimizer in the order of the module's fields.
//!
//! burn keeps the state of each parameter under an id that is random in each process, so its records are useless in
//! another process.

use crate::floats::Floats;
use crate::optimizer::AnyOptimizer;
use burn::module::{AutodiffModule, ModuleVisitor, Param};
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::momentum::{Momentum, MomentumConfig, MomentumState};
use burn::optim::record::AdaptorRecord;
use burn::optim::{
    Adam, AdamState, AdamW, AdamWState, AdaptiveMomentumState, Optimizer, Sgd, SgdState, SimpleOptimizer,
};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::host_values;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A module with one parameter.
type AnyModule<B> = Param<Tensor<B, 1>>;
/// The records of burn by the id of the parameter, which have the same type for all modules.
type RecordsOf<O, B> = <OptimizerAdaptor<O, AnyModule<B>, B> as Optimizer<AnyModule<B>, B>>::Record;

/// The state of an optimizer, as checkpoints store it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OptimizerState {
    /// For each trained parameter, the number of steps that its state counts; 0 if it has no state.
    pub(crate) steps: Vec<u64>,
    /// The tensors of the parameters with a state, one after the other.
    pub(crate) values: Floats,
}

/// The error for a state that belongs to another model or optimizer.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the stored state of the optimizer belongs to another model or optimizer")]
pub(crate) struct OtherOptimizer;

impl<B: AutodiffBackend, M: AutodiffModule<B>> AnyOptimizer<B, M> {
    /// Returns a copy of the state.
    pub(crate) fn state(&self, model: &M) -> OptimizerState {
        match self {
            Self::Adam(optimizer) => store(optimizer, model),
            Self::AdamW(optimizer) => store(optimizer, model),
            Self::Sgd(optimizer) => store(optimizer, model),
        }
    }

    /// Returns the optimizer with a stored state.
    ///
    /// # Errors
    /// [`OtherOptimizer`] if the state does not match the parameters of the model.
    pub(crate) fn with_state(self, model: &M, state: &OptimizerState) -> Result<Self, OtherOptimizer> {
        Ok(match self {
            Self::Adam(optimizer) => Self::Adam(load(optimizer, model, state)?),
            Self::AdamW(optimizer) => Self::AdamW(load(optimizer, model, state)?),
            Self::Sgd(optimizer) => Self::Sgd(load(optimizer, model, state)?),
        })
    }
}

/// An optimizer whose state of a parameter is a number of steps and some tensors of the parameter's shape.
trait FlatState<B: Backend>: SimpleOptimizer<B> {
    /// Appends the tensors to `values` and returns the number of steps, at least 1; 0 and no tensors for a state that is
    /// equal to none.
    ///
    /// # Shapes
    /// - `parameter`: the parameter of the tensors
    fn flatten<const D: usize>(state: Self::State<D>, parameter: &Tensor<B, D>, values: &mut Vec<f32>) -> u64;

    /// Takes the tensors off the front of the state.
    fn unflatten<const D: usize>(steps: u64, tensors: &mut Tensors<'_, '_, B, D>) -> Option<Self::State<D>>;
}

/// Tensors of one shape, read from a flat vector.
struct Tensors<'a, 'v, B: Backend, const D: usize> {
    rest: &'a mut &'v [f32],
    dims: [usize; D],
    device: B::Device,
}

impl<B: Backend, const D: usize> Tensors<'_, '_, B, D> {
    fn take(&mut self) -> Option<Tensor<B, D>> {
        let (values, rest) = self.rest.split_at_checked(self.dims.iter().product())?;
        *self.rest = rest;
        Some(Tensor::from_data(TensorData::new(values.to_vec(), self.dims), &self.device))
    }
}

fn append<B: Backend, const D: usize>(tensor: Tensor<B, D>, all: &mut Vec<f32>) {
    all.extend(host_values(tensor));
}

/// Implements the flat state of optimizers with two moments of each value.
macro_rules! flat_moments {
    ($($optimizer:ident($state:ident)),*) => {
        $(impl<B: Backend> FlatState<B> for $optimizer {
            fn flatten<const D: usize>(state: $state<B, D>, _: &Tensor<B, D>, values: &mut Vec<f32>) -> u64 {
                append(state.momentum.moment_1, values);
                append(state.momentum.moment_2, values);
                state.momentum.time as u64
            }

            fn unflatten<const D: usize>(steps: u64, tensors: &mut Tensors<'_, '_, B, D>) -> Option<$state<B, D>> {
                let moment_1 = tensors.take()?;
                let moment_2 = tensors.take()?;
                let moments = AdaptiveMomentumState::new(usize::try_from(steps).ok()?, moment_1, moment_2);
                Some($state::new(moments))
            }
        })*
    };
}

flat_moments! { Adam(AdamState), AdamW(AdamWState) }

impl<B: Backend> FlatState<B> for Sgd<B> {
    fn flatten<const D: usize>(state: SgdState<B, D>, parameter: &Tensor<B, D>, values: &mut Vec<f32>) -> u64 {
        let Some(momentum) = state.momentum else { return 0 };
        append(velocity_of(momentum, parameter), values);
        1
    }

    fn unflatten<const D: usize>(_: u64, tensors: &mut Tensors<'_, '_, B, D>) -> Option<SgdState<B, D>> {
        Some(SgdState::new(Some(MomentumState::new(tensors.take()?))))
    }
}

/// Returns the velocity of a momentum. burn does not give access to it, but a step with a momentum of 1 and a gradient of
/// 0 returns it. The zeros are negative, so that the sum keeps every bit.
fn velocity_of<B: Backend, const D: usize>(state: MomentumState<B, D>, parameter: &Tensor<B, D>) -> Tensor<B, D> {
    let copying = Momentum::<B>::new(&MomentumConfig::new().with_momentum(1.0).with_dampening(0.0));
    let zeros = Tensor::full(parameter.shape(), -0.0_f32, &parameter.device());
    copying.transform(zeros, Some(state)).0
}

fn store<O: FlatState<B::InnerBackend>, M: AutodiffModule<B>, B: AutodiffBackend>(
    optimizer: &OptimizerAdaptor<O, M, B>,
    model: &M,
) -> OptimizerState {
    struct Store<O: SimpleOptimizer<B::InnerBackend>, B: AutodiffBackend> {
        records: RecordsOf<O, B>,
        state: OptimizerState,
    }
    impl<O: FlatState<B::InnerBackend>, B: AutodiffBackend> ModuleVisitor<B> for Store<O, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if !param.is_require_grad() {
                return;
            }
            let steps = match self.records.remove(&param.id) {
                Some(record) => O::flatten(record.into_state::<D>(), &param.val().inner(), &mut self.state.values.0),
                None => 0,
            };
            self.state.steps.push(steps);
        }
    }
    let mut visitor = Store::<O, B> { records: optimizer.to_record(), state: OptimizerState::default() };
    model.visit(&mut visitor);
    visitor.state
}

fn load<O: FlatState<B::InnerBackend>, M: AutodiffModule<B>, B: AutodiffBackend>(
    optimizer: OptimizerAdaptor<O, M, B>,
    model: &M,
    state: &OptimizerState,
) -> Result<OptimizerAdaptor<O, M, B>, OtherOptimizer> {
    struct Load<'a, O: SimpleOptimizer<B::InnerBackend>, B: AutodiffBackend> {
        records: RecordsOf<O, B>,
        steps: std::slice::Iter<'a, u64>,
        values: &'a [f32],
        fits: bool,
    }
    impl<O: FlatState<B::InnerBackend>, B: AutodiffBackend> ModuleVisitor<B> for Load<'_, O, B> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
            if !param.is_require_grad() {
                return;
            }
            let value = param.val().inner();
            let mut tensors = Tensors { rest: &mut self.values, dims: value.dims(), device: value.device() };
            match self.steps.next() {
                Some(0) => {}
                Some(&steps) => match O::unflatten(steps, &mut tensors) {
                    Some(state) => drop(self.records.insert(param.id, AdaptorRecord::from_state(state))),
                    None => self.fits = false,
                },
                None => self.fits = false,
            }
        }
    }
    let mut visitor = Load::<O, B> {
        // The records of a new optimizer are empty.
        records: optimizer.to_record(),
        steps: state.steps.iter(),
        values: &state.values.0,
        fits: true,
    };
    model.visit(&mut visitor);
    let Load { records, mut steps, values, fits } = visitor;
    if !fits || steps.next().is_some() || !values.is_empty() {
        return Err(OtherOptimizer);
    }
    Ok(optimizer.load_record(records))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients::{flatten_parameters, load_parameters, unflatten_gradients};
    use crate::optimizer::OptimizerKind;
    use burn::backend::{Autodiff, NdArray};
    use edgecut_gnn::nn::{Dense, WeightInit};

    type Grad = Autodiff<NdArray>;
    type Optimizer = AnyOptimizer<Grad, Dense<Grad>>;

    fn model() -> Dense<Grad> {
        Dense::new(2, 2, &mut WeightInit::new(0), &Default::default())
    }

    fn steps(mut model: Dense<Grad>, optimizer: &mut Optimizer, numbers: std::ops::Range<usize>) -> Dense<Grad> {
        for number in numbers {
            let flat: Vec<f32> = (0..6).map(|at| ((at * 7 + number) as f32).sin()).collect();
            let gradients = unflatten_gradients(&model, &flat).expect("six gradients");
            model = optimizer.step(0.1, model, gradients);
        }
        model
    }

    #[test]
    fn a_stored_state_continues_with_the_same_bits_in_a_model_with_other_ids() {
        let sgd = OptimizerKind::Sgd;
        for (kind, momentum) in
            [(OptimizerKind::Adam, None), (OptimizerKind::AdamW, None), (sgd, Some(0.9)), (sgd, Some(0.0))]
        {
            let mut optimizer = Optimizer::new(kind, momentum, 0.01);
            assert!(optimizer.state(&model()).values.0.is_empty(), "nothing before the first step");
            let half = steps(model(), &mut optimizer, 0..3);
            let state = optimizer.state(&half);
            let parameters = flatten_parameters(&half);
            let whole = flatten_parameters(&steps(half, &mut optimizer, 3..6));
            let other = load_parameters(model(), &parameters).expect("as many parameters");
            let mut again = Optimizer::new(kind, momentum, 0.01).with_state(&other, &state).expect("its state");
            assert_eq!(again.state(&other), state, "{kind:?}");
            assert_eq!(flatten_parameters(&steps(other, &mut again, 3..6)), whole, "{kind:?}");
        }
    }

    #[test]
    fn the_state_of_another_model_is_refused() {
        let mut optimizer = Optimizer::new(OptimizerKind::Adam, None, 0.0);
        let trained = steps(model(), &mut optimizer, 0..1);
        let state = optimizer.state(&trained);
        let mut longer = state.clone();
        longer.values.0.push(0.0);
        let shorter = OptimizerState { values: Floats(state.values.0[1..].to_vec()), ..state.clone() };
        let fewer = OptimizerState { steps: vec![1], ..state };
        for wrong in [longer, shorter, fewer] {
            let refused = Optimizer::new(OptimizerKind::Adam, None, 0.0).with_state(&trained, &wrong).err();
            assert_eq!(refused, Some(OtherOptimizer));
        }
    }
}

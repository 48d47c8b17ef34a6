//! The steps of evaluations, of which observers are told: each evaluation is told of up to its last step.

use crate::scoring::{Cpu, rare_class};
use crate::support::{on_ranks, parts_of};
use burn::backend::Autodiff;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{DistGraphConfig, Fanout, SamplerConfig};
use edgecut_graph::Split;
use edgecut_trainer::inference::{InferenceStep, LayerWiseConfig};
use edgecut_trainer::models::{ConvKind, SageSettings};
use edgecut_trainer::{
    BestModel, EpochReport, FitConfig, NodePrediction, NodeTrainingConfig, Observer, StepReport, TrainError,
    TrainingConfig, train_model,
};

/// The steps of the evaluations of a run.
#[derive(Default)]
pub(crate) struct EvaluationSteps(Vec<(Split, InferenceStep)>);

impl EvaluationSteps {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks that the steps of each pass increase up to the last one. Returns the number of passes on a split.
    pub(crate) fn check(&self, split: Split) -> usize {
        let mut passes = 0;
        for (at, (of_split, step)) in self.0.iter().enumerate() {
            let before = if at == 0 { None } else { Some(&self.0[at - 1]) };
            let is_first = before.is_none_or(|(_, before)| before.step == before.num_steps);
            if let Some((split_before, before)) = before.filter(|_| !is_first) {
                let of_pass = (split_before, before.pass, before.num_steps);
                assert_eq!((of_split, step.pass, step.num_steps), of_pass, "{before:?}, then {step:?}");
                assert!(step.step > before.step, "{before:?}, then {step:?}");
            }
            assert!((1..=step.num_steps).contains(&step.step), "{step:?}");
            passes += usize::from(is_first && *of_split == split);
        }
        let last = self.0.last().map(|(_, step)| (step.step, step.num_steps));
        assert!(last.is_some_and(|(step, num_steps)| step == num_steps), "{last:?}");
        passes
    }
}

/// An observer that records its calls.
pub(crate) struct Calls<S> {
    pub(crate) epochs: Vec<EpochReport<S>>,
    pub(crate) improved: usize,
    pub(crate) evaluations: EvaluationSteps,
    /// The fold of each step.
    pub(crate) folds: Vec<Option<usize>>,
}

impl<S> Default for Calls<S> {
    fn default() -> Self {
        Self { epochs: Vec::new(), improved: 0, evaluations: EvaluationSteps::default(), folds: Vec::new() }
    }
}

impl<S: Clone> Observer<S> for Calls<S> {
    fn step(&mut self, report: &StepReport) {
        self.folds.push(report.fold);
    }

    fn evaluation_step(&mut self, split: Split, step: InferenceStep) {
        self.evaluations.0.push((split, step));
    }

    fn epoch(&mut self, report: &EpochReport<S>) -> std::io::Result<()> {
        self.epochs.push(report.clone());
        Ok(())
    }

    fn improved(&mut self, _: &BestModel<'_>, _: &mut ProcessGroup) -> std::io::Result<()> {
        self.improved += 1;
        Ok(())
    }
}

#[test]
fn observers_follow_the_evaluation_of_nodes() {
    let dir = parts_of(&rare_class(false), 2);
    // Layer by layer, a pass for each of two layers precedes the scores.
    for (layer_wise, passes) in [(None, 1), (Some(LayerWiseConfig::default()), 3)] {
        let training = TrainingConfig {
            hidden_channels: 8,
            batch_size: 20,
            eval_layer_wise: layer_wise,
            fit: FitConfig { num_epochs: 3, ..FitConfig::default() },
            ..TrainingConfig::new(ConvKind::Sage(SageSettings::default()), SamplerConfig::new(vec![Fanout::All; 2]))
        };
        let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
        let counts = on_ranks(dir.path(), 2, &DistGraphConfig::default(), |graph, world| {
            let mut calls = Calls::default();
            train_model::<NodePrediction, Autodiff<Cpu>>(&graph, &config, world, &Default::default(), &mut calls)?;
            world.barrier()?;
            Ok::<_, TrainError>([Split::Valid, Split::Test].map(|split| calls.evaluations.check(split)))
        });
        for count in counts {
            assert_eq!(count.expect("a run"), [3 * passes, passes]);
        }
    }
}
